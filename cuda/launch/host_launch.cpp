#include <algorithm>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "cuda/launch/counted_launches.h"
#include "cuda/launch/fiber.h"
#include "cuda/launch/launch.h"
#include "cuda/launch/tensor_cores.h"
#include "engine/errors.h"

namespace trainer::cuda {
namespace host {
namespace {

constexpr unsigned max_block_threads = 1024;
constexpr unsigned max_grid_yz = 65535;
constexpr unsigned max_grid_x = 0x7FFFFFFF;

/// Unwinds a thread that waits in a block that has failed.
struct Cancelled {};

enum class Waits { no, at_barrier, at_shuffle };

constexpr std::size_t ahead_bytes = 16;
struct CopyAhead {
  void* to;
  const void* from;  // null: zeros
  int group;
};

struct ThreadState {
  Fiber* fiber = nullptr;  // while it waits
  Waits waits = Waits::no;
  bool ended = false;
  bool has_waited = false;  // for earlier kernels
  Place where;
  // of a shuffle
  Shuffle kind = Shuffle::by_xor;
  int operand = 0;
  const void* value = nullptr;
  void* result = nullptr;
  std::size_t num_bytes = 0;
  WarpOperation operation = nullptr;  // instead of a shuffle, of `result`
  // ahead
  std::vector<CopyAhead> copies = {};
  int num_groups = 0;
};

struct SharedArray {
  const void* declaration;
  std::size_t num_bytes;
  std::unique_ptr<void, void (*)(void*)> memory;
  bool fresh;
};

std::string text_of(const Place& where) { return std::string(where.file_name()) + ":" + std::to_string(where.line()); }

bool same_place(const ThreadState& a, const ThreadState& b) {
  return a.where.line() == b.where.line() && a.where.column() == b.where.column() &&
         std::strcmp(a.where.file_name(), b.where.file_name()) == 0;
}

/// Runs blocks one after the other. A fiber runs threads until one of them waits; that thread keeps the fiber, and
/// another one goes on with the threads that have not started. When all have started, waiting threads whose barrier or
/// shuffle is complete continue. Every such round goes through the threads in the opposite direction, so that a kernel
/// that lacks a barrier reads what is not written yet.
class Grid {
 public:
  void run(Dim3 grid, Dim3 block, Thread& thread);

  void note_wait_for_earlier() { threads_[current_].has_waited = true; }
  void wait_at_barrier(const Place& where);
  void exchange(Shuffle kind, int operand, const void* value, void* result, std::size_t num_bytes, const Place& where);
  void together(WarpOperation operation, void* of_lane, const Place& where);
  void* shared_array(const void* declaration, std::size_t num_bytes, std::size_t alignment);
  void copy_ahead(void* to, const void* from);
  void end_copies() { ++threads_[current_].num_groups; }
  void wait_for_copies(int num_groups_left);

 private:
  void run_block();
  static void fiber_body(Fiber& self);
  void run_thread(std::size_t index);
  void wait();
  Context& next_context();
  void complete_waits();
  void complete_shuffle(std::size_t first, std::size_t end);
  void run_together(WarpOperation operation, std::size_t first, std::size_t end);
  void release(std::size_t index);
  void fail(std::exception_ptr failure);
  [[noreturn]] void refuse_waits();
  void set_current(std::size_t index);
  std::size_t in_direction(std::size_t position) const {
    return descending_ ? threads_.size() - 1 - position : position;
  }

  Thread* thread_ = nullptr;
  Context caller_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_fibers_;

  // of the running block
  std::vector<ThreadState> threads_;
  std::size_t num_started_ = 0;
  std::size_t num_ended_ = 0;
  std::size_t current_ = 0;
  Fiber* current_fiber_ = nullptr;
  std::vector<std::size_t> ready_;
  std::size_t next_ready_ = 0;
  bool descending_ = false;
  std::exception_ptr failure_;

  std::vector<SharedArray> shared_;  // of the launch, poisoned anew in each block
};

thread_local Grid* running = nullptr;
thread_local CountedLaunches* counting = nullptr;
thread_local LaunchedKernels* noting = nullptr;

Grid& running_grid() {
  require_internal(running != nullptr, "waits, barriers, shuffles and shared arrays are used inside a kernel");
  return *running;
}

void Grid::run(Dim3 grid, Dim3 block, Thread& thread) {
  thread_ = &thread;
  gridDim = grid;
  blockDim = block;
  shared_.clear();
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = Dim3{x, y, z};
        descending_ = (x + y + z) % 2 != 0;
        run_block();
        if (failure_) {
          shared_.clear();
          std::rethrow_exception(std::exchange(failure_, nullptr));
        }
      }
    }
  }
  shared_.clear();
}

