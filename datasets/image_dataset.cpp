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

/// One thread's decoder and pixels, with all the memory that Note [Memory of readers] counts.
class ImageDataset::Reader final : public SampleReader {
 public:
  /// HostOutOfMemory.
  explicit Reader(const ImageDataset& dataset)
      : dataset_(dataset), preparation_(dataset.preparation_), decoder_(preparation_.max_pixels) {
    const ReaderMemory& memory = preparation_.memory;
    try {
      file_.reserve(static_cast<std::size_t>(memory.file));
      mask_file_.reserve(static_cast<std::size_t>(memory.mask_file));
      image_.reserve(memory.image);
      mask_.reserve(memory.mask);
      scratch_.image.reserve(memory.spare_image);
      scratch_.mask.reserve(memory.spare_mask);
      scratch_.resize.reserve(memory.resize);
      decoder_.reserve(memory.decoder, memory.turned);
      steps_.reserve(static_cast<std::size_t>(memory.num_steps));
    } catch (const std::bad_alloc&) {
      throw HostOutOfMemory("a thread that prepares images", memory.total(), /*depends_on_batches=*/false);
    }
  }

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

  /// Where a sample is skipped, or a mask follows its image, the image is looked at too.
  void read_classes(std::int64_t epoch, std::int64_t index, std::int32_t* classes) override {
    const bool is_fixed = !preparation_.source->has_masks() && preparation_.on_bad_sample == OnBadSample::error;
    if (is_fixed) {
      preparation_.source->read_target(sample_of(index), reinterpret_cast<std::byte*>(classes));
      return;
    }
    const std::array<std::byte*, 2> fields = {nullptr, reinterpret_cast<std::byte*>(classes)};
    read(epoch, index, fields);
  }

  std::int64_t held_bytes() const override {
    return static_cast<std::int64_t>(file_.capacity() + mask_file_.capacity() + image_.capacity() + mask_.capacity() +
                                     scratch_.num_bytes() + decoder_.capacity() +
                                     steps_.capacity() * sizeof(TransformStep));
  }

  bool time_stages(StageTimes* times) override {
    times_ = times;
    return true;
  }

 private:
  std::int64_t sample_of(std::int64_t index) const { return preparation_.chosen[static_cast<std::size_t>(index)]; }

  /// Of fields[0] null: the target alone.
  void read_sample(std::int64_t epoch, std::int64_t position, std::span<std::byte* const> fields) {
    const SampleIdentity identity{preparation_.seed, epoch, sample_of(position)};
    StageClock clock(times_);
    is_reducible_ = false;
    take_larger_memory();
    if (!preparation_.kept) {
      const DrawnImage drawn = load(identity, preparation_.transforms, Wanted::sample, clock);
      finish(identity, drawn, image_, fields, clock);
    } else if (const std::int64_t entry = entry_of(position); !finish_kept(identity, entry, fields, clock)) {
      keep(identity, entry, clock);
      const DrawnImage drawn = draw_behind(identity, image_.size());
      finish(identity, drawn, image_, fields, clock);
    }
    if (times_ == nullptr) return;
    ++times_->num_samples;
    times_->num_reducible += is_reducible_ ? 1 : 0;
  }

  /// What is in steps_ for an image of that size, of which pixels lie at a place.
  struct DrawnImage {
    Pair size{0, 0};
    DecodedPlace place;
  };
  /// What comes out of steps: a sample, or what a cache keeps.
  enum class Wanted : std::uint8_t { sample, kept };

  /// Before a sample is written to where it is wanted: it fits there.
  void check_prepared(const SampleIdentity& identity, Pair size) const {
    const Shape& wanted = preparation_.sample.shape;
    const Pair prepared = size_after(steps_, size);
    if (prepared == Pair{wanted[0], wanted[1]}) return;
    throw DataError(
        fmt::format("{} is {}×{} behind its transforms, but samples are {}; end data.transforms with "
                    "resize: {{size: [{}, {}]}}",
                    preparation_.source->name_of(identity.sample), prepared[0], prepared[1], wanted.to_string(),
                    wanted[0], wanted[1]));
  }

