#pragma once
// Stacks of their own that one thread of the system switches between; the address sanitizer is told of each switch.

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define TRAINER_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TRAINER_ADDRESS_SANITIZER 1
#endif
#endif

namespace trainer::cuda::host {

/// Where something runs: the caller's own stack, or a fiber's.
class Context {
 public:
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Leaves the running context, which is this one, for `to`; returns when something switches back.
  void switch_to(Context& to);

 protected:
  /// What every context does first after a switch brought it to run.
  void arrive();

  ucontext_t start_{};  // of a fiber that has not run
  jmp_buf left_{};      // where a context that was left goes on
  bool was_left_ = false;
  const void* stack_ = nullptr;
  std::size_t stack_bytes_ = 0;
  void* fake_stack_ = nullptr;  // of the sanitizer
};

/// A context with its own stack, behind a page that faults. Runs `body` when it is first switched to; the body never
/// returns, and the fiber is destroyed only while it is not running.
class Fiber : public Context {
 public:
  using Body = void (*)(Fiber& self);
  explicit Fiber(Body body);
  ~Fiber();

 private:
  static void enter(unsigned low, unsigned high);

  Body body_;
  void* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
};

}  // namespace trainer::cuda::host
