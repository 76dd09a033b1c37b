#include "cuda/device/device_usage.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>

using namespace trainer;
using namespace trainer::cuda;
using Catch::Contains;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

namespace {

/// Stands in for the driver's management library, whose questions may come from another thread.
struct FakeDriver {
  std::recursive_mutex mutex;
  std::vector<NvmlCalls::Process> processes;
  std::function<void()> behind_question = [] {};
  std::thread::id asked_by;
  NvmlCalls::Memory memory{1000, 700, 300};
  int num_questions = 0;
  bool tells_processes = true;
  int grows_between_calls = 0;  ///< processes that start while the list is asked for
};
FakeDriver* driver = nullptr;

const NvmlCalls& fake_nvml_calls() {
  static const NvmlCalls calls = [] {
    NvmlCalls made;
    made.driver_version = [](char* text, unsigned int length) {
      std::strncpy(text, "580.65.06", length);
      return 0;
    };
    made.handle_of = [](const char* bus_id, NvmlCalls::Handle* handle) {
      *handle = driver;
      return std::string_view(bus_id) == "0000:3B:00.0" ? 0 : 6;
    };
    made.processes = [](NvmlCalls::Handle, unsigned int* count, NvmlCalls::Process* listed) {
      const std::lock_guard lock(driver->mutex);
      ++driver->num_questions;
      driver->asked_by = std::this_thread::get_id();
      if (!driver->tells_processes) return 3;
      const auto needed = static_cast<unsigned int>(driver->processes.size());
      const bool fits = needed <= *count;
      *count = needed;
      if (!fits) {
        for (; driver->grows_between_calls > 0; --driver->grows_between_calls)
          driver->processes.push_back({static_cast<unsigned int>(driver->processes.size() + 1), 1, 0, 0});
        return NvmlCalls::insufficient_size;
      }
      std::copy(driver->processes.begin(), driver->processes.end(), listed);
      driver->behind_question();
      return 0;
    };
    made.memory = [](NvmlCalls::Handle, NvmlCalls::Memory* memory) {
      *memory = driver->memory;
      return 0;
    };
    made.clock = [](NvmlCalls::Handle, int kind, unsigned int* megahertz) {
      *megahertz = kind == NvmlCalls::sm_clock ? 1980 : 3201;
      return 0;
    };
    return made;
  }();
  return calls;
}

struct UsageFixture {
  FakeDriver fake;
  std::shared_ptr<MemoryChanges> changes = std::make_shared<MemoryChanges>();
  int num_asked = 0;
  UsageFixture() { driver = &fake; }