  /// Does what is drawn to pixels that lie in `source`, and writes the sample.
  void finish(const SampleIdentity& identity, const DrawnImage& drawn, const Image& source,
              std::span<std::byte* const> fields, StageClock& clock) {
    const Shape& wanted = preparation_.sample.shape;
    if (fields[0] != nullptr) {
      Image sample;
      sample.borrow(reinterpret_cast<std::uint8_t*>(fields[0]), wanted[0], wanted[1], wanted[2]);
      apply(steps_, drawn.size, drawn.place, source, image_, scratch_, sample);
      require_internal(reinterpret_cast<std::byte*>(sample.row(0)) == fields[0] && sample.channels() == wanted[2],
                       "a sample is written to its batch");
    }
    const bool has_masks = preparation_.source->has_masks();
    if (has_masks) apply_to_mask(steps_, mask_, outside, scratch_);
    clock.ends(SampleStage::transform);
    if (has_masks)
      write_classes(reinterpret_cast<std::int32_t*>(fields[1]));
    else
      preparation_.source->read_target(identity.sample, fields[1]);
    clock.ends(SampleStage::copy);
  }

  /// Transforms may have left an image in the memory that is for what they make of it, which is smaller.
  void take_larger_memory() {
    if (image_.capacity() < scratch_.image.capacity()) std::swap(image_, scratch_.image);
    if (mask_.capacity() < scratch_.mask.capacity()) std::swap(mask_, scratch_.mask);
  }

  std::int64_t entry_of(std::int64_t position) const {
    return preparation_.kept->has_whole_source ? sample_of(position) : position;
  }
  Image* mask_or_null() { return preparation_.source->has_masks() ? &mask_ : nullptr; }

  /// Draws what is done to an image, and brings the pixels that this reads to image_, and the mask to mask_.
  DrawnImage load(const SampleIdentity& identity, const TransformChain& transforms, Wanted wanted, StageClock& clock) {
    const ImageSource& source = *preparation_.source;
    const StoredImage stored = source.open(identity.sample, file_);
    clock.ends(SampleStage::read);
    Pair size = stored.size;
    std::int64_t channels = stored.channels;
    ImageHeader header;
    const auto name = [&] { return source.name_of(identity.sample); };
    if (stored.is_encoded) {
      naming(name, [&] {
        header = decoder_.read_header(stored.bytes, unnamed);
        check_counted(header, source.facts());
      });
      size = header.size;
      channels = preparation_.channels;
    }
    steps_.clear();
    transforms.draw(identity, size, channels, steps_);
    if (wanted == Wanted::sample) check_prepared(identity, size);
    DecodedPlace place;
    DecodeRequest request = needed_of(steps_, size, channels);
    if (stored.is_encoded) {
      is_reducible_ = header.format == ImageFormat::jpeg && jpeg_reduction(request) > 1;
      if (!preparation_.reduced_decoding) request.wanted_size = {0, 0};
      naming(name, [&] { place = decoder_.decode(stored.bytes, unnamed, request, image_); });
    } else {
      if (request.region.height == 0) request.region = {0, 0, size[0], size[1]};
      copy_region(reinterpret_cast<const std::uint8_t*>(stored.bytes.data()), size[1], channels, request.region,
                  image_);
      place = {request.region.top, request.region.left};
    }
    clock.ends(stored.is_encoded ? SampleStage::decode : SampleStage::read);
    if (source.has_masks()) load_mask(identity.sample, size, clock);
    return {size, place};
  }

  /// A DataError of `body` with a name before it, which takes memory only then.
  template <typename Name, typename Body>
  static void naming(const Name& name, Body&& body) {
    try {
      body();
    } catch (const DataError& error) {
      throw DataError(name() + ": " + error.what());
    }
  }

