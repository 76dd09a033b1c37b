#include <catch2/catch.hpp>
#include <numeric>

#include "cuda/kernels/transpose.h"
#include "tests/cuda/kernel_tensor.h"

namespace trainer::cuda {

TEST_CASE("matrices of every shape and element type are transposed, and transposed back") {
  // Narrow ones, whole tiles, and tiles that reach beyond the matrix.
  const std::int64_t sides[] = {1, 3, 15, 16, 17, 31, 32, 33, 64, 97};
  for (const DType type : element_types) {
    for (const std::int64_t rows : sides) {
      for (const std::int64_t columns : sides) {
        for (const std::int64_t batch : {1, 3}) {
          INFO(name_of(type) << ", " << batch << " matrices of " << rows << " x " << columns);
          const std::int64_t count = batch * rows * columns;
          const KernelTensor x(type, random_numbers(count, 1), 1), y(type, count, 1), back(type, count, 1);
          transpose(type, x.data(), y.data(), batch, rows, columns, nullptr);
          const std::vector<double> from = x.values(), to = y.values();
          bool right = true;
          for (std::int64_t matrix = 0; matrix < batch; ++matrix)
            for (std::int64_t row = 0; row < rows; ++row)
              for (std::int64_t column = 0; column < columns; ++column)
                right = right && from[static_cast<std::size_t>((matrix * rows + row) * columns + column)] ==
                                     to[static_cast<std::size_t>((matrix * columns + column) * rows + row)];
          CHECK(right);
          transpose(type, y.data(), back.data(), batch, columns, rows, nullptr);
          CHECK((back == x));
        }
      }
    }
  }
}

}  // namespace trainer::cuda
