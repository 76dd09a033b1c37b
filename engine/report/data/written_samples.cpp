#include "engine/report/data/written_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "datasets/file_scan.h"

namespace trainer {
namespace {

TensorType so_many(std::int64_t count, const TensorType& each) {
  std::vector<std::int64_t> dims = {count};
  dims.insert(dims.end(), each.shape.begin(), each.shape.end());
  return {each.dtype, Shape(dims)};
}

}  // namespace

std::vector<NamedArray> write_samples(const Dataset& dataset, std::int64_t count, std::int64_t epoch,
                                      const std::string& path) {
  const TensorType& sample = dataset.input_types().front();
  const TensorType& target = dataset.target_type();
  std::vector<NamedArray> arrays = {
      {"samples", so_many(count, sample)}, {"targets", so_many(count, target)}, {"index", {DType::i64, Shape{count}}}};
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !begins_with_array(path, arrays.front().name))
    throw DataError(fmt::format("'{}' exists and is no .npz of prepared samples; name another file", path));
  NpzWriter writer(path, arrays);

  // So many are read in parallel, and then written in their order.
  constexpr std::int64_t most_bytes = std::int64_t{16} << 20;
  const std::int64_t at_once =
      std::clamp<std::int64_t>(most_bytes / (sample.num_bytes() + target.num_bytes()), 1, count);
  const auto sample_bytes = static_cast<std::size_t>(sample.num_bytes());
  const auto target_bytes = static_cast<std::size_t>(target.num_bytes());
  std::vector<std::byte> samples(static_cast<std::size_t>(at_once) * sample_bytes);
  std::vector<std::byte> targets(static_cast<std::size_t>(at_once) * target_bytes);
  std::vector<std::int64_t> numbers;
  for (std::int64_t begin = 0; begin < count; begin += at_once) {
    const std::int64_t num_read = std::min(at_once, count - begin);
    scan_in_parallel(num_read, [&]() -> Look {
      return [&, reader = std::shared_ptr<SampleReader>(dataset.make_reader())](std::int64_t i) {
        const auto at = static_cast<std::size_t>(i);
        reader->read(epoch, begin + i,
                     std::array{samples.data() + at * sample_bytes, targets.data() + at * target_bytes});
      };
    });
    numbers.clear();
    for (std::int64_t i = begin; i < begin + num_read; ++i) numbers.push_back(dataset.number_of(i));
    writer.append(0, std::span(samples).first(static_cast<std::size_t>(num_read) * sample_bytes));
    writer.append(1, std::span(targets).first(static_cast<std::size_t>(num_read) * target_bytes));
    writer.append(2, std::as_bytes(std::span(numbers)));
  }
  writer.finish();
  return arrays;
}

}  // namespace trainer
