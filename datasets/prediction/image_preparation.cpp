#include "datasets/prediction/image_preparation.h"

#include <fmt/format.h>

#include "datasets/dataset_description.h"
#include "datasets/file_scan.h"

namespace trainer {
namespace {

/// More than any file of max_pixels that somebody takes for an image.
constexpr std::uint64_t most_file_bytes = std::uint64_t{1} << 30;

/// What files are decoded to for a model of images that were no files when it was trained: what they had, before a
/// transform that makes other channels of them.
std::int64_t channels_of_files(const Experiment& experiment, const TransformChain& transforms, std::int64_t wanted) {
  if (holds_image_files(experiment.data)) return experiment.data.channels;
  for (const std::int64_t channels : {wanted, std::int64_t{3}, std::int64_t{1}, std::int64_t{4}})
    if (channels != 2 && channels <= 4 && transforms.channels_after(channels) == wanted) return channels;
  throw ConfigError(
      fmt::format("the model takes images of {} channels, and files have 1, 3 or 4; give it arrays (.npy)", wanted));
}

}  // namespace

PreparedImage prepared_image_of(const Experiment& experiment, const Shape& sample) {
  PreparedImage prepared;
  prepared.transforms = TransformChain(experiment.data.validation_transforms);
  prepared.sample = sample;
  prepared.channels = channels_of_files(experiment, prepared.transforms, sample[2]);
  prepared.max_pixels = experiment.data.max_pixels;
  prepared.reduced_decoding = experiment.data.reduced_decoding;
  prepared.seed = experiment.seed;
  return prepared;
}

void ImagePreparer::draw(std::int64_t number, Pair size, std::int64_t channels, const std::string& name) {
  steps_.clear();
  prepared_.transforms.draw({prepared_.seed, 0, number}, size, channels, steps_);
  const Pair made = size_after(steps_, size);
  const Shape& sample = prepared_.sample;
  if (made == Pair{sample[0], sample[1]} && prepared_.transforms.channels_after(channels) == sample[2]) return;
  if (made == Pair{sample[0], sample[1]})
    throw DataError(fmt::format("{} has {} channels, and the model takes {}", name, channels, sample[2]));
  throw DataError(fmt::format("{} is {}×{}{}, and the model takes {}×{}", name, made[0], made[1],
                              steps_.empty() ? "" : " behind data.transforms.validation", sample[0], sample[1]));
}

void ImagePreparer::finish(Pair size, const DecodedPlace& place, std::byte* sample) {
  const Shape& wanted = prepared_.sample;
  Image made;
  made.borrow(reinterpret_cast<std::uint8_t*>(sample), wanted[0], wanted[1], wanted[2]);
  apply(steps_, size, place, image_, image_, scratch_, made);
  require_internal(reinterpret_cast<std::byte*>(made.row(0)) == sample && made.channels() == wanted[2],
                   "a sample is written to its batch");
}

void ImagePreparer::prepare_file(const std::string& path, std::int64_t number, std::byte* sample) {
  const std::uint64_t num_bytes = read_file(path, file_, most_file_bytes);
  if (num_bytes > most_file_bytes)
    throw DataError(fmt::format("'{}' has {} bytes, more than an image", path, num_bytes));
  const ImageHeader header = decoder_.read_header(file_, path);
  draw(number, header.size, prepared_.channels, fmt::format("'{}'", path));
  DecodeRequest request = needed_of(steps_, header.size, prepared_.channels);
  if (!prepared_.reduced_decoding) request.wanted_size = {0, 0};
  const DecodedPlace place = decoder_.decode(file_, path, request, image_);
  finish(header.size, place, sample);
}

void ImagePreparer::prepare_pixels(std::span<const std::byte> pixels, Pair size, std::int64_t channels,
                                   const std::string& name, std::int64_t number, std::byte* sample) {
  draw(number, size, channels, name);
  DecodeRequest request = needed_of(steps_, size, channels);
  if (request.region.height == 0) request.region = {0, 0, size[0], size[1]};
  copy_region(reinterpret_cast<const std::uint8_t*>(pixels.data()), size[1], channels, request.region, image_);
  finish(size, {request.region.top, request.region.left}, sample);
}

}  // namespace trainer