  /// Whether memory was counted for an image with that header.
  void check_counted(const ImageHeader& header, const ImageFacts& facts) const {
    const std::int64_t num_pixels = header.size[0] * header.size[1];
    const bool is_webp = header.format == ImageFormat::webp;
    const bool is_counted =
        facts.sizes.contain(header.size) && (!header.is_turned || num_pixels <= facts.most_turned_pixels) &&
        (is_webp ? num_pixels <= facts.most_whole_pixels : header.working_bytes <= preparation_.memory.decoder);
    if (is_counted) return;
    throw DataError(fmt::format(
        "the file was replaced: of its size ({}×{}), or of its kind, none had as much to hold when the run began",
        header.size[0], header.size[1]));
  }

  DrawnImage draw_behind(const SampleIdentity& identity, Pair size) {
    const KeptImages& kept = *preparation_.kept;
    steps_.clear();
    kept.behind.draw(identity, size, kept.channels, steps_);
    check_prepared(identity, size);
    return {size, {}};
  }

  /// Of an image that is kept; false where it is not.
  bool finish_kept(const SampleIdentity& identity, std::int64_t entry, std::span<std::byte* const> fields,
                   StageClock& clock) {
    const KeptImages& kept = *preparation_.kept;
    const std::optional<Pair> size = kept.cache->find(entry);
    if (!size) return false;
    DrawnImage drawn = draw_behind(identity, *size);
    const Region wanted = needed_of(steps_, *size, kept.channels).region;
    const std::optional<ImageCache::Found> found =
        kept.cache->read(entry, *size, wanted, lent_, image_, mask_or_null());
    clock.ends(SampleStage::read);
    if (!found) return false;
    drawn.place = found->place;
    finish(identity, drawn, *found->pixels, fields, clock);
    return true;
  }

  /// Makes an image that is to be kept, in image_ with its mask, and keeps it.
  void keep(const SampleIdentity& identity, std::int64_t entry, StageClock& clock) {
    const DrawnImage drawn = load(identity, preparation_.kept->before, Wanted::kept, clock);
    apply(steps_, drawn.size, drawn.place, image_, scratch_);
    if (mask_or_null() != nullptr) apply_to_mask(steps_, mask_, outside, scratch_);
    clock.ends(SampleStage::transform);
    preparation_.kept->cache->store(entry, image_, mask_or_null());
    clock.ends(SampleStage::copy);
  }

  /// Of an image of that size.
  void load_mask(std::int64_t sample, Pair size, StageClock& clock) {
    const ImageSource& source = *preparation_.source;
    const StoredImage stored = source.open_mask(sample, mask_file_);
    clock.ends(SampleStage::read);
    if (!stored.is_encoded) {
      mask_.reshape(stored.size[0], stored.size[1], 1);
      std::memcpy(mask_.pixels().data(), stored.bytes.data(), mask_.pixels().size());
      clock.ends(SampleStage::read);
      return;
    }
    const auto name = [&] { return source.mask_name_of(sample); };
    ImageHeader header;
    naming(name, [&] { header = decoder_.read_header(stored.bytes, unnamed); });
    if (header.size != size)
      throw DataError(fmt::format("'{}' is {}×{}, but its image '{}' {}×{}", name(), header.size[0], header.size[1],
                                  source.name_of(sample), size[0], size[1]));
    naming(name, [&] {
      check_counted(header, *source.mask_facts());
      decoder_.decode_mask(stored.bytes, unnamed, mask_);
    });
    source.classify(sample, mask_);
    clock.ends(SampleStage::decode);
  }

  void write_classes(std::int32_t* classes) {
    const std::span<const std::int32_t> of_value = preparation_.source->mask_classes();
    const std::span<const std::uint8_t> values = mask_.pixels();
    for (std::size_t i = 0; i < values.size(); ++i) classes[i] = of_value[values[i]];
  }

  static constexpr std::uint8_t outside = 255;
  static inline const std::string unnamed;

  const ImageDataset& dataset_;
  const ImagePreparation& preparation_;
  ImageDecoder decoder_;
  std::vector<std::byte> file_, mask_file_;
  std::vector<TransformStep> steps_;
  Image image_, mask_;
  Image lent_;  // of a cache
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
