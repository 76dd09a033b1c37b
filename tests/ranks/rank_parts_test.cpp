#include "engine/ops/rank_parts.h"

#include <cstring>
#include <random>

#include "engine/cpu/cpu_device.h"
#include "engine/half.h"
#include "engine/ops/all_reduce.h"
#include "engine/program/held_parts.h"
#include "tests/ranks/rank_threads.h"

using namespace trainer;

namespace {

using Bytes = std::vector<std::byte>;

/// Another one for each rank and tensor.
Bytes drawn(DType type, int rank, std::size_t tensor, std::int64_t count) {
  std::mt19937 random(static_cast<unsigned>(rank * 1000) + static_cast<unsigned>(tensor));
  std::uniform_real_distribution<float> draw(-1, 1);
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (float& number : numbers) number = draw(random);
  Bytes bytes(numbers.size() * size_of(type));
  narrow(type, numbers.data(), bytes.data(), count);
  return bytes;
}

Bytes range_of(const Bytes& whole, DType type, const ElementRange& range) {
  const auto size = static_cast<std::int64_t>(size_of(type));
  return {whole.begin() + range.begin * size, whole.begin() + (range.begin + range.count) * size};
}

void run_op(Device& device, const Op& op, std::vector<void*> inputs, std::vector<void*> outputs) {
  const std::int64_t scratch = device.workspace_bytes(op);
  if (scratch > most_all_reduce_scratch) throw InternalError("scratch has a bound");
  const std::unique_ptr<HostMemory> workspace = device.make_host_memory(std::max<std::int64_t>(scratch, 1));
  device.prepare(op).run({.inputs = inputs, .outputs = outputs, .workspace = workspace->data()});
}

std::vector<void*> addresses_of(std::vector<Bytes>& tensors) {
  std::vector<void*> addresses;
  for (Bytes& tensor : tensors) addresses.push_back(tensor.data());
  return addresses;
}

}  // namespace

TEST_CASE("parts of a tensor are all of it, none twice, each begun at a block, the first the largest") {
  std::mt19937_64 random(4);
  for (int i = 0; i < 2000; ++i) {
    const auto count = static_cast<std::int64_t>(random() % (i % 2 == 0 ? 3000 : 3'000'000)) + 1;
    const auto num_ranks = static_cast<std::int64_t>(random() % 40) + 1;
    std::int64_t next = 0, before = count;
    for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
      const ElementRange part = rank_part(count, num_ranks, rank);
      if (part.count > 0) REQUIRE(part.begin == next);
      REQUIRE((part.count == 0 || part.begin % 256 == 0));
      REQUIRE(part.count <= before);
      next += part.count;
      before = part.count;
    }
    REQUIRE(next == count);
    REQUIRE(rank_part(count, num_ranks, 0).count < count / num_ranks + 1 + 256);
  }
}

