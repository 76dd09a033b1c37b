#include "datasets/transforms/transform_chain.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numeric>

#include "engine/errors.h"
#include "tests/datasets/transforms/test_images.h"
#include "tests/refusal.h"

using namespace trainer;

namespace {

std::vector<TransformStep> drawn(const TransformChain& chain, const SampleIdentity& identity, Pair size,
                                 std::int64_t channels = 3) {
  std::vector<TransformStep> steps;
  chain.draw(identity, size, channels, steps);
  return steps;
}

Resampling some_interpolation(std::mt19937& numbers) { return static_cast<Resampling>(numbers() % 3); }

TransformVariant some_transform(std::mt19937& numbers) {
  const auto below = [&](std::uint32_t count) { return static_cast<std::int64_t>(numbers() % count); };
  const Pair size{1 + below(40), 1 + below(40)};
  const auto direction = static_cast<FlipDirection>(below(2));
  switch (below(11)) {
    case 0:
      return ResizeSpec{{1 + below(50)}, some_interpolation(numbers)};
    case 1:
      return ResizeSpec{{size[0], size[1]}, some_interpolation(numbers)};
    case 2:
      return CenterCropSpec{size};
    case 3:
      return RandomCropSpec{size, {below(9), below(9), below(9), below(9)}, true, static_cast<PadMode>(below(3)), 9};
    case 4:
    case 5:
      return RandomResizedCropSpec{size, {0.08, 1}, {0.75, 4.0 / 3}, some_interpolation(numbers)};
    case 6:
      return FlipSpec{direction, 0.5};
    case 7:
      return RotateSpec{{30}, static_cast<Resampling>(below(2)), 7};
    case 8:
      return ColorJitterSpec{{0.4}, {0.4}, {0.4}, {0.1}};
    case 9:
      return RandomErasingSpec{};
    default:
      return ToGreySpec{0.5, 1};
  }
}

TransformChain some_chain(std::mt19937& numbers) {
  std::vector<TransformSpec> specs(1 + numbers() % 4);
  for (TransformSpec& spec : specs) spec.spec = some_transform(numbers);
  return TransformChain(specs);
}

}  // namespace

TEST_CASE("What is drawn depends on the seed, the epoch and the sample, and on nothing else") {
  const TransformChain chain =
      chain_of({RandomResizedCropSpec{{8, 8}}, FlipSpec{}, ColorJitterSpec{{0.4}, {}, {}, {}}});
  const auto image_for = [&](const SampleIdentity& identity) {
    return transformed(noise(40, 50, 3, 1), drawn(chain, identity, {40, 50}));
  };
  std::vector<Image> in_order;
  for (std::int64_t sample = 0; sample < 20; ++sample) in_order.push_back(image_for({3, 1, sample}));
  for (std::int64_t sample = 19; sample >= 0; --sample) {
    CHECK(are_same(image_for({3, 1, sample}), in_order[static_cast<std::size_t>(sample)]));
    CHECK_FALSE(are_same(image_for({4, 1, sample}), in_order[static_cast<std::size_t>(sample)]));
    CHECK_FALSE(are_same(image_for({3, 2, sample}), in_order[static_cast<std::size_t>(sample)]));
    CHECK_FALSE(are_same(image_for({3, 1, sample + 1}), in_order[static_cast<std::size_t>(sample)]));
  }
}

