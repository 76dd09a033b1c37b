#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "datasets/dataset_format.h"
#include "datasets/input_file.h"
#include "datasets/memory_dataset.h"

// The file becomes part of the program, so that the program runs from anywhere. TRAINER_DIGITS_FILE is its path when
// this is compiled.
asm(R"(
    .section .rodata
    .balign 16
    .global trainer_digits_begin
    .global trainer_digits_end
trainer_digits_begin:
    .incbin ")" TRAINER_DIGITS_FILE R"("
trainer_digits_end:
    .byte 0
    .text
)");
extern "C" {
extern const std::byte trainer_digits_begin[];
extern const std::byte trainer_digits_end[];
}

namespace trainer {
namespace {

constexpr std::int64_t num_images = 1797;
constexpr std::int64_t num_pixels = 64;
constexpr int largest_value = 16;

std::vector<std::string> no_files(const DataConfig& /*config*/) { return {}; }

DatasetHeader inspect_digits(const DataConfig& /*config*/) {
  return {"digits", {DType::u8, Shape{8, 8, 1}}, true, 10, num_images, 0};
}

/// Lines of 64 values from 0 to 16 and the digit (see datasets/README.md); values become pixels 0 … 255.
DatasetContents load_digits(const DataConfig& config, std::uint64_t /*seed*/) {
  InputFile file("the built-in digits", {trainer_digits_begin, trainer_digits_end});
  std::string text;
  std::byte chunk[4096];
  while (const std::size_t num_read = file.read(chunk, sizeof(chunk)))
    text.append(reinterpret_cast<const char*>(chunk), num_read);

  std::vector<std::byte> pixels(num_images * num_pixels);
  std::vector<std::byte> labels(num_images);
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::int64_t image = 0; image < num_images; ++image) {
    for (std::int64_t i = 0; i <= num_pixels; ++i) {
      int value = 0;
      const auto [next, error] = std::from_chars(at, end, value);
      require_internal(error == std::errc() && next < end && value >= 0 && value <= largest_value,
                       "the built-in digits are whole");
      at = next + 1;
      if (i == num_pixels) {
        labels[static_cast<std::size_t>(image)] = static_cast<std::byte>(value);
      } else {
        pixels[static_cast<std::size_t>(image * num_pixels + i)] =
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
