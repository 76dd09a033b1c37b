#include "engine/memory/machine_memory.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/memory/heap_count.h"
#include "tests/memory/units.h"

namespace trainer::test {

namespace {

namespace fs = std::filesystem;

/// A folder that looks like the root of a machine with 16 GiB of which 12 GiB are available.
class FakeRoot {
 public:
  FakeRoot() : path_(fs::temp_directory_path() / ("trainer_machine_memory_" + std::to_string(getpid()))) {
    fs::remove_all(path_);
    write("proc/meminfo",
          "MemTotal:       16777216 kB\nMemFree:         1000000 kB\nMemAvailable:   12582912 kB\n"
          "Buffers:           10000 kB\n");
  }
  ~FakeRoot() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text;
  }
  void remove(const std::string& file) const { fs::remove(path_ / file); }
  MachineMemory read() const { return machine_memory(path_); }

 private:
  fs::path path_;
};

}  // namespace

TEST_CASE("Without control groups, what the machine has available counts") {
  FakeRoot root;
  CHECK(root.read().total == 16384 * mib);
  CHECK(root.read().available == 12288 * mib);
}

TEST_CASE("A limit of a control group version 2 lowers both figures") {
  FakeRoot root;
  root.write("proc/self/cgroup", "0::/batch/job\n");
  root.write("sys/fs/cgroup/batch/job/memory.max", "max\n");
  root.write("sys/fs/cgroup/batch/job/memory.current", "1048576\n");
  CHECK(root.read().available == 12288 * mib);

  // The limit stands at the parent; its file pages can be dropped.
  root.write("sys/fs/cgroup/batch/memory.max", std::to_string(4096 * mib) + "\n");
  root.write("sys/fs/cgroup/batch/memory.current", std::to_string(3000 * mib) + "\n");
  CHECK(root.read().total == 4096 * mib);
  CHECK(root.read().available == 1096 * mib);
  root.write("sys/fs/cgroup/batch/memory.stat", "anon 5\ninactive_file " + std::to_string(1000 * mib) +
                                                    "\nactive_file " + std::to_string(500 * mib) + "\nslab 1\n");
  CHECK(root.read().available == 2596 * mib);

  root.write("sys/fs/cgroup/batch/job/memory.max", std::to_string(100 * mib) + "\n");
  root.write("sys/fs/cgroup/batch/job/memory.current", std::to_string(130 * mib) + "\n");
  CHECK(root.read().total == 100 * mib);
  CHECK(root.read().available == 0);
}

TEST_CASE("A limit of a control group version 1 lowers both figures, also where its path is not mounted") {
  FakeRoot root;
  root.write("proc/self/cgroup", "5:cpu,cpuacct:/elsewhere\n4:memory:/docker/abc\n0::/\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(2048 * mib) + "\n");
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(600 * mib) + "\n");
  root.write("sys/fs/cgroup/memory/memory.stat",
             "inactive_file 7\ntotal_inactive_file " + std::to_string(100 * mib) + "\ntotal_active_file 0\n");
  CHECK(root.read().total == 2048 * mib);
  CHECK(root.read().available == 1548 * mib);
  // What version 1 says where there is no limit.
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(root.read().total == 16384 * mib);
  CHECK(root.read().available == 12288 * mib);
}

TEST_CASE("What the process may still map lowers what is available") {
  FakeRoot root;
  const auto limit = [&](const std::string& data, const std::string& addresses) {
    root.write("proc/self/limits",
               "Limit                     Soft Limit           Hard Limit           Units     \n"
               "Max cpu time              unlimited            unlimited            seconds   \n"
               "Max data size             " +
                   data + "   unlimited            bytes     \n" + "Max address space         " + addresses +
                   "           unlimited            bytes     \n");
  };
  root.write("proc/self/status", "Name:\ttrainer\nVmPeak:\t  400000 kB\nVmSize:\t  307200 kB\nVmData:\t  102400 kB\n");
  limit("unlimited", "unlimited");
  CHECK(root.read().available == 12288 * mib);
  limit("unlimited", std::to_string(1000 * mib));
  CHECK(root.read().available == 700 * mib);
  CHECK(root.read().total == 16384 * mib);
  limit(std::to_string(500 * mib), std::to_string(1000 * mib));
  CHECK(root.read().available == 400 * mib);
  limit(std::to_string(50 * mib), "unlimited");
  CHECK(root.read().available == 0);
}

TEST_CASE("A system that tells nothing is answered with zeros") {
  FakeRoot root;
  root.remove("proc/meminfo");
  CHECK(root.read().total == 0);
  CHECK(root.read().available == 0);
}

TEST_CASE("This machine has some memory, and this process a part of it") {
  const MachineMemory memory = machine_memory();
  CHECK(memory.total > 0);
  CHECK(memory.available > 0);
  CHECK(memory.available <= memory.total);
  CHECK(resident_bytes() > 0);
  CHECK(resident_bytes() < memory.total);
}

TEST_CASE("Reading the resident bytes does not touch the heap") {
  const std::int64_t before = num_heap_allocations();
  std::int64_t sum = 0;
  for (int i = 0; i < 100; ++i) sum += resident_bytes();
  const std::int64_t after = num_heap_allocations();
  CHECK(after == before);
  CHECK(sum > 0);
}

}  // namespace trainer::test
