#include "datasets/image_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "datasets/image/image_decoder.h"
#include "datasets/sample_stages.h"

namespace trainer {

void SkippedSamples::add(std::int64_t sample, const std::string& why) {
  const std::lock_guard lock(mutex_);
  const auto at = std::lower_bound(samples_.begin(), samples_.end(), sample,
                                   [](const auto& each, std::int64_t number) { return each.first < number; });
  if (at == samples_.end() || at->first != sample) samples_.emplace(at, sample, why);
}

std::vector<std::string> SkippedSamples::told() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> told;
  for (const auto& [sample, why] : samples_) told.push_back(why);
  return told;
}

/// One thread's decoder and pixels.
class ImageDataset::Reader final : public SampleReader {
 public:
  explicit Reader(const ImageDataset& dataset)
      : dataset_(dataset), preparation_(dataset.preparation_), decoder_(preparation_.max_pixels) {}

  void read(std::int64_t epoch, std::int64_t index, std::span<std::byte* const> fields) override {
    if (preparation_.on_bad_sample == OnBadSample::error) {
      read_sample(epoch, index, fields);
      return;
    }
    const std::int64_t size = dataset_.size();
    for (std::int64_t tried = 0; tried < size; ++tried) {
      const std::int64_t position = (index + tried) % size;
      try {
        read_sample(epoch, position, fields);
        return;
      } catch (const DataError& error) {
        dataset_.skipped_.add(sample_of(position), error.what());
      }
    }
    throw DataError(
        fmt::format("none of {} samples can be read; the first: {}", size, dataset_.skipped_.told().front()));
  }

  /// Where a sample is skipped, or a mask follows its image, the whole of it is prepared.
  void read_classes(std::int64_t epoch, std::int64_t index, std::int32_t* classes) override {
    const bool is_fixed = !preparation_.source->has_masks() && preparation_.on_bad_sample == OnBadSample::error;
    if (is_fixed) {
      preparation_.source->read_target(sample_of(index), reinterpret_cast<std::byte*>(classes));
      return;
    }
    pixels_.resize(static_cast<std::size_t>(preparation_.sample.num_bytes()));
    const std::array<std::byte*, 2> fields = {pixels_.data(), reinterpret_cast<std::byte*>(classes)};
    read(epoch, index, fields);
  }

  std::int64_t held_bytes() const override {
    return static_cast<std::int64_t>(file_.capacity() + mask_file_.capacity() + pixels_.capacity() + image_.capacity() +
                                     mask_.capacity() + scratch_.num_bytes() + decoder_.capacity());
  }

  bool time_stages(StageTimes* times) override {
    times_ = times;
    return true;
  }

 private:
  std::int64_t sample_of(std::int64_t index) const { return preparation_.chosen[static_cast<std::size_t>(index)]; }

  void read_sample(std::int64_t epoch, std::int64_t position, std::span<std::byte* const> fields) {
    const ImageSource& source = *preparation_.source;
    const std::int64_t sample = sample_of(position);
    const SampleIdentity identity{preparation_.seed, epoch, sample};
    StageClock clock(times_);
    is_reducible_ = false;
    if (!preparation_.kept)
      prepare(identity, preparation_.transforms, clock);
    else if (const std::int64_t entry = entry_of(position); !prepare_kept(identity, entry, clock))
      keep(identity, entry, clock);
    const Shape& wanted = preparation_.sample.shape;
    if (Shape{image_.height(), image_.width(), image_.channels()} != wanted)
      throw DataError(fmt::format(
          "{} is {}×{} behind its transforms, but samples are {}; end data.transforms with "
          "resize: {{size: [{}, {}]}}",
          source.name_of(sample), image_.height(), image_.width(), wanted.to_string(), wanted[0], wanted[1]));
    std::memcpy(fields[0], image_.pixels().data(), image_.pixels().size());
    if (source.has_masks())
      write_classes(reinterpret_cast<std::int32_t*>(fields[1]));
    else
      source.read_target(sample, fields[1]);
    clock.ends(SampleStage::copy);
    if (times_ == nullptr) return;
    ++times_->num_samples;
    times_->num_reducible += is_reducible_ ? 1 : 0;
  }

  std::int64_t entry_of(std::int64_t position) const {
    return preparation_.kept->has_whole_source ? sample_of(position) : position;
  }
  Image* mask_or_null() { return preparation_.source->has_masks() ? &mask_ : nullptr; }

