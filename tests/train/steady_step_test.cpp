#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/whole_runs/training_fixture.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

std::atomic<bool> counting{false};
std::atomic<std::int64_t> num_own{0};
std::atomic<std::int64_t> num_foreign{0};

/// Counts a call into the heap by the object whose code made it: oneDNN's and the OpenMP runtime's are not ours.
void note_allocation(const void* caller) {
  if (!counting.load(std::memory_order_relaxed)) return;
  Dl_info info{};
  const bool is_foreign = dladdr(caller, &info) != 0 && info.dli_fname != nullptr &&
                          (std::string_view(info.dli_fname).find("libdnnl") != std::string_view::npos ||
                           std::string_view(info.dli_fname).find("libgomp") != std::string_view::npos);
  ++(is_foreign ? num_foreign : num_own);
}

}  // namespace

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

// These stand before the C library's for the whole process, shared objects included.
void* malloc(std::size_t size) {
  note_allocation(__builtin_return_address(0));
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  note_allocation(__builtin_return_address(0));
  return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) {
  note_allocation(__builtin_return_address(0));
  return __libc_realloc(memory, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  note_allocation(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  note_allocation(__builtin_return_address(0));
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? 12 : 0;
}
}

// operator new is the C++ library's, so its caller is found here and not in malloc.
void* operator new(std::size_t size) {
  note_allocation(__builtin_return_address(0));
  if (void* memory = __libc_malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  note_allocation(__builtin_return_address(0));
  if (void* memory = __libc_memalign(static_cast<std::size_t>(alignment), size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

using namespace trainer;

namespace {

/// Counts between two steps, and keeps nothing itself.
struct CountingSink : EventSink {
  std::int64_t first = 0, last = 0;
  void take(const Event& event) override {
    const auto* step = std::get_if<StepEvent>(&event);
    if (step == nullptr) return;
    if (step->step == first) counting = true;
    if (step->step == last) counting = false;
  }
};

constexpr const char* every_layer = R"(
name: every-layer
seed: 3
data: {type: synthetic, shape: [8, 8, 3], classes: 6, samples: 70}
model:
  layers:
    - conv2d: {out: 8, kernel: 3, padding: 1}
    - batchnorm2d
    - relu
    - residual:
        layers: [{conv2d: {out: 12, kernel: 3, padding: 1, stride: 2}}, batchnorm2d, silu]
        shortcut: [{conv2d: {out: 12, kernel: 1, stride: 2}}]
    - maxpool2d: {kernel: 2}
    - dropout: {p: 0.2}
    - flatten
    - linear: {out: 20}
    - layernorm
    - gelu
    - linear: {out: 10}
    - tanh
    - linear: {out: 6}
loss: {type: cross_entropy, class_weights: [1, 2, 1, 1, 0.5, 1]}
optimizer: {type: adamw, lr: 0.01}
schedule: {type: one_cycle}
train: {batch_size: 8, accumulation_steps: 2, steps: 31, clip_norm: 1}
)";

}  // namespace

TEST_CASE("A steady step takes nothing from the system heap, in the loop and in the reader") {
  const OutputFolder folder;
  TestRun run(every_layer, folder.path("run"));
  const std::unique_ptr<Device> device = make_cpu_device(2);
  CountingSink sink;
  sink.first = 10;  // the odd last batch has been seen
  sink.last = 30;   // four epochs of five steps later
  num_own = 0;
  num_foreign = 0;
  REQUIRE(run_training(run.experiment, run.data, *device, run.options, run.interruption, sink) == RunStatus::done);
  CHECK(num_own.load() == 0);
  INFO("oneDNN and OpenMP allocated " << num_foreign.load() << " times");
  CHECK(num_foreign.load() < 20 * 1000);
}

TEST_CASE("The count of heap allocations sees those of the program and of the C++ library") {
  num_own = 0;
  counting = true;
  const auto number = std::make_unique<int>(5);
  std::string text(100, 'x');
  text.append(1000, 'y');
  counting = false;
  CHECK(*number == 5);
  CHECK(num_own.load() >= 3);
}

#endif