TEST_CASE("Areas, ratios and places of random_resized_crop are spread as they should be") {
  constexpr Pair size{400, 600};
  constexpr std::size_t num_bins = 10;
  std::array<int, num_bins> areas{}, ratios{}, tops{};
  const TransformChain chain = chain_of({RandomResizedCropSpec{{8, 8}, {0.1, 0.5}}});
  int num_samples = 0;
  const auto count = [](std::array<int, num_bins>& bins, double share) {
    ++bins[std::min(static_cast<std::size_t>(std::max(share, 0.0) * num_bins), num_bins - 1)];
  };
  for (; num_samples < 4000; ++num_samples) {
    const auto steps = drawn(chain, {1, 2, num_samples}, size);
    const Region region = std::get<CropStep>(steps.at(0)).region;
    REQUIRE(std::get<ResizeStep>(steps.at(1)).size == Pair{8, 8});
    REQUIRE(region.top >= 0);
    REQUIRE(region.left >= 0);
    REQUIRE(region.top + region.height <= size[0]);
    REQUIRE(region.left + region.width <= size[1]);
    count(areas, (static_cast<double>(region.height * region.width) / (400.0 * 600) - 0.1) / 0.4);
    const double ratio = static_cast<double>(region.width) / static_cast<double>(region.height);
    count(ratios, std::log(ratio / 0.75) / std::log(16.0 / 9));
    count(tops, static_cast<double>(region.top) / static_cast<double>(size[0] - region.height + 1));
  }
  // No part is too large for the image here. The 0.9999 quantile of chi-square with 9 degrees of freedom is 33.7.
  for (const auto& bins : {areas, ratios, tops}) {
    double chi_square = 0;
    const double expected = static_cast<double>(num_samples) / num_bins;
    for (const int found : bins) chi_square += (found - expected) * (found - expected) / expected;
    CHECK(chi_square < 33.7);
  }
}

TEST_CASE("Where no part fits random_resized_crop takes the middle") {
  const TransformChain chain = chain_of({RandomResizedCropSpec{{8, 8}, {0.9, 1.0}}});
  const auto region_of = [&](Pair size) { return std::get<CropStep>(drawn(chain, {1, 1, 1}, size).at(0)).region; };
  CHECK(region_of({100, 1000}) == Region{0, 433, 100, 133});
  CHECK(region_of({1000, 100}) == Region{433, 0, 133, 100});
  CHECK(std::get<ResizeStep>(drawn(chain, {1, 1, 1}, {1, 1}).at(0)).size == Pair{8, 8});
}

TEST_CASE("A random crop is as likely at every place, and a flip as likely as it is said to be") {
  const TransformChain chain = chain_of({RandomCropSpec{{4, 4}, {1, 1, 0, 0}}, FlipSpec{FlipDirection::vertical, 0.3}});
  std::map<Pair, int> places;
  int num_flips = 0;
  for (std::int64_t sample = 0; sample < 6000; ++sample) {
    const auto steps = drawn(chain, {9, 0, sample}, {5, 6});
    const Region region = std::get<CropStep>(steps.at(0)).region;
    CHECK((region.height == 4 && region.width == 4));
    ++places[{region.top, region.left}];
    num_flips += steps.size() == 2;
  }
  CHECK(places.size() == 12);
  CHECK(places.begin()->first == Pair{-1, 0});
  CHECK(places.rbegin()->first == Pair{2, 2});
  for (const auto& [place, times] : places) CHECK(std::abs(times - 500) < 100);
  CHECK(std::abs(num_flips - 1800) < 150);
}

TEST_CASE("Sizes and offsets are rounded as torchvision rounds them") {
  const auto resize_of = [](std::int64_t shorter, Pair size) {
    return std::get<ResizeStep>(drawn(chain_of({ResizeSpec{{shorter}}}), {}, size).at(0)).size;
  };
  CHECK(resize_of(256, {375, 500}) == Pair{256, 341});
  CHECK(resize_of(256, {500, 375}) == Pair{341, 256});
  CHECK(resize_of(7, {3, 5}) == Pair{7, 11});
  const auto centre_of = [](Pair crop, Pair size) {
    return std::get<CropStep>(drawn(chain_of({CenterCropSpec{crop}}), {}, size).at(0)).region;
  };
  // Halves go to even numbers; a border is wider at the bottom and on the right.
  CHECK(centre_of({2, 2}, {3, 5}) == Region{0, 2, 2, 2});
  CHECK(centre_of({2, 4}, {7, 11}) == Region{2, 4, 2, 4});
  CHECK(centre_of({8, 4}, {5, 5}) == Region{-1, 0, 8, 4});
  CHECK(drawn(chain_of({CenterCropSpec{{5, 5}}, ResizeSpec{{5}}, ToGreySpec{}}), {}, {5, 5}, 1).empty());
}

