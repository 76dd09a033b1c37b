#include "engine/train/files/run_lock.h"

#include <catch2/catch.hpp>

#include <filesystem>

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
