#include "datasets/image/image_source.h"

#include "engine/errors.h"

namespace trainer {

StoredImage ImageSource::open_mask(std::int64_t /*index*/, std::vector<std::byte>& /*memory*/) const {
  throw InternalError("the source has masks");
}

void ImageSource::read_target(std::int64_t /*index*/, std::byte* /*target*/) const {
  throw InternalError("the source has targets that are no masks");
}

}  // namespace trainer