TEST_CASE("A random crop larger than its image is refused at its place, unless it may be padded") {
  TransformSpec spec{"random_crop", RandomCropSpec{{8, 8}}, {}};
  const auto refusal = [&] { return refusal_of<ConfigError>([&] { drawn(TransformChain({spec}), {}, {6, 9}); }); };
  CHECK(refusal().find("a crop of 8×8 pixels is larger than an image of 6×9") != std::string::npos);
  std::get<RandomCropSpec>(spec.spec).padding = {1, 0, 0, 0};
  CHECK(refusal().find("an image of 7×9, with its padding") != std::string::npos);
  std::get<RandomCropSpec>(spec.spec).padding = {1, 1, 0, 0};
  CHECK(refusal() == "it was taken");
  std::get<RandomCropSpec>(spec.spec).padding = {0, 0, 0, 0};
  std::get<RandomCropSpec>(spec.spec).pad_if_needed = true;
  for (std::int64_t sample = 0; sample < 50; ++sample) {
    const Region region = std::get<CropStep>(drawn(TransformChain({spec}), {1, 1, sample}, {6, 9}).at(0)).region;
    CHECK((region.top >= -2 && region.top <= 0 && region.left >= 0 && region.left <= 1));
  }
}

TEST_CASE("A thread of pixels is not resized to more than a machine holds") {
  const TransformChain chain = chain_of({ResizeSpec{{224}}});
  CHECK(refusal_of<DataError>([&] {
          drawn(chain, {}, {1, 60000});
        }) == "an image of 1×60000 pixels would be resized to 224×13440000");
  CHECK(drawn(chain, {}, {1, 5000}).size() == 1);
}

TEST_CASE("The size and the channels that come out are known where the images' are, or where a transform sets them") {
  const TransformChain crop = chain_of({ResizeSpec{{256}}, CenterCropSpec{{224, 192}}, FlipSpec{}});
  CHECK(crop.size_after(std::nullopt) == Pair{224, 192});
  const TransformChain shorter = chain_of({ResizeSpec{{256}}, RotateSpec{{10}}});
  CHECK(shorter.size_after(Pair{375, 500}) == Pair{256, 341});
  CHECK(shorter.size_after(std::nullopt) == std::nullopt);
  CHECK(chain_of({ResizeSpec{{3, 4}}}).size_after(std::nullopt) == Pair{3, 4});
  CHECK(chain_of({RandomResizedCropSpec{{5, 6}}}).size_after(std::nullopt) == Pair{5, 6});
  CHECK(chain_of({RandomCropSpec{{5, 6}}}).size_after(std::nullopt) == Pair{5, 6});
  CHECK(chain_of({}).size_after(std::nullopt) == std::nullopt);
  CHECK(chain_of({ToGreySpec{}}).channels_after(3) == 1);
  CHECK(chain_of({ToGreySpec{1, 3}}).channels_after(1) == 3);
  CHECK(chain_of({ToGreySpec{0.2}}).channels_after(3) == 3);
}

TEST_CASE("What a chain says of its images is so, and a region that it needs gives what the whole image does") {
  std::mt19937 numbers(42);
  int num_parts = 0;
  for (int round = 0; round < 600; ++round) {
    CAPTURE(round);
    const TransformChain chain = some_chain(numbers);
    const Pair size{1 + static_cast<std::int64_t>(numbers() % 60), 1 + static_cast<std::int64_t>(numbers() % 60)};
    const std::int64_t channels = numbers() % 3 == 0 ? 1 : 3;
    const auto steps = drawn(chain, {5, 1, round}, size, channels);
    const Image image = noise(size[0], size[1], channels, static_cast<std::uint32_t>(round));
    const Image whole = transformed(image, steps);
    CHECK(Pair(whole.size()) == chain.size_after(size));
    CHECK(whole.channels() == chain.channels_after(channels));

    // One after the other, nothing is done in one go, and what is made of steps in between is all there.
    Image one_by_one = copy_of(image);
    for (const TransformStep& step : steps) one_by_one = transformed(one_by_one, {step});
    CHECK(are_same(whole, one_by_one));

    const DecodeRequest request = needed_of(steps, size, channels);
    CHECK(request.channels == channels);
    Region region = request.region;
    if (region.height == 0) region = {0, 0, size[0], size[1]};
    num_parts += region.height < size[0] || region.width < size[1];
    // A decoder may give more than was asked for.
    const std::int64_t top = region.top - std::min<std::int64_t>(region.top, numbers() % 3);
    const std::int64_t left = region.left - std::min<std::int64_t>(region.left, numbers() % 3);
    Image part = copy_of(image, {top, left, region.top + region.height - top, region.left + region.width - left});
    TransformScratch scratch;
    // Into a place of its own too, from pixels that must stay.
    const Image lent = copy_of(part);
    std::vector<std::uint8_t> memory(static_cast<std::size_t>(whole.num_bytes()));
    Image between, destination;
    destination.borrow(memory.data(), whole.height(), whole.width(), whole.channels());
    apply(steps, size, {top, left, 1}, lent, between, scratch, destination);
    CHECK(are_same(whole, destination));
    CHECK(destination.row(0) == memory.data());
    CHECK(are_same(lent, part));
    CHECK(size_after(steps, size) == whole.size());
    Image of_own = copy_of(part), at_destination;
    apply(steps, size, {top, left, 1}, of_own, of_own, scratch, at_destination);
    CHECK(are_same(whole, at_destination));
    apply(steps, size, {top, left, 1}, part, scratch);
    CHECK(are_same(whole, part));
  }
  CHECK(num_parts > 150);
}