void Grid::run_block() {
  threads_.assign(std::size_t{blockDim.x} * blockDim.y * blockDim.z, ThreadState{});
  num_started_ = 0;
  num_ended_ = 0;
  ready_.clear();
  next_ready_ = 0;
  for (SharedArray& array : shared_) array.fresh = true;
  caller_.switch_to(next_context());
}

void Grid::fiber_body(Fiber& self) {
  while (true) {
    Grid& grid = *running;
    while (grid.num_started_ < grid.threads_.size()) {
      const std::size_t index = grid.in_direction(grid.num_started_++);
      grid.current_fiber_ = &self;
      grid.run_thread(index);
    }
    grid.idle_fibers_.push_back(&self);
    self.switch_to(grid.next_context());
  }
}

void Grid::run_thread(std::size_t index) {
  set_current(index);
  try {
    thread_->run();
    require_internal(threads_[index].has_waited,
                     "a kernel's thread has ended without wait_for_earlier_kernels(), its first line");
  } catch (const Cancelled&) {
  } catch (...) {
    fail(std::current_exception());
  }
  // The thread that ends is the one that began here, whatever ran in between.
  threads_[index].ended = true;
  ++num_ended_;
}

void Grid::set_current(std::size_t index) {
  current_ = index;
  const auto linear = static_cast<unsigned>(index);
  threadIdx = Dim3{linear % blockDim.x, linear / blockDim.x % blockDim.y, linear / (blockDim.x * blockDim.y)};
}

/// Where to go on: the caller when the block is over. May be the context that asks.
Context& Grid::next_context() {
  if (next_ready_ == ready_.size() && num_started_ == threads_.size() && num_ended_ < num_started_) {
    try {
      complete_waits();
    } catch (...) {
      fail(std::current_exception());
    }
  }
  if (next_ready_ < ready_.size()) {
    const std::size_t index = ready_[next_ready_++];
    set_current(index);
    current_fiber_ = std::exchange(threads_[index].fiber, nullptr);
    return *current_fiber_;
  }
  if (num_started_ == threads_.size()) return caller_;
  if (idle_fibers_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>(&Grid::fiber_body));
    return *fibers_.back();
  }
  Fiber* fiber = idle_fibers_.back();
  idle_fibers_.pop_back();
  return *fiber;
}

void Grid::wait() {
  if (failure_) throw Cancelled{};
  Fiber& self = *current_fiber_;
  threads_[current_].fiber = &self;
  if (Context& next = next_context(); &next != &self) self.switch_to(next);
  if (failure_) throw Cancelled{};
}

void Grid::wait_at_barrier(const Place& where) {
  ThreadState& state = threads_[current_];
  state.waits = Waits::at_barrier;
  state.where = where;
  wait();
}

void Grid::exchange(Shuffle kind, int operand, const void* value, void* result, std::size_t num_bytes,
                    const Place& where) {
  ThreadState& state = threads_[current_];
  state.waits = Waits::at_shuffle;
  state.where = where;
  state.kind = kind;
  state.operand = operand;
  state.value = value;
  state.result = result;
  state.num_bytes = num_bytes;
  state.operation = nullptr;
  wait();
}

void Grid::together(WarpOperation operation, void* of_lane, const Place& where) {
  ThreadState& state = threads_[current_];
  state.waits = Waits::at_shuffle;
  state.where = where;
  state.operation = operation;
  state.result = of_lane;
  wait();
}

void Grid::copy_ahead(void* to, const void* from) {
  for (const void* const address : {static_cast<const void*>(to), from})
    require_internal(reinterpret_cast<std::uintptr_t>(address) % ahead_bytes == 0, "what is copied ahead is aligned");
  std::memset(to, poison, ahead_bytes);
  ThreadState& state = threads_[current_];
  state.copies.push_back({to, from, state.num_groups});
}

void Grid::wait_for_copies(int num_groups_left) {
  ThreadState& state = threads_[current_];
  std::erase_if(state.copies, [&](const CopyAhead& copy) {
    if (copy.group >= state.num_groups - num_groups_left) return false;
    if (copy.from == nullptr)
      std::memset(copy.to, 0, ahead_bytes);
    else
      std::memcpy(copy.to, copy.from, ahead_bytes);
    return true;
  });
}

