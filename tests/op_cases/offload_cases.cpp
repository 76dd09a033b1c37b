#include "tests/op_cases/op_case.h"

namespace trainer {
namespace {

const std::vector<std::int64_t> element_counts = {1, 7, 257, 1021};

}  // namespace

std::vector<OpCase> offload_cases() {
  std::vector<OpCase> cases;
  for (const DType type : {DType::f32, DType::u8}) {
    for (const std::int64_t count : element_counts) {
      const TensorType x{type, {count}};
      const Values values = type == DType::u8 ? Values(static_cast<std::size_t>(count), 200) : random_values(x, 3);
      const auto slot = static_cast<std::int32_t>(1000 + count);
      cases.push_back({"leaves " + x.to_string() + " as it is", offload_op(x, {.slot = slot}), {values}, {{}}});
      cases.push_back({"has nothing to wait for", offload_op(x, {.slot = slot, .finish = true}), {values}, {{}}});
    }
  }
  return cases;
}

std::vector<OpCase> fetch_cases() {
  std::vector<OpCase> cases;
  for (const std::int64_t count : element_counts) {
    const TensorType y{DType::f32, {count}};
    const auto slot = static_cast<std::int32_t>(5000 + count);
    cases.push_back(
        {"a new slot of " + y.to_string(), fetch_op(y, {.slot = slot}), {}, {{Values(y.num_elements(), 0)}}});
    cases.push_back(
        {"has nothing to wait for", fetch_op(y, {.slot = slot, .finish = true}), {random_values(y, 4)}, {{}}});
  }
  return cases;
}

}  // namespace trainer