TEST_CASE("a reduce_scatter leaves each rank its part of what all_reduce gives, to the bit, in place or beside it") {
  const std::vector<std::vector<std::int64_t>> lists = {{1}, {300, 5}, {1000, 3, 70'000}, {3'000'000, 17}};
  for (const int num_ranks : {2, 3, 5, 8})
    for (const DType type : {DType::f32, DType::f16, DType::bf16})
      for (const std::vector<std::int64_t>& list : lists) {
        if (list.front() > 1'000'000 && (num_ranks > 2 || type == DType::f16)) continue;
        std::vector<std::string> wrong(static_cast<std::size_t>(num_ranks));
        on_ranks(num_ranks, [&](SocketCommunicator& ranks) {
          const std::unique_ptr<Device> device = make_cpu_device(1);
          device->set_communicator(ranks);
          std::vector<TensorType> types;
          std::vector<Bytes> summed, beside, in_place;
          for (std::size_t i = 0; i < list.size(); ++i) {
            types.push_back({type, Shape{list[i]}});
            summed.push_back(drawn(type, ranks.rank(), i, list[i]));
          }
          beside = in_place = summed;
          const std::vector<Bytes> given = summed;
          run_op(*device, all_reduce_op(types, {num_ranks}), addresses_of(summed), {});

          std::vector<Bytes> parts;
          std::vector<void*> of_beside = addresses_of(beside), of_in_place = addresses_of(in_place);
          std::vector<ElementRange> ranges;
          for (std::size_t i = 0; i < list.size(); ++i) {
            ranges.push_back(rank_part(list[i], num_ranks, ranks.rank()));
            if (ranges.back().count == 0) continue;
            parts.emplace_back(static_cast<std::size_t>(ranges.back().count) * size_of(type), std::byte{0x7F});
            of_in_place.push_back(in_place[i].data() + ranges.back().begin * static_cast<std::int64_t>(size_of(type)));
          }
          for (Bytes& part : parts) of_beside.push_back(part.data());
          const Op op = reduce_scatter_op(types, {num_ranks}, ranks.rank());
          run_op(*device, op, of_beside, {});
          run_op(*device, op, of_in_place, {});
          std::string& mistakes = wrong[static_cast<std::size_t>(ranks.rank())];
          if (beside != given) mistakes += " changed what it sums";
          std::size_t next = 0;
          for (std::size_t i = 0; i < list.size(); ++i) {
            if (ranges[i].count == 0) continue;
            const Bytes expected = range_of(summed[i], type, ranges[i]);
            if (parts[next++] != expected) mistakes += " beside";
            if (range_of(in_place[i], type, ranges[i]) != expected) mistakes += " in place";
          }

          // To what the parts hold, once more: twice the sum, rounded once.
          run_op(*device, reduce_scatter_op(types, {num_ranks}, ranks.rank(), true), of_beside, {});
          next = 0;
          for (std::size_t i = 0; i < list.size(); ++i) {
            if (ranges[i].count == 0) continue;
            const Bytes sum = range_of(summed[i], type, ranges[i]);
            std::vector<float> once(static_cast<std::size_t>(ranges[i].count)), twice = once;
            widen(type, sum.data(), once.data(), ranges[i].count);
            widen(type, parts[next++].data(), twice.data(), ranges[i].count);
            // f32 sums are added as they are; of 16 bits the second has not been rounded before.
            for (std::size_t k = 0; k < once.size(); ++k)
              if (std::abs(twice[k] - 2 * once[k]) > (type == DType::f32 ? 0 : type == DType::f16 ? 0.02F : 0.2F))
                mistakes += " added";
          }

          // Gathered, in place and from beside.
          for (Bytes& whole : summed) std::fill(whole.begin(), whole.end(), std::byte{0});
          std::vector<void*> own;
          std::vector<Bytes> once_more = beside;
          next = 0;
          for (std::size_t i = 0; i < list.size(); ++i)
            if (ranges[i].count > 0) own.push_back(of_in_place[list.size() + next++]);
          const Op gather = all_gather_op(types, {num_ranks}, ranks.rank());
          run_op(*device, gather, own, addresses_of(once_more));
          run_op(*device, gather, own, addresses_of(in_place));
          if (once_more != in_place) mistakes += " gathered elsewhere";
          for (std::size_t i = 0; i < list.size(); ++i) summed[i] = given[i];
          run_op(*device, all_reduce_op(types, {num_ranks}), addresses_of(summed), {});
          if (once_more != summed) mistakes += " gathered";
        });
        INFO(num_ranks << " ranks, " << name_of(type) << ", " << list.front());
        for (const std::string& mistakes : wrong) CHECK(mistakes == "");
      }
}

TEST_CASE("what ranks hold of a tensor's bytes is all of it, none twice, also of moments of 8 bits") {
  for (const std::int64_t count : {1, 3, 255, 256, 257, 1021, 5000, 70'001})
    for (const bool eight_bit : {false, true})
      for (const std::int64_t num_ranks : {1, 2, 3, 7}) {
        const TensorType whole = eight_bit ? moment_type(count) : TensorType{DType::f32, {count}};
        const TensorPart part{whole, count};
        const RankLayout layout{.num_data = num_ranks};
        std::vector<int> held(static_cast<std::size_t>(whole.num_bytes()));
        for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
          std::int64_t num_bytes = 0;
          // Asked for in two pieces that cut ranges anywhere.
          const std::int64_t cut = whole.num_bytes() / 3;
          for (const auto& [begin, end] : {std::pair{std::int64_t{0}, cut}, std::pair{cut, whole.num_bytes()}})
            for (const HeldRange& range : held_of(part, layout.of_rank(rank), begin, end - begin)) {
              num_bytes += range.num_bytes;
              for (std::int64_t i = 0; i < range.num_bytes; ++i) ++held[static_cast<std::size_t>(range.in_tensor + i)];
              CHECK(range.in_buffer + range.num_bytes <= part_type(part, layout.of_rank(rank)).num_bytes());
            }
          CHECK(num_bytes == part_type(part, layout.of_rank(rank)).num_bytes());
        }
        CHECK(std::all_of(held.begin(), held.end(), [](int times) { return times == 1; }));
      }
}
