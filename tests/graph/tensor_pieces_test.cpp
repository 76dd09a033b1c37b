#include "engine/graph/tensor_pieces.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>

using namespace trainer;

TEST_CASE("Pieces follow each other without a gap, and none is larger than asked for") {
  const std::int64_t most = GENERATE(4, 64, 100, 1000, 1 << 20);
  const TensorType kept =
      GENERATE(TensorType{DType::f32, Shape{}}, TensorType{DType::f32, Shape{1}}, TensorType{DType::f32, Shape{37, 5}},
               TensorType{DType::u8, Shape{1001}}, TensorType{DType::bf16, Shape{3, 3, 3, 7}});
  std::int64_t end = 0;
  for (const TensorPiece& piece : tensor_pieces(FileOrder::same, kept, most)) {
    CHECK(piece.offset == end);
    CHECK(piece.kept.dtype == kept.dtype);
    CHECK(piece.kept.num_bytes() <= most);
    end += piece.kept.num_bytes();
  }
  CHECK(end == kept.num_bytes());
  CHECK(tensor_pieces(FileOrder::same, {DType::f32, Shape{0, 4}}, most).empty());
}

TEST_CASE("Pieces brought into the order of files one by one are the whole brought into it") {
  const TensorType kept{DType::f32, Shape{7, 3, 2, 5}};  // (K, kh, kw, C)
  const std::int64_t row_bytes = std::int64_t{3} * 2 * 5 * 4;
  const std::int64_t most = GENERATE_COPY(row_bytes - 1, row_bytes, 2 * row_bytes + 3, 100 * row_bytes);
  std::vector<float> whole(static_cast<std::size_t>(kept.num_elements()));
  std::iota(whole.begin(), whole.end(), 0.0F);
  std::vector<float> in_pieces = whole;
  to_file_order(FileOrder::channels_second, kept, reinterpret_cast<std::byte*>(whole.data()));
  std::int64_t largest = 0;
  for (const TensorPiece& piece : tensor_pieces(FileOrder::channels_second, kept, most)) {
    to_file_order(piece.order, piece.kept, reinterpret_cast<std::byte*>(in_pieces.data()) + piece.offset);
    largest = std::max(largest, piece.kept.num_bytes());
  }
  CHECK(in_pieces == whole);
  CHECK(largest <= std::max(most, row_bytes));  // the window and channels of one output are not divided
}

TEST_CASE("The largest piece of a tensor is what its pieces need") {
  const TensorType large{DType::f32, Shape{5000, 3, 3, 128}};
  for (const FileOrder order : {FileOrder::same, FileOrder::channels_second}) {
    std::int64_t largest = 0;
    for (const TensorPiece& piece : tensor_pieces(order, large)) largest = std::max(largest, piece.kept.num_bytes());
    CHECK(largest == largest_piece_bytes(order, large));
    CHECK(largest <= most_piece_bytes);
    CHECK(largest > most_piece_bytes / 2);
  }
}
