#include "datasets/image/jpeg_memory.h"

#include <cstring>
#include <limits>
#include <new>

#include <jerror.h>

/// libjpeg's name for coefficients of a whole image, whose contents are its memory manager's.
struct jvirt_barray_control {  // NOLINT(readability-identifier-naming): libjpeg's
  JBLOCKARRAY rows;            // null until they are allocated
  JDIMENSION row_blocks, num_rows;
  bool zeroed;
  jvirt_barray_ptr next;
};

namespace trainer {
namespace {

/// Does not return.
void fail_without_memory(j_common_ptr jpeg) {
  jpeg->err->msg_code = JERR_OUT_OF_MEMORY;
  jpeg->err->msg_parm.i[0] = 0;
  (*jpeg->err->error_exit)(jpeg);
}

jvirt_sarray_ptr refuse_whole_samples(j_common_ptr jpeg, int, boolean, JDIMENSION, JDIMENSION, JDIMENSION) {
  fail_without_memory(jpeg);
  return nullptr;
}
JSAMPARRAY refuse_access_to_samples(j_common_ptr jpeg, jvirt_sarray_ptr, JDIMENSION, JDIMENSION, boolean) {
  fail_without_memory(jpeg);
  return nullptr;
}

}  // namespace

JpegMemory& JpegMemory::of(j_common_ptr jpeg) { return *static_cast<Manager*>(jpeg->mem)->owner; }

void JpegMemory::install(jpeg_decompress_struct& decompress) {
  original_ = decompress.mem;
  static_cast<jpeg_memory_mgr&>(manager_) = *original_;
  // Samples of a whole image are for colour maps and for modes that are refused: libjpeg's own would take this for its.
  manager_.request_virt_sarray = refuse_whole_samples;
  manager_.access_virt_sarray = refuse_access_to_samples;
  manager_.owner = this;
  manager_.alloc_small = allocate_in_pool;
  manager_.alloc_large = allocate_in_pool;
  manager_.alloc_sarray = allocate_samples;
  manager_.alloc_barray = allocate_blocks;
  manager_.request_virt_barray = request_blocks;
  manager_.realize_virt_arrays = allocate_requested;
  manager_.access_virt_barray = access_blocks;
  manager_.free_pool = free_pool;
  decompress.mem = &manager_;
}

void JpegMemory::uninstall(jpeg_decompress_struct& decompress) {
  if (original_ != nullptr) decompress.mem = original_;
}

void JpegMemory::begin_image(jpeg_decompress_struct& decompress) {
  for (JQUANT_TBL*& table : decompress.quant_tbl_ptrs) table = nullptr;
  for (JHUFF_TBL*& table : decompress.dc_huff_tbl_ptrs) table = nullptr;
  for (JHUFF_TBL*& table : decompress.ac_huff_tbl_ptrs) table = nullptr;
  requested_ = nullptr;
  memory_.take_back();
}

void* JpegMemory::allocate(j_common_ptr jpeg, std::size_t num_bytes) {
  void* memory = of(jpeg).memory_.allocate(num_bytes);
  if (memory == nullptr) fail_without_memory(jpeg);
  return memory;
}

void* JpegMemory::allocate_in_pool(j_common_ptr jpeg, int /*pool*/, std::size_t num_bytes) {
  return allocate(jpeg, num_bytes);
}

JSAMPARRAY JpegMemory::allocate_samples(j_common_ptr jpeg, int /*pool*/, JDIMENSION row_samples, JDIMENSION num_rows) {
  const auto bytes_of_row = static_cast<std::size_t>(row_bytes(row_samples));
  auto* rows = static_cast<JSAMPARRAY>(allocate(jpeg, num_rows * sizeof(JSAMPROW)));
  auto* samples = static_cast<JSAMPROW>(allocate(jpeg, num_rows * bytes_of_row));
  for (JDIMENSION y = 0; y < num_rows; ++y) rows[y] = samples + y * bytes_of_row;
  return rows;
}

JBLOCKARRAY JpegMemory::allocate_blocks(j_common_ptr jpeg, int /*pool*/, JDIMENSION row_blocks, JDIMENSION num_rows) {
  auto* rows = static_cast<JBLOCKARRAY>(allocate(jpeg, num_rows * sizeof(JBLOCKROW)));
  auto* blocks = static_cast<JBLOCKROW>(allocate(jpeg, std::size_t{num_rows} * row_blocks * sizeof(JBLOCK)));
  for (JDIMENSION y = 0; y < num_rows; ++y) rows[y] = blocks + std::size_t{y} * row_blocks;
  return rows;
}

jvirt_barray_ptr JpegMemory::request_blocks(j_common_ptr jpeg, int /*pool*/, boolean zeroed, JDIMENSION row_blocks,
                                            JDIMENSION num_rows, JDIMENSION /*most_rows*/) {
  void* memory = allocate(jpeg, sizeof(jvirt_barray_control));
  jvirt_barray_ptr& requested = of(jpeg).requested_;
  requested = new (memory) jvirt_barray_control{nullptr, row_blocks, num_rows, zeroed != 0, requested};
  return requested;
}

void JpegMemory::allocate_requested(j_common_ptr jpeg) {
  for (jvirt_barray_ptr blocks = of(jpeg).requested_; blocks != nullptr; blocks = blocks->next) {
    if (blocks->rows != nullptr) continue;
    blocks->rows = allocate_blocks(jpeg, JPOOL_IMAGE, blocks->row_blocks, blocks->num_rows);
    if (blocks->zeroed && blocks->num_rows > 0)
      std::memset(blocks->rows[0], 0, std::size_t{blocks->num_rows} * blocks->row_blocks * sizeof(JBLOCK));
  }
}

JBLOCKARRAY JpegMemory::access_blocks(j_common_ptr jpeg, jvirt_barray_ptr blocks, JDIMENSION first_row,
                                      JDIMENSION num_rows, boolean /*writable*/) {
  if (blocks->rows == nullptr || num_rows > blocks->num_rows || first_row > blocks->num_rows - num_rows) {
    jpeg->err->msg_code = JERR_BAD_VIRTUAL_ACCESS;
    (*jpeg->err->error_exit)(jpeg);
  }
  return blocks->rows + first_row;
}

// An image's memory is taken back when the next begins.
void JpegMemory::free_pool(j_common_ptr /*jpeg*/, int /*pool*/) {}

}  // namespace trainer
