#include "engine/cpu/exchange_thread.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <string>

using namespace trainer;

namespace {

/// Calls a function with its first input.
class TestKernel final : public CpuKernel {
 public:
  explicit TestKernel(std::function<void(void*)> body) : body_(std::move(body)) {}
  void run(const OperandAddresses& addresses, const StepScalars&) override { body_(addresses.inputs[0]); }

 private:
  std::function<void(void*)> body_;
};

void nap(int microseconds) { std::this_thread::sleep_for(std::chrono::microseconds(microseconds)); }

}  // namespace

TEST_CASE("started exchanges run one after the other in their order, and are over when they are finished") {
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> num_running{0}, num_done{0}, num_wrong{0};
    TestKernel kernel([&](void* number) {
      if (++num_running != 1 || num_done != static_cast<int>(reinterpret_cast<std::intptr_t>(number))) ++num_wrong;
      nap(static_cast<int>(reinterpret_cast<std::intptr_t>(number) % 3) * 50);
      --num_running;
      ++num_done;
    });
    ExchangeThread exchanges;
    exchanges.prepare();
    std::vector<void*> input(1);  // the caller's list may change at once
    std::int64_t num_started = 0;
    for (int i = 0; i < 40; ++i) {
      input[0] = reinterpret_cast<void*>(num_started++);
      exchanges.start(kernel, {.inputs = input, .outputs = {}, .workspace = nullptr});
      input[0] = nullptr;
      if (random() % 4 != 0) continue;
      const std::int64_t num_left = static_cast<std::int64_t>(random() % 3);
      input[0] = reinterpret_cast<void*>(num_started - num_left - 1);
      exchanges.finish(input);
      CHECK(num_done >= num_started - num_left);
    }
    exchanges.finish_all();
    CHECK(num_done == num_started);
    CHECK(num_wrong == 0);
  }
}

TEST_CASE("an exchange runs beside who started it") {
  std::atomic<bool> goes_on{false};
  TestKernel kernel([&](void*) {
    while (!goes_on) nap(50);
  });
  ExchangeThread exchanges;
  exchanges.prepare();
  std::vector<void*> input = {nullptr};
  exchanges.start(kernel, {.inputs = input, .outputs = {}, .workspace = nullptr});
  goes_on = true;  // not reached where start() waits
  exchanges.finish_all();
}

TEST_CASE("where an exchange fails, those behind it do not run, and whoever waits is told") {
  std::atomic<int> num_run{0};
  TestKernel failing([&](void*) {
    nap(2000);
    throw RankError(ExitCode::device, "rank 3 is gone");
  });
  TestKernel counting([&](void*) { ++num_run; });
  ExchangeThread exchanges;
  exchanges.prepare();
  std::vector<void*> input = {nullptr};
  const OperandAddresses addresses{.inputs = input, .outputs = {}, .workspace = nullptr};
  exchanges.start(counting, addresses);
  std::vector<void*> other = {&num_run};
  exchanges.start(failing, {.inputs = other, .outputs = {}, .workspace = nullptr});
  exchanges.start(counting, {.inputs = other, .outputs = {}, .workspace = nullptr});
  exchanges.finish(input);
  CHECK_THROWS_AS(exchanges.finish_all(), RankError);
  CHECK_THROWS_AS(exchanges.start(counting, addresses), RankError);
  CHECK_THROWS_AS(exchanges.finish_all(), RankError);
  CHECK(num_run == 1);
}

TEST_CASE("exchanges that nobody finishes end with what started them, and those that wait are dropped") {
  std::atomic<int> num_run{0};
  TestKernel kernel([&](void*) {
    nap(3000);
    ++num_run;
  });
  {
    ExchangeThread exchanges;
    exchanges.prepare();
    std::vector<void*> input = {nullptr};
    for (int i = 0; i < 50; ++i) exchanges.start(kernel, {.inputs = input, .outputs = {}, .workspace = nullptr});
  }
  CHECK(num_run < 50);
}

TEST_CASE("what is dropped does not run, and what runs is over when its memory goes") {
  std::atomic<int> num_running{0}, num_run{0};
  TestKernel kernel([&](void*) {
    ++num_running;
    nap(3000);
    ++num_run;
    --num_running;
  });
  ExchangeThread exchanges;
  exchanges.prepare();
  std::vector<void*> input = {nullptr};
  const OperandAddresses addresses{.inputs = input, .outputs = {}, .workspace = nullptr};
  exchanges.drop();  // nothing
  exchanges.start(kernel, addresses);
  exchanges.finish_all();
  for (int i = 0; i < 50; ++i) exchanges.start(kernel, addresses);
  exchanges.drop();
  CHECK(num_running == 0);
  const int num_before = num_run;
  CHECK(num_before < 50);
  CHECK_THROWS_AS(exchanges.finish_all(), InternalError);
  CHECK_THROWS_AS(exchanges.start(kernel, addresses), InternalError);
  nap(10'000);
  CHECK(num_run == num_before);
}

TEST_CASE("an exchange that finds no memory tells who waits for it") {
  TestKernel kernel([](void*) { throw std::bad_alloc(); });
  ExchangeThread exchanges;
  exchanges.prepare();
  std::vector<void*> input = {nullptr};
  exchanges.start(kernel, {.inputs = input, .outputs = {}, .workspace = nullptr});
  CHECK_THROWS_AS(exchanges.finish_all(), std::bad_alloc);
  exchanges.drop();
}