TEST_CASE("A crop, also behind a resize, reads no more than it shows and the filter's width") {
  const auto needed = [](const std::vector<TransformStep>& steps) { return needed_of(steps, {100, 200}, 3); };
  CHECK(needed({}).region.height == 0);
  CHECK(needed({FlipStep{}, CropStep{{1, 2, 3, 4}}}).region.height == 0);
  CHECK(needed({CropStep{{1, 2, 3, 4}}, FlipStep{}}).region == Region{1, 2, 3, 4});
  CHECK(needed({CropStep{{-5, 190, 50, 50}}}).region == Region{0, 190, 45, 10});
  CHECK(needed({CropStep{{0, 190, 50, 20}, PadMode::reflect}}).region == Region{0, 189, 50, 11});
  CHECK(needed({CropStep{{0, 500, 50, 20}}}).region == Region{0, 0, 50, 1});
  const DecodeRequest part = needed({CropStep{{10, 20, 80, 90}}, ResizeStep{{8, 9}}});
  CHECK(part.region == Region{10, 20, 80, 90});
  CHECK(part.wanted_size == Pair{8, 9});
  // To half, of which rows 25 … 34 come of 50 … 69 and half a filter on each side.
  const DecodeRequest middle = needed({ResizeStep{{50, 100}}, CropStep{{25, 0, 10, 100}}});
  CHECK(middle.region == Region{49, 0, 22, 200});
  CHECK(middle.wanted_size == Pair{11, 100});
  CHECK(needed({ResizeStep{{50, 100}, Resampling::nearest}}).wanted_size == Pair{0, 0});
}

