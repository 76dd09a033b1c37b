#include "cuda/device/device_usage.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>

using namespace trainer;
using namespace trainer::cuda;
using Catch::Contains;
using std::chrono::milliseconds;

namespace {

/// Stands in for the driver's management library.
struct FakeDriver {
  std::vector<NvmlCalls::Process> processes;
  NvmlCalls::Memory memory{1000, 700, 300};
  int num_questions = 0;
  bool tells_processes = true;
  int grows_between_calls = 0;  ///< processes that start while the list is asked for
};
FakeDriver* driver = nullptr;

const NvmlCalls& fake_calls() {
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
      ++driver->num_questions;
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

struct Fixture {
  FakeDriver fake;
  std::shared_ptr<MemoryChanges> changes = std::make_shared<MemoryChanges>();
  DeviceUsage::Clock::time_point now;
  int num_asked = 0;
  Fixture() { driver = &fake; }

  std::optional<NvmlDevice> device() const { return NvmlDevice::find(fake_calls(), "0000:3B:00.0"); }
  DeviceUsage usage(std::int64_t own_pid) { return usage(own_pid, device()); }
  DeviceUsage usage(std::int64_t own_pid, std::optional<NvmlDevice> nvml) {
    const auto ask = [this] {
      ++num_asked;
      return FreeAndTotal{600, 1000};
    };
    return {nvml, ask, own_pid, changes};
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "a device is found by its bus id, with its clocks and the driver's version") {
  CHECK_FALSE(NvmlDevice::find(fake_calls(), "0000:5E:00.0").has_value());
  REQUIRE(device().has_value());
  CHECK(device()->sm_clock() == 1980);
  CHECK(device()->memory_clock() == 3201);
  CHECK(nvml_driver_version(fake_calls()) == "580.65.06");
}

TEST_CASE_METHOD(Fixture, "used bytes are this process's, and the others are named, largest first") {
  fake.processes = {{1, 50, 0, 0}, {2, 70, 0, 0}};
  DeviceUsage used = usage(77);
  fake.processes.push_back({77, 240, 0, 0});
  used.find_this_process();
  CHECK(used.knows_this_process());
  CHECK(used.used_bytes(now) == 240);
  CHECK(num_asked == 0);
  const std::vector<DeviceProcess> others = used.other_processes();
  REQUIRE(others.size() == 2);
  CHECK((others[0].pid == 2 && others[0].num_bytes == 70));
  CHECK((others[1].pid == 1 && others[1].num_bytes == 50));
  CHECK(!others[1].name.empty());
  CHECK_THAT(used.origin(), Contains("NVML") && Contains("this process"));
}

TEST_CASE_METHOD(Fixture, "in a container the process that is new is this one") {
  fake.processes = {{1, 50, 0, 0}};
  DeviceUsage used = usage(7);
  fake.processes.push_back({40321, 240, 0, 0});
  used.find_this_process();
  CHECK(used.used_bytes(now) == 240);
  CHECK(used.other_processes().size() == 1);
}

TEST_CASE_METHOD(Fixture, "where nobody tells which process is this one, what CUDA counts for all stands in") {
  fake.processes = {{1, 50, 0, 0}};
  const int appear = GENERATE(0, 2);
  DeviceUsage used = usage(7);
  for (int i = 0; i < appear; ++i) fake.processes.push_back({static_cast<unsigned int>(100 + i), 30, 0, 0});
  used.find_this_process();
  CHECK_FALSE(used.knows_this_process());
  CHECK(used.used_bytes(now) == 400);
  CHECK_THAT(used.origin(), Contains("cudaMemGetInfo") && Contains("all processes"));
  // One of the new ones is this process: only those before it are surely others.
  CHECK(used.other_processes().size() == 1);
}

TEST_CASE_METHOD(Fixture, "without the management library used bytes are CUDA's count") {
  DeviceUsage used = usage(7, std::nullopt);
  used.find_this_process();
  CHECK(used.used_bytes(now) == 400);
  CHECK(used.other_processes().empty());
  CHECK_THAT(used.origin(), Contains("libnvidia-ml.so.1"));
}

TEST_CASE_METHOD(Fixture, "a driver that hides what processes hold does not make up bytes") {
  DeviceUsage used = usage(77);
  fake.processes = {{77, NvmlCalls::not_available, 0, 0}};
  used.find_this_process();
  CHECK_FALSE(used.knows_this_process());
  CHECK(used.used_bytes(now) == 400);
  fake.tells_processes = false;
  CHECK(used.other_processes().empty());
}

TEST_CASE_METHOD(Fixture, "a process that had this one's number before is not this one") {
  fake.processes = {{1, 50, 0, 0}, {7, 90, 0, 0}};
  DeviceUsage used = usage(7);
  fake.processes.push_back({40321, 240, 0, 0});
  used.find_this_process();
  CHECK(used.used_bytes(now) == 240);
  const std::vector<DeviceProcess> others = used.other_processes();
  REQUIRE(others.size() == 2);
  CHECK((others[0].pid == 7 && others[0].num_bytes == 90));
}

TEST_CASE_METHOD(Fixture, "a process that used the GPU before is this one where no other is new, or several are") {
  fake.processes = {{1, 50, 0, 0}, {7, 90, 0, 0}};
  const int appear = GENERATE(0, 2);
  DeviceUsage used = usage(7);
  for (int i = 0; i < appear; ++i) fake.processes.push_back({static_cast<unsigned int>(100 + i), 30, 0, 0});
  used.find_this_process();
  CHECK(used.used_bytes(now) == 90);
}

TEST_CASE_METHOD(Fixture, "where the driver once does not tell, used bytes stay this process's") {
  DeviceUsage used = usage(77);
  fake.processes = {{77, 100, 0, 0}};
  used.find_this_process();
  SECTION("though they were never asked for") {
    fake.tells_processes = false;
    CHECK(used.used_bytes(now) == 100);
  }
  SECTION("as they were last") {
    fake.processes = {{77, 150, 0, 0}};
    CHECK(used.used_bytes(now) == 150);
    fake.tells_processes = false;
    ++changes->count;
    CHECK(used.used_bytes(now) == 150);
    fake.tells_processes = true;
    fake.processes = {{1, 30, 0, 0}};
    CHECK(used.used_bytes(now + milliseconds(200)) == 150);
    fake.processes = {{77, 200, 0, 0}};
    CHECK(used.used_bytes(now + milliseconds(400)) == 200);
  }
  CHECK(num_asked == 0);
}

TEST_CASE_METHOD(Fixture, "used bytes are asked for anew after a change or 200 ms") {
  DeviceUsage used = usage(77);
  fake.processes = {{77, 100, 0, 0}};
  used.find_this_process();
  CHECK(used.used_bytes(now) == 100);
  fake.processes = {{77, 200, 0, 0}};
  const int num_questions = fake.num_questions;
  CHECK(used.used_bytes(now + milliseconds(199)) == 100);
  CHECK(fake.num_questions == num_questions);
  ++changes->count;
  CHECK(used.used_bytes(now + milliseconds(199)) == 200);
  fake.processes = {{77, 300, 0, 0}};
  CHECK(used.used_bytes(now + milliseconds(398)) == 200);
  CHECK(used.used_bytes(now + milliseconds(399)) == 300);
}

TEST_CASE_METHOD(Fixture, "a list of processes that grows while it is asked for is read whole") {
  for (unsigned int pid = 1; pid <= 20; ++pid) fake.processes.push_back({pid, 1, 0, 0});
  fake.grows_between_calls = 30;
  const auto processes = device()->processes();
  REQUIRE(processes.has_value());
  CHECK(processes->size() == 50);
}
