#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "tests/datasets/image/encoded_images.h"

// Sanitizers bring a heap of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {
std::atomic<bool> heap_is_counted{false};
std::atomic<std::int64_t> num_heap_calls{0};

void count_heap_call() {
  if (heap_is_counted.load(std::memory_order_relaxed)) ++num_heap_calls;
}
}  // namespace

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

// These stand before the C library's for the whole process, the decoders' libraries included.
void* malloc(std::size_t size) {
  count_heap_call();
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  count_heap_call();
  return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) {
  count_heap_call();
  return __libc_realloc(memory, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  count_heap_call();
  return __libc_memalign(alignment, size);
}
}

using namespace trainer;

namespace {

/// Calls into the heap while a decoder that has decoded `file` before decodes it again, whole and by region.
std::int64_t heap_calls_once_warm(const Bytes& file) {
  ImageDecoder decoder(many_pixels);
  Image image;
  const std::string name = "a name that is longer than a string holds without memory of its own";
  const auto decode = [&] {
    for (const std::int64_t channels : {1, 3}) {
      for (const Region& region : {Region{}, Region{20, 30, 40, 50}})
        decoder.decode(file, name, {.channels = channels, .region = region}, image);
      decoder.decode(file, name, {.channels = channels, .wanted_size = {10, 10}}, image);
    }
  };
  // The second brings what was allocated piece by piece together.
  for (int i = 0; i < 2; ++i) decode();
  num_heap_calls = 0;
  heap_is_counted = true;
  decode();
  heap_is_counted = false;
  return num_heap_calls;
}

}  // namespace

TEST_CASE("once a decoder is warm, a JPEG, PNG or BMP takes no allocation") {
  for (const bool progressive : {false, true}) {
    const JpegMaking making{.progressive = progressive, .horizontal_sampling = 2, .vertical_sampling = 2};
    CHECK(heap_calls_once_warm(make_jpeg(smooth_image(120, 130, 3), making)) == 0);
    CHECK(heap_calls_once_warm(with_exif(make_jpeg(smooth_image(120, 130, 1), making), 6)) == 0);
  }
  CHECK(heap_calls_once_warm(make_jpeg(smooth_image(120, 130, 4))) == 0);
  for (const std::int64_t channels : {1, 2, 3, 4})
    CHECK(heap_calls_once_warm(make_png(patterned_image(120, 130, channels))) == 0);
  CHECK(heap_calls_once_warm(make_bmp(
            120, 130, {}, [](std::int64_t y, std::int64_t x) { return static_cast<std::uint32_t>(y * x); })) == 0);
  // libwebp allocates for each image: the count sees that, so that 0 above means something.
  CHECK(heap_calls_once_warm(make_webp(patterned_image(120, 130, 3))) > 0);
}

#endif
