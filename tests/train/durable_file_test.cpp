#include "engine/train/durable_file.h"

#include "engine/errors.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

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
