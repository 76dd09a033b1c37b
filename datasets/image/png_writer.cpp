#include "datasets/image/png_writer.h"

#include <spng.h>

#include <cstdlib>
#include <memory>
#include <new>

#include "engine/errors.h"

namespace trainer {

std::string png_of(const Image& image) {
  require_internal(image.channels() == 1 || image.channels() == 3, "a PNG is written in grey or RGB");
  const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> context(spng_ctx_new(SPNG_CTX_ENCODER), spng_ctx_free);
  if (!context) throw std::bad_alloc();
  const auto check = [](int error) {
    if (error == SPNG_EMEM) throw std::bad_alloc();
    require_internal(error == 0, "libspng writes a valid image");
  };
  check(spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1));
  spng_ihdr header{};
  header.height = static_cast<std::uint32_t>(image.height());
  header.width = static_cast<std::uint32_t>(image.width());
  header.bit_depth = 8;
  header.color_type = image.channels() == 1 ? SPNG_COLOR_TYPE_GRAYSCALE : SPNG_COLOR_TYPE_TRUECOLOR;
  check(spng_set_ihdr(context.get(), &header));
  const auto pixels = image.pixels();
  check(spng_encode_image(context.get(), pixels.data(), pixels.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE));
  std::size_t num_bytes = 0;
  int error = 0;
  const std::unique_ptr<void, void (*)(void*)> file(spng_get_png_buffer(context.get(), &num_bytes, &error), std::free);
  check(error);
  if (!file) throw std::bad_alloc();
  return {static_cast<const char*>(file.get()), num_bytes};
}

}  // namespace trainer
