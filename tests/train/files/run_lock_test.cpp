#include "engine/train/files/run_lock.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "engine/errors.h"

using namespace trainer;

TEST_CASE("a folder that a run writes is refused to a second one until the first has ended") {
  const auto folder = std::filesystem::temp_directory_path() / "trainer_run_lock_test";
  std::filesystem::create_directories(folder);
  {
    const RunLock first(folder.string());
    CHECK_THROWS_AS(RunLock(folder.string()), DataError);
  }
  CHECK_NOTHROW(RunLock(folder.string()));
  std::filesystem::remove_all(folder);
}

TEST_CASE("a folder that was made to be held goes again where nothing was written into it") {
  const auto folder = (std::filesystem::temp_directory_path() / "trainer_run_lock_test" / "a").string();
  { const RunLock lock(folder); }
  CHECK_FALSE(std::filesystem::exists(std::filesystem::path(folder).parent_path()));
  {
    const RunLock lock(folder);
    std::filesystem::create_directories(folder + "/written");
  }
  CHECK(std::filesystem::exists(folder + "/written"));
  std::filesystem::remove_all(std::filesystem::path(folder).parent_path());
}

TEST_CASE("whether a folder is held is told without taking it") {
  const auto folder = (std::filesystem::temp_directory_path() / "trainer_held_folder_test").string();
  std::filesystem::create_directories(folder);
  {
    const RunLock lock(folder);
    const std::optional<HeldFolders> held = HeldFolders::read();
    REQUIRE(held);
    CHECK(held->holder_of(folder, 0) == ::getpid());
    CHECK(held->holder_of(folder + "/none", 0) == 0);
  }
  const std::optional<HeldFolders> held = HeldFolders::read();
  REQUIRE(held);
  CHECK(held->holder_of(folder, 0) == 0);
  CHECK_NOTHROW(RunLock(folder));
  std::filesystem::remove_all(folder);
  CHECK_FALSE(HeldFolders::read("/none/locks"));
}

TEST_CASE("a lock under another number of the file system is the folder's where its writer holds it") {
  const auto folder = std::filesystem::temp_directory_path() / "trainer_listed_locks_test";
  std::filesystem::create_directories(folder);
  struct stat status {};
  REQUIRE(stat(folder.c_str(), &status) == 0);
  const std::string list = (folder / "locks").string();
  std::ofstream(list) << "1: POSIX  ADVISORY  WRITE 70 7f:01:" << status.st_ino << " 0 EOF\n"
                      << "2: FLOCK  ADVISORY  READ  71 7f:01:" << status.st_ino << " 0 EOF\n"
                      << "3: FLOCK  ADVISORY  WRITE 72 7f:01:" << status.st_ino << " 0 EOF\n"
                      << "3: -> FLOCK  ADVISORY  WRITE 73 7f:01:" << status.st_ino << " 0 EOF\n"
                      << "4: FLOCK  ADVISORY  WRITE 74 7f:01:" << status.st_ino << "x 0 EOF\nnonsense\n";
  const std::optional<HeldFolders> held = HeldFolders::read(list);
  REQUIRE(held);
  CHECK(held->holder_of(folder.string(), 0) == 0);
  CHECK(held->holder_of(folder.string(), 72) == 72);
  for (const std::int64_t other : {70, 71, 73, 74}) CHECK(held->holder_of(folder.string(), other) == 0);
  std::filesystem::remove_all(folder);
}