TEST_CASE("An image that was decoded at half its size gives nearly what the whole one does") {
  for (const Pair size : {Pair{120, 160}, Pair{121, 163}}) {
    Image image;
    image.reshape(size[0], size[1], 3);
    for (std::int64_t y = 0; y < size[0]; ++y) {
      for (std::int64_t x = 0; x < image.row_bytes(); ++x) {
        const double wave = std::sin(0.05 * static_cast<double>(y) + 0.03 * static_cast<double>(x / 3));
        image.row(y)[x] = static_cast<std::uint8_t>(128 + 100 * wave);
      }
    }
    for (const std::int64_t reduction : {2, 4}) {
      for (const auto& steps :
           {std::vector<TransformStep>{ResizeStep{{25, 33}}},
            std::vector<TransformStep>{CropStep{{11, 21, 100, 110}}, ResizeStep{{24, 25}}, FlipStep{}},
            std::vector<TransformStep>{ResizeStep{{28, 36}}, CropStep{{3, 5, 20, 21}}},
            std::vector<TransformStep>{ResizeStep{{28, 36}}, CropStep{{-3, 5, 40, 33}, PadMode::reflect}}}) {
        const Region region = needed_of(steps, size, 3).region;
        // As JPEG decoders do: from a multiple of the reduction on, each pixel a mean.
        const DecodedPlace place{region.top / reduction * reduction, region.left / reduction * reduction, reduction};
        const auto count = [&](std::int64_t begin, std::int64_t end) {
          return (end - begin + reduction - 1) / reduction;
        };
        Image decoded;
        decoded.reshape(count(place.top, region.top + region.height), count(place.left, region.left + region.width), 3);
        for (std::int64_t y = 0; y < decoded.height(); ++y) {
          for (std::int64_t x = 0; x < decoded.row_bytes(); ++x) {
            int sum = 0, number = 0;
            for (std::int64_t i = 0; i < reduction * reduction; ++i) {
              const std::int64_t row = place.top + y * reduction + i / reduction;
              const std::int64_t column = place.left + x / 3 * reduction + i % reduction;
              if (row >= size[0] || column >= size[1]) continue;
              sum += image.row(row)[3 * column + x % 3];
              ++number;
            }
            decoded.row(y)[x] = static_cast<std::uint8_t>((2 * sum + number) / (2 * number));
          }
        }
        TransformScratch scratch;
        apply(steps, size, place, decoded, scratch);
        const Image whole = transformed(image, steps);
        REQUIRE(decoded.size() == whole.size());
        int largest = 0;
        for (std::int64_t i = 0; i < whole.num_bytes(); ++i) {
          largest = std::max(largest, std::abs(whole.row(0)[i] - decoded.row(0)[i]));
        }
        CHECK(largest <= 6);
      }
    }
  }
}

TEST_CASE("A crop and the flips behind it, done as one, give what they do one after the other") {
  std::mt19937 numbers(5);
  const auto below = [&](std::uint32_t count) { return static_cast<std::int64_t>(numbers() % count); };
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    const Pair size{1 + below(20), 1 + below(40)};
    const std::int64_t channels = std::array<std::int64_t, 3>{1, 3, 4}.at(static_cast<std::size_t>(below(3)));
    CropStep crop_step{{below(9) - 4, below(9) - 4, 1 + below(25), 1 + below(45)}, static_cast<PadMode>(below(3)), 9};
    std::vector<TransformStep> steps{crop_step};
    Image expected = transformed(noise(size[0], size[1], channels, 1), steps);
    for (std::int64_t i = below(3); i >= 0; --i) {
      const FlipStep flip_step{static_cast<FlipDirection>(below(2))};
      steps.emplace_back(flip_step);
      const Image before = copy_of(expected);
      for (std::int64_t y = 0; y < before.height(); ++y) {
        for (std::int64_t x = 0; x < before.width(); ++x) {
          const bool is_across = flip_step.direction == FlipDirection::horizontal;
          const std::int64_t from_y = is_across ? y : before.height() - 1 - y;
          const std::int64_t from_x = is_across ? before.width() - 1 - x : x;
          std::copy_n(before.row(from_y) + from_x * channels, channels, expected.row(y) + x * channels);
        }
      }
    }
    CHECK(are_same(transformed(noise(size[0], size[1], channels, 1), steps), expected));
  }
}

TEST_CASE("Nothing is allocated for a sample once the largest has been seen") {
  const TransformChain chain = chain_of({RandomResizedCropSpec{{24, 24}}, FlipSpec{}, RotateSpec{{20}},
                                         ColorJitterSpec{{0.4}, {0.4}, {0.4}, {0.1}}, RandomErasingSpec{}});
  TransformScratch scratch;
  Image image, mask;
  std::size_t after_first = 0;
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (std::int64_t sample = 0; sample < 100; ++sample) {
      image.reshape(60, 80, 3);
      mask.reshape(60, 80, 1);
      std::ranges::fill(image.pixels(), std::uint8_t{100});
      std::ranges::fill(mask.pixels(), std::uint8_t{1});
      // The same epoch again.
      const std::vector<TransformStep> steps = drawn(chain, {1, 1, sample}, {60, 80});
      apply(steps, {60, 80}, {}, image, scratch);
      apply_to_mask(steps, mask, 0, scratch);
    }
    const std::size_t num_bytes = scratch.num_bytes() + image.capacity() + mask.capacity();
    if (epoch == 0) after_first = num_bytes;
    CHECK(num_bytes == after_first);
  }
}
