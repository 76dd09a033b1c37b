#pragma once
// The host side of Note [Products of a warp] in cuda/launch/tensor_cores.h. What a GPU would answer with undefined
// behaviour throws InternalError: a product or a load that not all 32 lanes of a warp take part in, and addresses that
// are no multiples of 16. What is copied ahead is poison until it has been waited for.

#include <bit>

#include "cuda/launch/host_half.h"

namespace trainer::cuda {

namespace host {

struct LoadedFragments {
  const void* const* rows;
  Fragment* to;
  int count;
  bool transposed;
};
void load_fragments(void* const* lanes);

template <typename T>
float number_of(std::uint32_t word, int place) {
  return static_cast<float>(std::bit_cast<T>(static_cast<std::uint16_t>(place == 0 ? word : word >> 16)));
}

template <typename T, int m, int n>
struct WarpProduct {
  FragmentSums (*sums)[2 * n];
  const Fragment* a;
  const Fragment* b;

  static void run(void* const* lanes) {
    const auto of = [&](int lane) -> const WarpProduct& { return *static_cast<const WarpProduct*>(lanes[lane]); };
    static constexpr int size = 16;
    float b_numbers[size][n * size];
    for (int lane = 0; lane < warp_size; ++lane)
      for (int j = 0; j < n; ++j)
        for (int word = 0; word < 4; ++word)
          for (int place = 0; place < 2; ++place)
            b_numbers[lane % 4 * 2 + place + word % 2 * 8][j * size + lane / 4 + word / 2 * 8] =
                number_of<T>(of(lane).b[j].words[word], place);
    for (int i = 0; i < m; ++i) {
      float a_numbers[size][size], products[size][n * size];
      for (int lane = 0; lane < warp_size; ++lane) {
        for (int word = 0; word < 4; ++word)
          for (int place = 0; place < 2; ++place)
            a_numbers[lane / 4 + word % 2 * 8][lane % 4 * 2 + place + word / 2 * 8] =
                number_of<T>(of(lane).a[i].words[word], place);
        for (int j = 0; j < 2 * n; ++j)
          for (int value = 0; value < 4; ++value)
            products[lane / 4 + value / 2 * 8][j * 8 + lane % 4 * 2 + value % 2] = of(lane).sums[i][j].values[value];
      }
      for (int row = 0; row < size; ++row)
        for (int k = 0; k < size; ++k)
          for (int column = 0; column < n * size; ++column)
            products[row][column] += a_numbers[row][k] * b_numbers[k][column];
      for (int lane = 0; lane < warp_size; ++lane)
        for (int j = 0; j < 2 * n; ++j)
          for (int value = 0; value < 4; ++value)
            of(lane).sums[i][j].values[value] = products[lane / 4 + value / 2 * 8][j * 8 + lane % 4 * 2 + value % 2];
    }
  }
};

}  // namespace host

inline bool has_tensor_cores() { return true; }

template <int n>
void load_fragments(Fragment (&to)[n], const void* const (&rows)[n],
                    const host::Place& where = host::Place::current()) {
  host::LoadedFragments loaded{rows, to, n, false};
  host::together(host::load_fragments, &loaded, where);
}
template <int n>
void load_transposed_fragments(Fragment (&to)[n], const void* const (&rows)[n],
                               const host::Place& where = host::Place::current()) {
  host::LoadedFragments loaded{rows, to, n, true};
  host::together(host::load_fragments, &loaded, where);
}

template <typename T, int m, int n>
void multiply_add(FragmentSums (&sums)[m][2 * n], const Fragment (&a)[m], const Fragment (&b)[n],
                  const host::Place& where = host::Place::current()) {
  host::WarpProduct<T, m, n> product{sums, a, b};
  host::together(host::WarpProduct<T, m, n>::run, &product, where);
}

template <typename T>
std::uint32_t pair_of(float low, float high) {
  return static_cast<std::uint32_t>(std::bit_cast<std::uint16_t>(T(low))) |
         static_cast<std::uint32_t>(std::bit_cast<std::uint16_t>(T(high))) << 16;
}

void copy_ahead(void* to, const void* from, bool is_there);
void end_copies();
namespace host {
void wait_for_copies(int num_groups_left);
}  // namespace host
template <int n>
void wait_for_copies() {
  host::wait_for_copies(n);
}

inline int computed_anew(int value) { return value; }

inline float fast_exp2(float x) { return exp2f(x); }

}  // namespace trainer::cuda