  std::optional<NvmlDevice> device() const { return NvmlDevice::find(fake_nvml_calls(), "0000:3B:00.0"); }
  DeviceUsage usage(std::int64_t own_pid) { return usage(own_pid, device()); }
  DeviceUsage usage(std::int64_t own_pid, std::optional<NvmlDevice> nvml) {
    const auto ask = [this] {
      ++num_asked;
      return FreeAndTotal{600, 1000};
    };
    return {nvml, ask, own_pid, changes};
  }
  void take(std::int64_t num_bytes) { MemoryChanges::Change(*changes).add(num_bytes); }
  /// As the driver's answers will be from now on.
  void hold(std::vector<NvmlCalls::Process> processes) {
    const std::lock_guard lock(fake.mutex);
    fake.processes = std::move(processes);
  }
  int num_questions() {
    const std::lock_guard lock(fake.mutex);
    return fake.num_questions;
  }
};

/// Waits until it is so; false where that takes long.
bool becomes(const std::function<bool()>& condition) {
  const auto end = steady_clock::now() + seconds(20);
  while (!condition()) {
    if (steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

std::ptrdiff_t num_threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

}  // namespace

TEST_CASE_METHOD(UsageFixture, "a device is found by its bus id, with its clocks and the driver's version") {
  CHECK_FALSE(NvmlDevice::find(fake_nvml_calls(), "0000:5E:00.0").has_value());
  REQUIRE(device().has_value());
  CHECK(device()->sm_clock() == 1980);
  CHECK(device()->memory_clock() == 3201);
  CHECK(nvml_driver_version(fake_nvml_calls()) == "580.65.06");
}

TEST_CASE_METHOD(UsageFixture, "used bytes are this process's, and the others are named, largest first") {
  fake.processes = {{1, 50, 0, 0}, {2, 70, 0, 0}};
  DeviceUsage used = usage(77);
  fake.processes.push_back({77, 240, 0, 0});
  used.find_this_process();
  CHECK(used.knows_this_process());
  CHECK(used.used_bytes() == 240);
  CHECK(num_asked == 0);
  const std::vector<DeviceProcess> others = used.other_processes();
  REQUIRE(others.size() == 2);
  CHECK((others[0].pid == 2 && others[0].num_bytes == 70));
  CHECK((others[1].pid == 1 && others[1].num_bytes == 50));
  CHECK(!others[1].name.empty());
  CHECK_THAT(used.origin(), Contains("NVML") && Contains("this process"));
}

TEST_CASE_METHOD(UsageFixture, "in a container the process that is new is this one") {
  fake.processes = {{1, 50, 0, 0}};
  DeviceUsage used = usage(7);
  fake.processes.push_back({40321, 240, 0, 0});
  used.find_this_process();
  CHECK(used.used_bytes() == 240);
  CHECK(used.other_processes().size() == 1);
}

TEST_CASE_METHOD(UsageFixture, "where nobody tells which process is this one, what CUDA counts for all stands in") {
  fake.processes = {{1, 50, 0, 0}};
  const int appear = GENERATE(0, 2);
  DeviceUsage used = usage(7);
  for (int i = 0; i < appear; ++i) fake.processes.push_back({static_cast<unsigned int>(100 + i), 30, 0, 0});
  used.find_this_process();
  CHECK_FALSE(used.knows_this_process());
  CHECK(used.used_bytes() == 400);
  CHECK_THAT(used.origin(), Contains("cudaMemGetInfo") && Contains("all processes"));
  // One of the new ones is this process: only those before it are surely others.
  CHECK(used.other_processes().size() == 1);
}

TEST_CASE_METHOD(UsageFixture, "without the management library used bytes are CUDA's count") {
  DeviceUsage used = usage(7, std::nullopt);
  used.find_this_process();
  CHECK(used.used_bytes() == 400);
  CHECK(used.other_processes().empty());
  CHECK_THAT(used.origin(), Contains("libnvidia-ml.so.1"));
}

TEST_CASE_METHOD(UsageFixture, "a driver that hides what processes hold does not make up bytes") {
  DeviceUsage used = usage(77);
  fake.processes = {{77, NvmlCalls::not_available, 0, 0}};
  used.find_this_process();
  CHECK_FALSE(used.knows_this_process());
  CHECK(used.used_bytes() == 400);
  fake.tells_processes = false;
  CHECK(used.other_processes().empty());
}

TEST_CASE_METHOD(UsageFixture, "a process that had this one's number before is not this one") {
  fake.processes = {{1, 50, 0, 0}, {7, 90, 0, 0}};
  DeviceUsage used = usage(7);
  fake.processes.push_back({40321, 240, 0, 0});
  used.find_this_process();
  CHECK(used.used_bytes() == 240);
  const std::vector<DeviceProcess> others = used.other_processes();
  REQUIRE(others.size() == 2);
  CHECK((others[0].pid == 7 && others[0].num_bytes == 90));
}

TEST_CASE_METHOD(UsageFixture, "a process that used the GPU before is this one where no other is new, or several are") {
  fake.processes = {{1, 50, 0, 0}, {7, 90, 0, 0}};
  const int appear = GENERATE(0, 2);
  DeviceUsage used = usage(7);
  for (int i = 0; i < appear; ++i) fake.processes.push_back({static_cast<unsigned int>(100 + i), 30, 0, 0});
  used.find_this_process();
  CHECK(used.used_bytes() == 90);
}

TEST_CASE_METHOD(UsageFixture, "where the driver once does not tell, used bytes stay this process's") {
  DeviceUsage used = usage(77);
  fake.processes = {{77, 100, 0, 0}};
  used.find_this_process(hours(1));
  const auto tells = [&](bool does) {
    const std::lock_guard lock(fake.mutex);
    fake.tells_processes = does;
  };
  SECTION("though they were never asked for") {
    tells(false);
    CHECK(used.ask_used_bytes() == 100);
  }
  SECTION("as they were last") {
    hold({{77, 150, 0, 0}});
    CHECK(used.ask_used_bytes() == 150);
    tells(false);
    CHECK(used.ask_used_bytes() == 150);
    tells(true);
    hold({{1, 30, 0, 0}});
    CHECK(used.ask_used_bytes() == 150);
    hold({{77, 200, 0, 0}});
    CHECK(used.ask_used_bytes() == 200);
  }
  CHECK(num_asked == 0);
}

TEST_CASE_METHOD(UsageFixture,
                 "used bytes are read without a question, and follow what this process takes and gives back") {
  const bool tells_this_process = GENERATE(false, true);
  DeviceUsage used = tells_this_process ? usage(77) : usage(77, std::nullopt);
  if (tells_this_process) fake.processes = {{77, 400, 0, 0}};
  used.find_this_process(hours(1));
  // Before it used the GPU, to find it, once more, and from the thread.
  if (tells_this_process) REQUIRE(becomes([&] { return num_questions() == 4; }));
  const int num_before = num_questions() + num_asked;
  for (int step = 0; step < 100; ++step) CHECK(used.used_bytes() == 400);
  take(64);
  CHECK(used.used_bytes() == 464);
  take(-24);
  CHECK(used.used_bytes() == 440);
  CHECK(num_questions() + num_asked == num_before);
  // The driver counts in pages: what it says is right.
  hold({{77, 446, 0, 0}});
  CHECK(used.ask_used_bytes() == (tells_this_process ? 446 : 400));
  CHECK(num_questions() + num_asked == num_before + 1);
}

TEST_CASE_METHOD(UsageFixture, "a thread of its own asks again, and goes at once with what it asks for") {
  const std::ptrdiff_t num_before = num_threads();
  {
    DeviceUsage used = usage(77);
    fake.processes = {{77, 100, 0, 0}};
    used.find_this_process(milliseconds(2));
    CHECK(num_threads() == num_before + 1);
    hold({{77, 500, 0, 0}});
    CHECK(becomes([&] { return used.used_bytes() == 500; }));
    hold({{77, 300, 0, 0}});
    CHECK(becomes([&] { return used.used_bytes() == 300; }));
    const std::lock_guard lock(fake.mutex);
    CHECK(fake.asked_by != std::this_thread::get_id());
  }
  CHECK(num_threads() == num_before);
  const auto begin = steady_clock::now();
  {
    DeviceUsage used = usage(77);
    used.find_this_process(hours(1));
    const DeviceUsage moved = std::move(used);
    CHECK(moved.used_bytes() == 300);
  }
  CHECK(steady_clock::now() - begin < seconds(10));
  CHECK(DeviceUsage::time_between_questions == seconds(2));
}

TEST_CASE_METHOD(UsageFixture, "no thread asks where the library is not there or does not know this process") {
  const std::ptrdiff_t num_before = num_threads();
  DeviceUsage without = usage(7, std::nullopt), unknown = usage(7);
  without.find_this_process();
  unknown.find_this_process();
  CHECK(num_threads() == num_before);
}

TEST_CASE_METHOD(UsageFixture, "an answer during which memory was taken is asked for again") {
  DeviceUsage used = usage(77);
  fake.processes = {{77, 240, 0, 0}};
  used.find_this_process(hours(1));
  REQUIRE(becomes([&] { return num_questions() == 4; }));
  int num_asked_here = 0;  // by this thread; the other may find its answer changed and ask again as well
  {
    const std::lock_guard lock(fake.mutex);
    fake.behind_question = [&, asks = std::this_thread::get_id()] {
      if (std::this_thread::get_id() != asks || ++num_asked_here > 1) return;
      take(64);
      fake.processes = {{77, 304, 0, 0}};
    };
  }
  CHECK(used.ask_used_bytes() == 304);
  CHECK(num_asked_here == 2);
}

TEST_CASE_METHOD(UsageFixture, "memory that the driver counts before its call has returned is not counted twice") {
  DeviceUsage used = usage(77);
  fake.processes = {{77, 240, 0, 0}};
  used.find_this_process(hours(1));
  REQUIRE(becomes([&] { return num_questions() == 4; }));
  std::optional<MemoryChanges::Change> change;
  int num_asked_here = 0;  // by this thread
  {
    const std::lock_guard lock(fake.mutex);
    fake.behind_question = [&, asks = std::this_thread::get_id()] {
      if (std::this_thread::get_id() != asks) return;
      ++num_asked_here;
      if (num_asked_here == 1) {
        change.emplace(*changes);
        fake.processes = {{77, 304, 0, 0}};
      } else if (num_asked_here == 2) {
        change->add(64);
        change.reset();
      }
    };
  }
  CHECK(used.ask_used_bytes() == 304);
  CHECK(num_asked_here == 3);
}

TEST_CASE_METHOD(UsageFixture, "a list of processes that grows while it is asked for is read whole") {
  for (unsigned int pid = 1; pid <= 20; ++pid) fake.processes.push_back({pid, 1, 0, 0});
  fake.grows_between_calls = 30;
  const auto processes = device()->processes();
  REQUIRE(processes.has_value());
  CHECK(processes->size() == 50);
}
