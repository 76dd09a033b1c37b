#pragma once
// The host side of Note [Kernels on the host] in cuda/launch/launch.h. A mistake that a GPU would answer with undefined
// behaviour throws InternalError: a thread that ends while others wait at a barrier, threads at different barriers, a
// shuffle that a living thread of the warp is not at, a thread that ends without wait_for_earlier_kernels(). A lane
// that takes a value from a lane that does not exist or has ended gets the poison.

#include <math.h>

#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>

#include <type_traits>

#include "cuda/launch/launched_kernels.h"
#include "cuda/launch/place.h"
#include "cuda/launch/stream.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

// A function's static object is one for each instantiation, as a __shared__ array is.
#define TRAINER_SHARED(T, name, count)                                 \
  static char name##_declaration = '0';                                \
  T* const name = static_cast<T*>(::trainer::cuda::host::shared_array( \
      &name##_declaration, sizeof(T) * static_cast<std::size_t>(count), alignof(T)))

#define TRAINER_UNROLL

namespace trainer::cuda {

// Of the thread that runs now. NOLINTBEGIN(readability-identifier-naming): CUDA's names
inline constinit thread_local Dim3 threadIdx;
inline constinit thread_local Dim3 blockIdx;
inline constinit thread_local Dim3 blockDim;
inline constinit thread_local Dim3 gridDim;
// NOLINTEND(readability-identifier-naming)

namespace host {

/// What memory holds before it is written: NaN, or -1.
inline constexpr int poison = 0xFF;

/// The block's array of `declaration`.
void* shared_array(const void* declaration, std::size_t num_bytes, std::size_t alignment);

enum class Shuffle { by_xor, down, from_lane };
/// Puts into `result` the `value` of the lane that `kind` and `operand` name.
void exchange(Shuffle kind, int operand, const void* value, void* result, std::size_t num_bytes, const Place& where);

/// What the 32 lanes of a warp do at once: given what each of them passed, when all have come to it.
using WarpOperation = void (*)(void* const* lanes);
void together(WarpOperation operation, void* of_lane, const Place& where);

/// Calls `thread` once for each thread of the grid.
class Thread {
 public:
  virtual ~Thread() = default;
  virtual void run() = 0;
};
void run_grid(Dim3 grid, Dim3 block, Thread& thread);

template <typename T>
T exchange(Shuffle kind, int operand, const T& value, const Place& where) {
  static_assert(std::is_trivially_copyable_v<T>);
  T result;
  exchange(kind, operand, &value, &result, sizeof(T), where);
  return result;
}

}  // namespace host

void wait_for_earlier_kernels();

// NOLINTNEXTLINE(readability-identifier-naming): CUDA's name
void __syncthreads(const host::Place& where = host::Place::current());

template <typename T>
T shuffle_xor(T value, int mask, const host::Place& where = host::Place::current()) {
  return host::exchange(host::Shuffle::by_xor, mask, value, where);
}
template <typename T>
T shuffle_down(T value, int delta, const host::Place& where = host::Place::current()) {
  return host::exchange(host::Shuffle::down, delta, value, where);
}
template <typename T>
T shuffle(T value, int lane, const host::Place& where = host::Place::current()) {
  return host::exchange(host::Shuffle::from_lane, lane, value, where);
}

template <std::integral T>
T atomic_add(T* address, std::type_identity_t<T> value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  using Word = std::make_unsigned_t<T>;
  const T before = *address;
  *address = static_cast<T>(static_cast<Word>(before) + static_cast<Word>(value));
  return before;
}

inline void thread_fence() {}

template <int n, typename T>
Pack<T, n> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, n>*>(from);
}
template <int n, typename T>
void store_pack(T* to, const Pack<T, n>& pack) {
  *reinterpret_cast<Pack<T, n>*>(to) = pack;
}
template <int n, typename T>
void store_shared_pack(T* to, const Pack<T, n>& pack) {
  *reinterpret_cast<Pack<T, n>*>(to) = pack;
}

/// Returns when the grid has run; an exception of a thread ends the launch and comes out of it.
template <typename... Parameters>
void launch(void (*kernel)(Parameters...), Dim3 grid, Dim3 block, [[maybe_unused]] Stream stream,
            std::type_identity_t<Parameters>... arguments) {
  host::LaunchedKernels::note(reinterpret_cast<host::LaunchedKernels::Kernel>(kernel));
  const auto call = [&] { kernel(arguments...); };
  class Call final : public host::Thread {
   public:
    explicit Call(const decltype(call)& function) : function_(function) {}
    void run() override { function_(); }

   private:
    const decltype(call)& function_;
  } thread(call);
  host::run_grid(grid, block, thread);
}

}  // namespace trainer::cuda
