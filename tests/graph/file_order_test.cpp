#include "engine/graph/file_order.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "engine/errors.h"

using namespace trainer;

namespace {

/// Elements of `size` bytes: of element i, byte b is byte b of i · 2654435761, so that no two of a tensor are alike.
std::vector<std::byte> elements_of(const std::vector<std::int64_t>& numbers, std::size_t size) {
  std::vector<std::byte> bytes(numbers.size() * size);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::uint64_t element = static_cast<std::uint64_t>(numbers[i]) * 2654435761U;
    std::memcpy(bytes.data() + i * size, &element, size);
  }
  return bytes;
}

/// By position on the device, (K, kh, kw, C), the position in the file, (K, C, kh, kw).
std::vector<std::int64_t> file_positions(const Shape& kept) {
  std::vector<std::int64_t> positions;
  for (std::int64_t k = 0; k < kept[0]; ++k)
    for (std::int64_t i = 0; i < kept[1]; ++i)
      for (std::int64_t j = 0; j < kept[2]; ++j)
        for (std::int64_t c = 0; c < kept[3]; ++c) positions.push_back(((k * kept[3] + c) * kept[1] + i) * kept[2] + j);
  return positions;
}

std::vector<std::int64_t> counted(std::int64_t count) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(i);
  return numbers;
}

}  // namespace

TEST_CASE("what is kept with channels last is in files with channels second, and comes back, at every size and type") {
  const std::vector<Shape> shapes = {{1, 1, 1, 1}, {5, 3, 3, 7}, {7, 1, 1, 13}, {6, 3, 3, 1},
                                     {3, 2, 5, 4}, {1, 7, 7, 3}, {2, 1, 4, 33}, {33, 5, 1, 2}};
  for (const Shape& kept : shapes) {
    for (const DType type : {DType::u8, DType::bf16, DType::f32, DType::f64}) {
      const TensorType tensor{type, kept};
      INFO(tensor.to_string());
      const std::vector<std::byte> device = elements_of(file_positions(kept), size_of(type));
      const std::vector<std::byte> file = elements_of(counted(kept.num_elements()), size_of(type));
      std::vector<std::byte> bytes = device;
      to_file_order(FileOrder::channels_second, tensor, bytes.data());
      CHECK((bytes == file));
      to_device_order(FileOrder::channels_second, tensor, bytes.data());
      CHECK((bytes == device));
      CHECK(is_in_file_order(FileOrder::channels_second, kept) == (device == file));
    }
  }
  CHECK(file_shape(FileOrder::channels_second, {33, 5, 1, 2}) == Shape{33, 2, 5, 1});
}

TEST_CASE("what is in the order of files stays as it is, whatever its shape") {
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{3, 4}, Shape{3, 2, 5, 4}}) {
    const TensorType type{DType::f32, shape};
    std::vector<std::byte> bytes = elements_of(counted(shape.num_elements()), 4);
    const std::vector<std::byte> before = bytes;
    to_file_order(FileOrder::same, type, bytes.data());
    to_device_order(FileOrder::same, type, bytes.data());
    CHECK((bytes == before));
    CHECK(file_shape(FileOrder::same, shape) == shape);
    CHECK(is_in_file_order(FileOrder::same, shape));
  }
}

TEST_CASE("only a tensor of four axes has channels to bring elsewhere") {
  CHECK_THROWS_AS(file_shape(FileOrder::channels_second, Shape{}), InternalError);
  const TensorType bias{DType::f32, {4}};
  std::byte bytes[16] = {};
  CHECK_THROWS_AS(to_file_order(FileOrder::channels_second, bias, bytes), InternalError);
}