void Grid::release(std::size_t index) {
  threads_[index].waits = Waits::no;
  ready_.push_back(index);
}

/// Every thread has started and none can run: lets those continue whose barrier or shuffle is complete.
void Grid::complete_waits() {
  ready_.clear();
  next_ready_ = 0;
  descending_ = !descending_;
  const std::size_t count = threads_.size();
  for (std::size_t first = 0; first < count; first += warp_size) {
    complete_shuffle(first, std::min(count, first + warp_size));
  }
  if (!ready_.empty()) {
    if (descending_) std::reverse(ready_.begin(), ready_.end());
    return;
  }
  const ThreadState& one = threads_.front();
  for (const ThreadState& thread : threads_) {
    if (thread.waits != Waits::at_barrier || !same_place(thread, one)) refuse_waits();
  }
  for (std::size_t position = 0; position < count; ++position) release(in_direction(position));
}

void Grid::complete_shuffle(std::size_t first, std::size_t end) {
  const ThreadState* one = nullptr;
  for (std::size_t index = first; index < end; ++index) {
    const ThreadState& thread = threads_[index];
    if (thread.ended) continue;
    if (thread.waits != Waits::at_shuffle) return;
    if (one != nullptr && (one->kind != thread.kind || one->operation != thread.operation || !same_place(*one, thread)))
      return;
    if (one == nullptr) one = &thread;
  }
  if (one == nullptr) return;
  if (one->operation != nullptr) return run_together(one->operation, first, end);
  for (std::size_t index = first; index < end; ++index) {
    const ThreadState& thread = threads_[index];
    if (thread.ended) continue;
    const int lane = static_cast<int>(index - first);
    int source = lane;
    switch (thread.kind) {
      case Shuffle::by_xor:
        source = lane ^ thread.operand;
        break;
      case Shuffle::down:
        source = lane + thread.operand;
        break;
      case Shuffle::from_lane:
        source = thread.operand & (warp_size - 1);
        break;
    }
    if (source < 0 || source >= warp_size) source = lane;
    const std::size_t from = first + static_cast<std::size_t>(source);
    if (from < end && !threads_[from].ended) {
      std::memcpy(thread.result, threads_[from].value, thread.num_bytes);
    } else {
      std::memset(thread.result, poison, thread.num_bytes);
    }
  }
  for (std::size_t index = first; index < end; ++index) {
    if (!threads_[index].ended) release(index);
  }
}

void Grid::run_together(WarpOperation operation, std::size_t first, std::size_t end) {
  void* lanes[warp_size] = {};
  for (std::size_t index = first; index < end; ++index)
    if (!threads_[index].ended) lanes[index - first] = threads_[index].result;
  for (const void* const lane : lanes)
    require_internal(lane != nullptr, "all 32 threads of a warp take part in what a warp does");
  operation(lanes);
  for (std::size_t index = first; index < end; ++index) release(index);
}

void Grid::refuse_waits() {
  const ThreadState* barrier = nullptr;
  for (const ThreadState& thread : threads_) {
    if (thread.waits == Waits::at_shuffle) {
      throw InternalError("internal error: a shuffle that not all living threads of a warp take part in (" +
                          text_of(thread.where) + ")");
    }
    if (thread.waits != Waits::at_barrier) continue;
    if (barrier != nullptr && !same_place(*barrier, thread)) {
      throw InternalError("internal error: threads of a block wait at different barriers (" + text_of(barrier->where) +
                          " and " + text_of(thread.where) + ")");
    }
    barrier = &thread;
  }
  throw InternalError("internal error: threads of a block have ended while others wait at a barrier (" +
                      (barrier != nullptr ? text_of(barrier->where) : std::string()) + ")");
}

/// Lets every waiting thread unwind, and starts no other.
void Grid::fail(std::exception_ptr failure) {
  if (!failure_) failure_ = std::move(failure);
  ready_.clear();
  next_ready_ = 0;
  for (std::size_t index = 0; index < threads_.size(); ++index) {
    if (threads_[index].fiber != nullptr) release(index);
  }
  num_ended_ += threads_.size() - num_started_;
  num_started_ = threads_.size();
}

