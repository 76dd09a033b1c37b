#include "engine/ops/all_reduce.h"

#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "engine/cpu/cpu_device.h"
#include "engine/half.h"
#include "engine/ops/broadcast.h"
#include "tests/ranks/rank_threads.h"

using namespace trainer;

namespace {

std::vector<float> numbers_of(int rank, std::size_t tensor, std::int64_t count) {
  std::mt19937 random(static_cast<unsigned>(rank * 100) + static_cast<unsigned>(tensor));
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (float& number : numbers) number = 0x1p-30F * static_cast<float>(static_cast<std::int32_t>(random()));
  return numbers;
}

/// A tree over [first, last), split at the largest power of two.
float tree_sum(const std::vector<float>& x, std::size_t first, std::size_t last) {
  if (last - first == 1) return x[first];
  std::size_t half = 1;
  while (2 * half < last - first) half *= 2;
  return tree_sum(x, first, first + half) + tree_sum(x, first + half, last);
}

std::vector<std::byte> as_type(DType type, const std::vector<float>& numbers) {
  std::vector<std::byte> bytes(numbers.size() * size_of(type));
  if (type == DType::f64 || type == DType::i64) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double real = numbers[i];
      const auto whole = static_cast<std::int64_t>(std::lround(1000 * numbers[i]));
      std::memcpy(&bytes[8 * i], type == DType::f64 ? static_cast<const void*>(&real) : &whole, 8);
    }
  } else {
    narrow(type, numbers.data(), bytes.data(), static_cast<std::int64_t>(numbers.size()));
  }
  return bytes;
}

/// What the numbers of all ranks add up to, in the op's order.
std::vector<std::byte> expected_sum(DType type, int num_ranks, std::size_t tensor, std::int64_t count) {
  std::vector<std::vector<std::byte>> all;
  for (int rank = 0; rank < num_ranks; ++rank) all.push_back(as_type(type, numbers_of(rank, tensor, count)));
  if (type == DType::f64 || type == DType::i64) {
    std::vector<std::byte> sums(all[0].size());
    for (std::size_t i = 0; i < sums.size(); i += 8) {
      double real = 0;  // f64 of f32 numbers: these sums are exact in any order
      std::int64_t whole = 0;
      for (const std::vector<std::byte>& each : all) {
        double added = 0;
        std::int64_t added_whole = 0;
        std::memcpy(type == DType::f64 ? static_cast<void*>(&added) : &added_whole, &each[i], 8);
        real += added;
        whole += added_whole;
      }
      std::memcpy(&sums[i], type == DType::f64 ? static_cast<const void*>(&real) : &whole, 8);
    }
    return sums;
  }
  std::vector<std::vector<float>> widened;
  for (const std::vector<std::byte>& each : all) {
    widened.emplace_back(static_cast<std::size_t>(count));
    widen(type, each.data(), widened.back().data(), count);
  }
  std::vector<float> sums;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    std::vector<float> of_ranks;
    for (const std::vector<float>& each : widened) of_ranks.push_back(each[i]);
    sums.push_back(tree_sum(of_ranks, 0, of_ranks.size()));
  }
  return as_type(type, sums);
}

}  // namespace

TEST_CASE("ranks sum lists of tensors of every type, in one order and to the same bits on all of them",
          "[exhaustive]") {
  // The last list does not fit into one stretch of scratch.
  const std::vector<std::vector<std::int64_t>> lists = {{1}, {5}, {63, 1, 200}, {1000, 3, 70'000}, {3'000'000, 17}};
  for (const int num_ranks : {1, 2, 3, 4, 8})
    for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i64})
      for (const std::vector<std::int64_t>& list : lists) {
        if (list.front() > 1'000'000 && (num_ranks == 3 || num_ranks == 4 || type != DType::f32)) continue;
        std::vector<std::vector<std::vector<std::byte>>> found(static_cast<std::size_t>(num_ranks));
        on_ranks(num_ranks, [&](SocketCommunicator& ranks) {
          const std::unique_ptr<Device> device = make_cpu_device(1);
          device->set_communicator(ranks);
          std::vector<TensorType> types;
          std::vector<std::vector<std::byte>>& tensors = found[static_cast<std::size_t>(ranks.rank())];
          for (std::size_t i = 0; i < list.size(); ++i) {
            types.push_back({type, Shape{list[i]}});
            tensors.push_back(as_type(type, numbers_of(ranks.rank(), i, list[i])));
          }
          const Op op = all_reduce_op(types, {num_ranks});
          const std::int64_t scratch = device->workspace_bytes(op);
          if (scratch > most_all_reduce_scratch) throw InternalError("scratch has a bound");
          const std::unique_ptr<HostMemory> workspace = device->make_host_memory(std::max<std::int64_t>(scratch, 1));
          std::vector<void*> inputs;
          for (std::vector<std::byte>& tensor : tensors) inputs.push_back(tensor.data());
          device->prepare(op).run({.inputs = inputs, .outputs = {}, .workspace = workspace->data()});
        });
        INFO(num_ranks << " ranks, " << name_of(type) << ", " << list.front());
        bool is_right = true;
        for (std::size_t i = 0; i < list.size(); ++i) {
          const std::vector<std::byte> expected = expected_sum(type, num_ranks, i, list[i]);
          for (const auto& of_rank : found) is_right = is_right && of_rank[i] == expected;
        }
        CHECK(is_right);
      }
}

TEST_CASE("a broadcast gives all ranks the tensors of rank 0") {
  const std::vector<std::int64_t> list = {7, 1, 5000};
  for (const int num_ranks : {1, 2, 5}) {
    std::vector<int> num_wrong(static_cast<std::size_t>(num_ranks));
    on_ranks(num_ranks, [&](SocketCommunicator& ranks) {
      const std::unique_ptr<Device> device = make_cpu_device(1);
      device->set_communicator(ranks);
      std::vector<TensorType> types;
      std::vector<std::vector<float>> tensors;
      std::vector<void*> inputs;
      for (std::size_t i = 0; i < list.size(); ++i) {
        types.push_back({DType::f32, Shape{list[i]}});
        tensors.push_back(numbers_of(ranks.rank(), i, list[i]));
      }
      for (std::vector<float>& tensor : tensors) inputs.push_back(tensor.data());
      device->prepare(broadcast_op(types, {num_ranks})).run({.inputs = inputs, .outputs = {}, .workspace = nullptr});
      for (std::size_t i = 0; i < list.size(); ++i)
        num_wrong[static_cast<std::size_t>(ranks.rank())] += tensors[i] == numbers_of(0, i, list[i]) ? 0 : 1;
    });
    CHECK(num_wrong == std::vector<int>(static_cast<std::size_t>(num_ranks)));
  }
}
