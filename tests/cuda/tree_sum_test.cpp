#include "cuda/ops/tree_sum.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/cpu/cpu_device.h"
#include "engine/ops/op_definition.h"
#include "tests/cuda/emulated_device.h"
#include "tests/ranks/rank_threads.h"

// Sums over ranks of emulated GPUs in one order, beside those of ranks of CPUs: bit by bit.

namespace trainer::cuda {
namespace {

using Bytes = std::vector<std::byte>;
using MakeDevice = std::function<std::unique_ptr<Device>()>;

std::unique_ptr<Device> make_ordered() { return make_emulated_device(RankSums{.layout = {}, .in_order = true}); }
std::unique_ptr<Device> make_unordered() { return make_emulated_device(); }

/// Of sizes far apart, so that another order of sums has other bits.
template <typename T>
Bytes drawn_as(unsigned seed, std::int64_t count) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(-12, 12);
  std::vector<T> numbers;
  for (std::int64_t i = 0; i < count; ++i)
    numbers.push_back(static_cast<T>((random() % 2 == 0 ? -1 : 1) * std::exp2(exponent(random))));
  Bytes bytes(numbers.size() * sizeof(T));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}
Bytes drawn_numbers(DType type, int rank, std::size_t tensor, std::int64_t count) {
  const auto seed = static_cast<unsigned>(rank * 100 + static_cast<int>(tensor));
  return type == DType::f64 ? drawn_as<double>(seed, count) : drawn_as<float>(seed, count);
}

/// All operands of each rank after the op, which each has drawn before it; parts lie in their tensors where
/// `in_place`.
std::vector<std::vector<Bytes>> summed(const MakeDevice& make, int num_ranks, bool in_place,
                                       const std::function<Op(int rank)>& op_of) {
  std::vector<std::vector<Bytes>> of_ranks(static_cast<std::size_t>(num_ranks));
  on_ranks(num_ranks, [&](SocketCommunicator& ranks) {
    const std::unique_ptr<Device> device = make();
    device->set_communicator(ranks);
    const Op op = op_of(ranks.rank());
    const auto num_wholes = op.kind == OpKind::all_reduce
                                ? op.inputs.size()
                                : static_cast<std::size_t>(attributes_of<RankPartsAttributes>(op).num_tensors);
    std::vector<Bytes>& operands = of_ranks[static_cast<std::size_t>(ranks.rank())];
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      operands.push_back(drawn_numbers(op.inputs[i].dtype, ranks.rank(), i, op.inputs[i].num_elements()));
    std::vector<void*> inputs;
    for (Bytes& operand : operands) inputs.push_back(operand.data());
    if (in_place) {
      std::size_t next = num_wholes;
      for (std::size_t i = 0; i < num_wholes; ++i) {
        const ElementRange own = rank_part(op.inputs[i].num_elements(), num_ranks, ranks.rank());
        if (own.count > 0)
          inputs[next++] = operands[i].data() + own.begin * static_cast<std::int64_t>(size_of(op.inputs[i].dtype));
      }
    }
    const std::unique_ptr<HostMemory> scratch =
        device->make_host_memory(std::max<std::int64_t>(device->workspace_bytes(op), 1));
    // Twice: what is kept between runs must not show.
    for (int run = 0; run < 2; ++run)
      device->prepare(op).run({.inputs = inputs, .outputs = {}, .workspace = scratch->data()});
    device->synchronize();
  });
  return of_ranks;
}

std::vector<TensorType> types_of(DType type, const std::vector<std::int64_t>& list) {
  std::vector<TensorType> types;
  for (const std::int64_t count : list) types.push_back({type, {count}});
  return types;
}

}  // namespace

TEST_CASE("GPUs whose sums have one order find what CPUs find, to the bit, and NCCL's own sums do not") {
  // The last list takes more than one stretch.
  const std::vector<std::vector<std::int64_t>> lists = {{1}, {5}, {63, 1, 2000}, {3, 70'000, 1000, 17}, {4'000'000, 9}};
  for (const int num_ranks : {2, 4, 8})
    for (const DType type : {DType::f32, DType::f64})
      for (const std::vector<std::int64_t>& list : lists) {
        if (list.front() > 1'000'000 && (num_ranks != 4 || type == DType::f64)) continue;
        INFO(num_ranks << " ranks, " << name_of(type) << ", " << list.front());
        const auto op_of = [&](int) { return all_reduce_op(types_of(type, list), {num_ranks}); };
        const auto expected = summed([] { return make_cpu_device(1); }, num_ranks, false, op_of);
        CHECK((summed(make_ordered, num_ranks, false, op_of) == expected));
        if (num_ranks == 8 && list.size() == 4) CHECK((summed(make_unordered, num_ranks, false, op_of) != expected));
      }
}

TEST_CASE("two GPUs that are no group of NCCL's add up what CPUs do, to the bit, beside two others") {
  const std::vector<std::int64_t> list = {3, 70'000, 1000, 17};
  for (const DType type : {DType::f32, DType::f64}) {
    const auto op_of = [&](int rank) {
      const bool is_outer = rank == 0 || rank == 3;
      return pair_sum_op(types_of(type, list), is_outer ? 0 : 1, is_outer ? 3 : 2);
    };
    CHECK(sums_as_tree(op_of(0), false));
    CHECK((summed(make_unordered, 4, false, op_of) == summed([] { return make_cpu_device(1); }, 4, false, op_of)));
  }
}

TEST_CASE("each of those GPUs finds its part of what CPUs find, and leaves the rest as it is") {
  const std::vector<std::vector<std::int64_t>> lists = {
      {1}, {300, 5}, {256 * 8, 1000, 3, 70'000}, {2, 256 * 4}, {4'000'000, 17}};
  for (const int num_ranks : {2, 4, 8})
    for (const std::vector<std::int64_t>& list : lists)
      for (const bool adds : {false, true})
        for (const bool in_place : {false, true}) {
          if ((adds && in_place) || (list.front() > 1'000'000 && num_ranks != 4)) continue;
          INFO(num_ranks << " ranks, " << list.front() << (adds ? ", added" : "") << (in_place ? ", in place" : ""));
          const auto op_of = [&](int rank) {
            return reduce_scatter_op(types_of(DType::f32, list), {num_ranks}, rank, adds);
          };
          CHECK((summed(make_ordered, num_ranks, in_place, op_of) ==
                 summed([] { return make_cpu_device(1); }, num_ranks, in_place, op_of)));
        }
}

TEST_CASE("the scratch of sums in one order is bounded, and what needs none has none") {
  const std::vector<TensorType> many = types_of(DType::f32, {100'000'000, 3});
  for (const std::int64_t num_ranks : {4, 8, 64, 1024})
    for (const Op& op : {all_reduce_op(many, {num_ranks}), reduce_scatter_op(many, {num_ranks}, 0, true)}) {
      REQUIRE(sums_as_tree(op, true));
      CHECK(tree_sum_scratch(op).num_bytes() <= most_all_reduce_scratch + 1024);
      CHECK(compute_workspace_bytes(op, {.sums_in_order = true}) == tree_sum_scratch(op).num_bytes());
      CHECK_FALSE(sums_as_tree(op, false));
    }
  CHECK_FALSE(sums_as_tree(all_reduce_op(many, {2}), true));
  CHECK_FALSE(sums_as_tree(all_reduce_op(types_of(DType::i64, {10}), {8}), true));
  CHECK(compute_workspace_bytes(all_reduce_op(many, {2}), {.sums_in_order = true}) == 0);
}

}  // namespace trainer::cuda
