#include <fmt/format.h>
#include <spng.h>
#include <webp/decode.h>

#include "datasets/image/image_decoder.h"
#include "datasets/image/jpeg_memory.h"

namespace trainer {

std::string decoder_versions() {
  return fmt::format("libjpeg-turbo {}, libspng {}, libwebp {}", LIBJPEG_TURBO_VERSION_NUMBER, spng_version_string(),
                     WebPGetDecoderVersion());
}

}  // namespace trainer
