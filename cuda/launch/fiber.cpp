// glibc's fortified longjmp takes another stack for a mistake. This file is compiled alone.
#undef _FORTIFY_SOURCE
#include "cuda/launch/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "engine/errors.h"

#if defined(TRAINER_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace trainer::cuda::host {
namespace {

// Kernels keep little on the stack, but what a test checks inside one, and a throw, take some; the sanitizer's frames
// are larger.
#if defined(TRAINER_ADDRESS_SANITIZER)
constexpr std::size_t fiber_stack_bytes = 256 * 1024;
#else
constexpr std::size_t fiber_stack_bytes = 64 * 1024;
#endif

thread_local Context* switched_from = nullptr;

}  // namespace

void Context::switch_to(Context& to) {
  switched_from = this;
#if defined(TRAINER_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(&fake_stack_, to.stack_, to.stack_bytes_);
#endif
  // swapcontext also sets the system's mask of signals, twice a switch: half of such tests' time.
  was_left_ = true;
  if (_setjmp(left_) == 0) {
    if (to.was_left_) _longjmp(to.left_, 1);
    setcontext(&to.start_);
    std::abort();  // fails only for contexts that are no contexts
  }
  arrive();
}

void Context::arrive() {
#if defined(TRAINER_ADDRESS_SANITIZER)
  // The bounds of a stack that is not a fiber's are learnt on leaving it.
  __sanitizer_finish_switch_fiber(fake_stack_, &switched_from->stack_, &switched_from->stack_bytes_);
#endif
}

Fiber::Fiber(Body body) : body_(body) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  mapping_bytes_ = fiber_stack_bytes + page;
  mapping_ = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  require_internal(mapping_ != MAP_FAILED, "the system gives a stack for a kernel's thread");
  if (mprotect(mapping_, page, PROT_NONE) != 0 || getcontext(&start_) != 0) {
    munmap(mapping_, mapping_bytes_);
    throw InternalError("internal error: the system gives a stack for a kernel's thread");
  }
  stack_ = static_cast<std::byte*>(mapping_) + page;
  stack_bytes_ = fiber_stack_bytes;
  start_.uc_stack.ss_sp = const_cast<void*>(stack_);
  start_.uc_stack.ss_size = stack_bytes_;
  start_.uc_link = nullptr;
  // makecontext passes ints.
  const auto address = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&start_, reinterpret_cast<void (*)()>(&Fiber::enter), 2, static_cast<unsigned>(address),
              static_cast<unsigned>(static_cast<std::uint64_t>(address) >> 32));
}

Fiber::~Fiber() {
#if defined(TRAINER_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(stack_, stack_bytes_);
#endif
  munmap(mapping_, mapping_bytes_);
}

void Fiber::enter(unsigned low, unsigned high) {
  auto* self = reinterpret_cast<Fiber*>(static_cast<std::uintptr_t>(static_cast<std::uint64_t>(high) << 32 | low));
  self->arrive();
  self->body_(*self);
  std::abort();
}

}  // namespace trainer::cuda::host
