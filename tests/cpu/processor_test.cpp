#include "engine/device/processor.h"

#include <sched.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

using namespace trainer;

namespace {

namespace fs = std::filesystem;

/// The root of a machine whose process is in the control group /jobs/one.
class QuotaRoot {
 public:
  QuotaRoot() : path_(fs::temp_directory_path() / ("trainer_processor_" + std::to_string(getpid()))) {
    fs::remove_all(path_);
  }
  ~QuotaRoot() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  QuotaRoot(const QuotaRoot&) = delete;
  QuotaRoot& operator=(const QuotaRoot&) = delete;

  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text;
  }
  int threads() const { return usable_threads(path_); }

 private:
  fs::path path_;
};

/// Keeps this thread to one CPU.
class OneCpu {
 public:
  OneCpu() {
    REQUIRE(sched_getaffinity(0, sizeof before_, &before_) == 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  }
  ~OneCpu() { sched_setaffinity(0, sizeof before_, &before_); }
  OneCpu(const OneCpu&) = delete;
  OneCpu& operator=(const OneCpu&) = delete;

 private:
  cpu_set_t before_{};
};

}  // namespace

TEST_CASE("Without a quota, threads are the CPUs that the process may run on") {
  const QuotaRoot root;
  cpu_set_t cpus;
  REQUIRE(sched_getaffinity(0, sizeof cpus, &cpus) == 0);
  CHECK(root.threads() == CPU_COUNT(&cpus));
  const OneCpu one;
  CHECK(root.threads() == 1);
}

TEST_CASE("A CPU quota bounds the threads, rounded up, wherever above the process it stands") {
  const QuotaRoot root;
  root.write("proc/self/cgroup", "0::/jobs/one\n");
  const int all = root.threads();
  root.write("sys/fs/cgroup/jobs/one/cpu.max", "max 100000\n");
  CHECK(root.threads() == all);
  root.write("sys/fs/cgroup/jobs/one/cpu.max", "30000 100000\n");
  CHECK(root.threads() == 1);
  root.write("sys/fs/cgroup/jobs/one/cpu.max", "150000 100000\n");
  CHECK(root.threads() == std::min(all, 2));
  root.write("sys/fs/cgroup/jobs/cpu.max", "100000 100000\n");
  CHECK(root.threads() == 1);
}

TEST_CASE("Quotas of version 1 of control groups bound the threads too") {
  const QuotaRoot root;
  root.write("proc/self/cgroup", "4:cpu,cpuacct:/jobs\n");
  const int all = root.threads();
  root.write("sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/cpu/jobs/cpu.cfs_period_us", "100000\n");
  CHECK(root.threads() == all);
  root.write("sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us", "50000\n");
  CHECK(root.threads() == 1);
}
