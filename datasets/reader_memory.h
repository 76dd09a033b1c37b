#pragma once

#include <cstdint>
#include <vector>

#include "datasets/image/image_source.h"
#include "datasets/transforms/resize.h"
#include "engine/config/experiment.h"

namespace trainer {

// Note [Memory of readers]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// A thread that prepares images allocates once, when it begins, what the largest sample may take, and nothing after
// that: the ReaderMemory that a plan counts is what it reserves, piece by piece. So each number is a bound that holds
// for every image, of sizes as the headers of all files tell them (ImageFacts), and for all that transforms may draw.
// It is more than is ever used where the largest file is not that of the largest image, or where no image has the
// height of one and the width of another.
//
// A file that was replaced since its header was read, by one that is larger in any of these ways, is a sample that
// cannot be read. libwebp allocates by itself for each image: that is estimated, and told apart. So is all of it for
// images that are declared without their files. Messages of failures are allocated when there is one.

/// In bytes, but for what says otherwise.
struct ReaderMemory {
  std::int64_t file = 0, mask_file = 0;  ///< as stored
  /// Pixels as they are decoded or read from a cache, and what transforms make of them by turns, but for the last:
  /// Note [Where steps write] in transforms/apply_steps.cpp.
  std::int64_t image = 0, spare_image = 0;
  std::int64_t mask = 0, spare_mask = 0;
  ResizeMemory resize;
  std::int64_t decoder = 0;    ///< ImageHeader::working_bytes
  std::int64_t turned = 0;     ///< pixels before they are turned upright
  std::int64_t num_steps = 0;  ///< of one sample's transforms, each a TransformStep

  std::int64_t libwebp = 0;  ///< beside all these, estimated

  std::int64_t total() const;
};

/// What one thread's reader prepares.
struct ReaderTask {
  const ImageFacts& images;
  const ImageFacts* masks = nullptr;  ///< of files that hold them
  bool has_masks = false;             ///< a mask follows each image
  std::int64_t channels = 3;          ///< that images are decoded to, or stored in
  const std::vector<TransformSpec>& transforms;
  bool is_cached = false;  ///< data.cache keeps images on their way
};
ReaderMemory reader_memory(const ReaderTask& task);

}  // namespace trainer
