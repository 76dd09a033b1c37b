#include "tests/op_cases/op_case.h"

namespace trainer {

namespace {

std::vector<Op> repeated_rows() {
  std::vector<Op> ops;
  for (const auto& [rows, columns] : {std::pair{1, 1}, {3, 5}, {7, 64}, {129, 66}, {2, 768}, {1021, 13}})
    ops.push_back(repeat_row_op({DType::f32, {columns}}, rows));
  return ops;
}

}  // namespace

std::vector<OpCase> repeat_row_cases() {
  std::vector<OpCase> cases;
  for (const Op& op : repeated_rows()) {
    const Values row = random_values(op.inputs[0], 1);
    Values y;
    for (std::int64_t i = 0; i < op.outputs[0].shape[0]; ++i) y.insert(y.end(), row.begin(), row.end());
    cases.push_back({op.outputs[0].to_string(), op, {row}, {{y}}});
    cases.back().tolerance = 0;
  }
  return cases;
}

std::vector<OpCase> sum_rows_cases() {
  std::vector<OpCase> cases;
  for (const Op& op : repeated_rows()) {
    const Values dy = random_values(op.outputs[0], 2);
    Values sum(static_cast<std::size_t>(op.inputs[0].num_elements()), 0);
    for (std::size_t i = 0; i < dy.size(); ++i) sum[i % sum.size()] += dy[i];
    cases.push_back({op.outputs[0].to_string(), sum_rows_op(op), {dy}, {{sum}}});
  }
  return cases;
}

}  // namespace trainer
