#pragma once

namespace trainer::cuda {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

}  // namespace trainer::cuda