  /// Decodes an image, and does the transforms to it.
  void prepare(const SampleIdentity& identity, const TransformChain& transforms, StageClock& clock) {
    const ImageSource& source = *preparation_.source;
    const StoredImage stored = source.open(identity.sample, file_);
    clock.ends(SampleStage::read);
    name_ = stored.is_encoded ? source.name_of(identity.sample) : std::string();
    const ImageHeader header = stored.is_encoded ? decoder_.read_header(stored.bytes, name_) : ImageHeader();
    const Pair size = stored.is_encoded ? header.size : stored.size;
    const std::int64_t channels = stored.is_encoded ? preparation_.channels : stored.channels;
    steps_.clear();
    transforms.draw(identity, size, channels, steps_);
    DecodedPlace place;
    if (stored.is_encoded) {
      DecodeRequest request = needed_of(steps_, size, channels);
      is_reducible_ = header.format == ImageFormat::jpeg && jpeg_reduction(request) > 1;
      if (!preparation_.reduced_decoding) request.wanted_size = {0, 0};
      place = decoder_.decode(stored.bytes, name_, request, image_);
    } else {
      image_.reshape(size[0], size[1], channels);
      std::memcpy(image_.pixels().data(), stored.bytes.data(), image_.pixels().size());
    }
    clock.ends(stored.is_encoded ? SampleStage::decode : SampleStage::read);
    if (source.has_masks()) {
      load_mask(identity.sample, clock);
      if (mask_.size() != size)
        throw DataError(fmt::format("'{}' is {}×{}, but its image '{}' {}×{}", source.mask_name_of(identity.sample),
                                    mask_.height(), mask_.width(), source.name_of(identity.sample), size[0], size[1]));
    }
    apply(steps_, size, place, image_, mask_or_null(), outside, scratch_);
    clock.ends(SampleStage::transform);
  }

  /// Of an image that is kept; false where it is not.
  bool prepare_kept(const SampleIdentity& identity, std::int64_t entry, StageClock& clock) {
    const KeptImages& kept = *preparation_.kept;
    const std::optional<Pair> size = kept.cache->find(entry);
    if (!size) return false;
    steps_.clear();
    kept.behind.draw(identity, *size, kept.channels, steps_);
    const Region wanted = needed_of(steps_, *size, kept.channels).region;
    const std::optional<DecodedPlace> place = kept.cache->read(entry, *size, wanted, image_, mask_or_null());
    clock.ends(SampleStage::read);
    if (!place) return false;
    apply(steps_, *size, *place, image_, mask_or_null(), outside, scratch_);
    clock.ends(SampleStage::transform);
    return true;
  }

  void keep(const SampleIdentity& identity, std::int64_t entry, StageClock& clock) {
    const KeptImages& kept = *preparation_.kept;
    prepare(identity, kept.before, clock);
    kept.cache->store(entry, image_, mask_or_null());
    clock.ends(SampleStage::copy);
    const Pair size = image_.size();
    steps_.clear();
    kept.behind.draw(identity, size, kept.channels, steps_);
    apply(steps_, size, {}, image_, mask_or_null(), outside, scratch_);
    clock.ends(SampleStage::transform);
  }

  void load_mask(std::int64_t sample, StageClock& clock) {
    const ImageSource& source = *preparation_.source;
    const StoredImage stored = source.open_mask(sample, mask_file_);
    clock.ends(SampleStage::read);
    if (stored.is_encoded) {
      decoder_.decode_mask(stored.bytes, source.mask_name_of(sample), mask_);
      source.classify(sample, mask_);
    } else {
      mask_.reshape(stored.size[0], stored.size[1], 1);
      std::memcpy(mask_.pixels().data(), stored.bytes.data(), mask_.pixels().size());
    }
    clock.ends(stored.is_encoded ? SampleStage::decode : SampleStage::read);
  }

  void write_classes(std::int32_t* classes) {
    const std::span<const std::int32_t> of_value = preparation_.source->mask_classes();
    const std::span<const std::uint8_t> values = mask_.pixels();
    for (std::size_t i = 0; i < values.size(); ++i) classes[i] = of_value[values[i]];
  }

  static constexpr std::uint8_t outside = 255;

  const ImageDataset& dataset_;
  const ImagePreparation& preparation_;
  ImageDecoder decoder_;
  std::vector<std::byte> file_, mask_file_;
  std::vector<std::byte> pixels_;  // of a sample whose target alone is wanted
  std::string name_;
  std::vector<TransformStep> steps_;
  Image image_, mask_;
  TransformScratch scratch_;
  StageTimes* times_ = nullptr;
  bool is_reducible_ = false;  // the sample, by data.reduced_decoding
};

ImageDataset::ImageDataset(ImagePreparation preparation)
    : Dataset({preparation.sample}, preparation.target), preparation_(std::move(preparation)) {}

std::unique_ptr<SampleReader> ImageDataset::make_reader() const { return std::make_unique<Reader>(*this); }

void ImageDataset::read(std::int64_t index, std::span<std::byte* const> fields) const {
  Reader(*this).read(0, index, fields);
}

void ImageDataset::read_classes(std::int64_t index, std::int32_t* classes) const {
  require_internal(categorical(), "classes belong to categorical data");
  if (preparation_.source->has_masks())
    Reader(*this).read_classes(0, index, classes);
  else
    preparation_.source->read_target(preparation_.chosen[static_cast<std::size_t>(index)],
                                     reinterpret_cast<std::byte*>(classes));
}

}  // namespace trainer
