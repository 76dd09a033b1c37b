#include <fmt/format.h>

#include <charconv>
#include <span>
#include <string_view>

#include "datasets/dataset_format.h"
#include "datasets/input_file.h"
#include "datasets/memory_dataset.h"
#include "engine/embedded_files.h"

namespace trainer {
namespace {

constexpr std::int64_t num_digits = 1797;
constexpr std::int64_t num_digit_pixels = 64;
constexpr int largest_value = 16;

DatasetHeader inspect_digits(const DataConfig& /*config*/) {
  return {"digits", {DType::u8, Shape{8, 8, 1}}, true, 10, num_digits, 0};
}

/// Lines of 64 values from 0 to 16 and the digit (see datasets/README.md); values become pixels 0 … 255.
DatasetContents load_digits(const DataConfig& config, std::uint64_t /*seed*/, const DatasetHeader& /*header*/) {
  const std::string_view packed = text_of(digits_files(), "digits");
  InputFile file("the built-in digits", std::as_bytes(std::span(packed)));
  std::string text;
  std::byte chunk[4096];
  while (const std::size_t num_read = file.read(chunk, sizeof(chunk)))
    text.append(reinterpret_cast<const char*>(chunk), num_read);

  std::vector<std::byte> pixels(num_digits * num_digit_pixels);
  std::vector<std::byte> labels(num_digits);
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::int64_t image = 0; image < num_digits; ++image) {
    for (std::int64_t i = 0; i <= num_digit_pixels; ++i) {
      int value = 0;
      const auto [next, error] = std::from_chars(at, end, value);
      require_internal(error == std::errc() && next < end && value >= 0 && value <= largest_value,
                       "the built-in digits are whole");
      at = next + 1;
      if (i == num_digit_pixels) {
        labels[static_cast<std::size_t>(image)] = static_cast<std::byte>(value);
      } else {
        pixels[static_cast<std::size_t>(image * num_digit_pixels + i)] =
            static_cast<std::byte>((value * 255 + largest_value / 2) / largest_value);
      }
    }
  }
  require_internal(at == end, "the built-in digits are whole");
  const DatasetHeader header = inspect_digits(config);
  DatasetContents contents;
  contents.train = std::make_shared<MemoryDataset>(header.sample, TensorType{DType::i32, Shape{}}, std::move(pixels),
                                                   targets_of_labels(labels));
  return contents;
}

}  // namespace

DatasetFormat digits_format() {
  DatasetFormat format;
  format.fixed_shape = Shape{8, 8, 1};
  format.fixed_classes = 10;
  format.default_num_validation = 360;  // a fifth
  format.required_files = no_files;
  format.inspect = inspect_digits;
  format.load = load_digits;
  return format;
}

}  // namespace trainer