void* Grid::shared_array(const void* declaration, std::size_t num_bytes, std::size_t alignment) {
  auto array = std::find_if(shared_.begin(), shared_.end(),
                            [&](const SharedArray& other) { return other.declaration == declaration; });
  if (array == shared_.end()) {
    // Of this size and no more, for the address sanitizer; 16 is what a Pack asks for at most.
    void* memory = nullptr;
    if (posix_memalign(&memory, std::max<std::size_t>(alignment, 16), num_bytes) != 0) throw std::bad_alloc();
    array = shared_.insert(shared_.end(), SharedArray{declaration, num_bytes, {memory, &std::free}, true});
  }
  require_internal(array->num_bytes == num_bytes, "a shared array has one size");
  if (array->fresh) std::memset(array->memory.get(), poison, num_bytes);
  array->fresh = false;
  return array->memory.get();
}

}  // namespace

void* shared_array(const void* declaration, std::size_t num_bytes, std::size_t alignment) {
  return running_grid().shared_array(declaration, num_bytes, alignment);
}

void exchange(Shuffle kind, int operand, const void* value, void* result, std::size_t num_bytes, const Place& where) {
  running_grid().exchange(kind, operand, value, result, num_bytes, where);
}

void together(WarpOperation operation, void* of_lane, const Place& where) {
  running_grid().together(operation, of_lane, where);
}

void load_fragments(void* const* lanes) {
  const auto of = [&](int lane) -> const LoadedFragments& { return *static_cast<const LoadedFragments*>(lanes[lane]); };
  for (int i = 0; i < of(0).count; ++i)
    for (int matrix = 0; matrix < 4; ++matrix) {
      std::uint16_t numbers[8][8];
      for (int row = 0; row < 8; ++row) {
        const void* const from = of(matrix * 8 + row).rows[i];
        require_internal(reinterpret_cast<std::uintptr_t>(from) % sizeof(numbers[row]) == 0,
                         "rows of matrices are aligned");
        std::memcpy(numbers[row], from, sizeof(numbers[row]));
      }
      for (int lane = 0; lane < warp_size; ++lane) {
        const int row = lane / 4, column = lane % 4 * 2;
        const std::uint32_t low = of(lane).transposed ? numbers[column][row] : numbers[row][column];
        const std::uint32_t high = of(lane).transposed ? numbers[column + 1][row] : numbers[row][column + 1];
        of(lane).to[i].words[matrix] = low | high << 16;
      }
    }
}

void wait_for_copies(int num_groups_left) { running_grid().wait_for_copies(num_groups_left); }

CountedLaunches::CountedLaunches() {
  require_internal(counting == nullptr, "one place at a time counts launches");
  counting = this;
}
CountedLaunches::~CountedLaunches() { counting = nullptr; }
bool CountedLaunches::count() {
  if (counting == nullptr) return false;
  ++counting->num_launches_;
  return true;
}

LaunchedKernels::LaunchedKernels() {
  require_internal(noting == nullptr, "one place at a time notes launches");
  noting = this;
}
LaunchedKernels::~LaunchedKernels() { noting = nullptr; }
void LaunchedKernels::note(Kernel kernel) {
  if (noting != nullptr) noting->kernels_.push_back(kernel);
}

void run_grid(Dim3 grid, Dim3 block, Thread& thread) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  require_internal(running == nullptr, "a kernel starts no kernel");
  require_internal(grid.x <= max_grid_x && grid.y <= max_grid_yz && grid.z <= max_grid_yz, "a grid that CUDA allows");
  require_internal(block.x > 0 && block.y > 0 && block.z > 0 && block.z <= 64 &&
                       std::size_t{block.x} * block.y * block.z <= max_block_threads,
                   "a block of 1 to 1024 threads");
  if (CountedLaunches::count()) return;
  // Keeps its fibers from launch to launch.
  thread_local Grid executor;
  running = &executor;
  const auto stop = [](Grid**) { running = nullptr; };
  const std::unique_ptr<Grid*, decltype(stop)> stop_at_end(&running, stop);
  executor.run(grid, block, thread);
}

}  // namespace host

void copy_ahead(void* to, const void* from, bool is_there) {
  host::running_grid().copy_ahead(to, is_there ? from : nullptr);
}
void end_copies() { host::running_grid().end_copies(); }

void wait_for_earlier_kernels() { host::running_grid().note_wait_for_earlier(); }

// NOLINTNEXTLINE(readability-identifier-naming): CUDA's name
void __syncthreads(const host::Place& where) { host::running_grid().wait_at_barrier(where); }

}  // namespace trainer::cuda
