#pragma once

#include <cstddef>
// jpeglib.h needs stdio's types.
#include <cstdio>

#include <jpeglib.h>

#include "datasets/image/retained_memory.h"

namespace trainer {

/// Serves what libjpeg allocates for an image from memory that is kept, in place of its own manager, which gives it
/// back to the system after each image. Tables (libjpeg's permanent pool) that are made after install() are an image's,
/// too: libjpeg keeps the ones of the image before, with which a file that lacks its own would be decoded.
class JpegMemory {
 public:
  explicit JpegMemory(RetainedMemory& memory) : memory_(memory) {}
  JpegMemory(const JpegMemory&) = delete;
  JpegMemory& operator=(const JpegMemory&) = delete;

  /// Of an object that was created; uninstall() comes before it is destroyed.
  void install(jpeg_decompress_struct& decompress);
  void uninstall(jpeg_decompress_struct& decompress);
  /// Forgets the image, after jpeg_abort_decompress().
  void begin_image(jpeg_decompress_struct& decompress);
  /// A row of samples as libjpeg allocates it: its vector code writes up to two vectors at a time.
  static std::int64_t row_bytes(std::int64_t row_samples) { return (row_samples + 63) / 64 * 64; }

 private:
  struct Manager : jpeg_memory_mgr {
    JpegMemory* owner;
  };

  static JpegMemory& of(j_common_ptr jpeg);
  static void* allocate(j_common_ptr jpeg, std::size_t num_bytes);
  static void* allocate_in_pool(j_common_ptr jpeg, int pool, std::size_t num_bytes);
  static JSAMPARRAY allocate_samples(j_common_ptr jpeg, int pool, JDIMENSION row_samples, JDIMENSION num_rows);
  static JBLOCKARRAY allocate_blocks(j_common_ptr jpeg, int pool, JDIMENSION row_blocks, JDIMENSION num_rows);
  static jvirt_barray_ptr request_blocks(j_common_ptr jpeg, int pool, boolean zeroed, JDIMENSION row_blocks,
                                         JDIMENSION num_rows, JDIMENSION most_rows);
  static void allocate_requested(j_common_ptr jpeg);
  static JBLOCKARRAY access_blocks(j_common_ptr jpeg, jvirt_barray_ptr blocks, JDIMENSION first_row,
                                   JDIMENSION num_rows, boolean writable);
  static void free_pool(j_common_ptr jpeg, int pool);

  RetainedMemory& memory_;
  Manager manager_{};
  jpeg_memory_mgr* original_ = nullptr;
  jvirt_barray_ptr requested_ = nullptr;
};

}  // namespace trainer
