#include "engine/train/files/durable_file.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "engine/errors.h"
#include "engine/train/files/run_directory.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

namespace {

bool can_exchange = true;

}  // namespace

// In the place of the C library's: a file system that cannot exchange two names.
extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  if (can_exchange) return static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
  errno = EINVAL;
  return -1;
}

TEST_CASE("Directories are made with those above them") {
  const OutputFolder folder;
  make_directories_durably(folder.path("a/b/c"));
  CHECK(std::filesystem::is_directory(folder.path("a/b/c")));
  CHECK_NOTHROW(make_directories_durably(folder.path("a/b/c/")));
  write_bytes(folder.path("file"), "x");
  CHECK_THROWS_WITH(make_directories_durably(folder.path("file") + "/d"), Catch::Contains(folder.path("file")));
}

TEST_CASE("A new file does not take the place of another") {
  const OutputFolder folder;
  CHECK(write_new_file_durably(folder.path("a"), "first"));
  CHECK_FALSE(write_new_file_durably(folder.path("a"), "second"));
  CHECK(file_bytes(folder.path("a")) == "first");
  CHECK_THROWS_AS(write_new_file_durably(folder.path("none/a"), "x"), DataError);
}

TEST_CASE("A link that is there is turned, and nothing is left beside it") {
  const OutputFolder folder;
  point_link(folder.path("latest"), "one");
  point_link(folder.path("latest"), "two");
  CHECK(std::filesystem::read_symlink(folder.path("latest")) == "two");
  const std::filesystem::directory_iterator entries(folder.path());
  CHECK(std::distance(begin(entries), end(entries)) == 1);
}

TEST_CASE("A folder takes another's place, on file systems that cannot exchange two names too") {
  const OutputFolder folder;
  can_exchange = GENERATE(true, false);
  for (const char* name : {"old", "new"}) {
    make_directories_durably(folder.path(name));
    write_bytes(folder.path(name) + "/text", name);
  }
  replace_durably(folder.path("new"), folder.path("old"));
  can_exchange = true;
  CHECK(file_bytes(folder.path("old") + "/text") == "new");
  const std::filesystem::directory_iterator entries(folder.path());
  CHECK(std::distance(begin(entries), end(entries)) == 1);
}

TEST_CASE("A checkpoint that was aside when a run was killed is back at the next start") {
  const OutputFolder folder;
  const RunDirectory directory(folder.path());
  const bool has_new = GENERATE(false, true);
  const auto make = [&](const std::string& name) {
    make_directories_durably(directory.checkpoints_path() + "/" + name);
    write_bytes(directory.checkpoints_path() + "/" + name + "/state.json", name);
  };
  make(".step-00000004.aside");  // as replace_durably leaves it between its two steps, or behind both
  make(has_new ? "step-00000004" : ".step-00000004.77.tmp");
  make("notes");
  directory.prepare();
  CHECK(directory.checkpoint_steps() == std::vector<std::int64_t>{4});
  CHECK(file_bytes(directory.checkpoint_path(4) + "/state.json") ==
        (has_new ? "step-00000004" : ".step-00000004.aside"));
  const std::filesystem::directory_iterator entries(directory.checkpoints_path());
  CHECK(std::distance(begin(entries), end(entries)) == 2);
}
