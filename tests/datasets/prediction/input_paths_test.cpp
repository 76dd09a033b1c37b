#include "datasets/prediction/input_paths.h"

#include "tests/datasets/image_file_writing.h"

using namespace trainer;

namespace {

bool is_png(std::string_view path) { return path.ends_with(".png"); }

NextLine lines_of(std::vector<std::string> lines) {
  return [lines = std::move(lines), next = std::size_t{0}](std::string& line) mutable {
    if (next == lines.size()) return false;
    line = lines[next++];
    return true;
  };
}

std::vector<std::string> all_of(InputPaths& paths, std::vector<std::string>* below = nullptr) {
  std::vector<std::string> all;
  std::string path, its_below;
  while (paths.next(path, its_below)) {
    all.push_back(path);
    if (below != nullptr) below->push_back(its_below);
  }
  return all;
}

}  // namespace

TEST_CASE("folders are gone through in the order of names, with what is wanted in them") {
  const DataFolder folder;
  for (const char* file : {"b.png", "a.png", "notes.txt", "c/z.png", "c/d/y.png", ".hidden.png"})
    write_below(folder, file, "x");
  InputPaths paths({folder.path("b.png"), folder.path(), "no such file"}, is_png, lines_of({}));
  CHECK(!paths.has_lines());
  std::vector<std::string> known, below;
  paths.for_each([&](const std::string& path) { known.push_back(path); });
  std::string root = folder.path();
  while (root.ends_with('/')) root.pop_back();
  const std::vector<std::string> wanted = {folder.path("b.png"), root + "/a.png",     root + "/b.png",
                                           root + "/c/z.png",    root + "/c/d/y.png", "no such file"};
  CHECK(all_of(paths, &below) == wanted);
  CHECK(known == wanted);
  CHECK(below == std::vector<std::string>{"b.png", "a.png", "b.png", "c/z.png", "c/d/y.png", "no such file"});
  REQUIRE(paths.remarks().size() == 1);
  CHECK_THAT(paths.remarks().front(), Catch::Contains("1 file"));
}

TEST_CASE("lines name files and folders") {
  const DataFolder folder;
  write_below(folder, "in/a.png", "x");
  write_below(folder, "in/b.png", "x");
  InputPaths paths({"first", "-", "last"}, is_png,
                   lines_of({"one\r", "", folder.path("in"), "two", folder.path("in/a.png")}));
  CHECK(paths.has_lines());
  CHECK(all_of(paths) == std::vector<std::string>{"first", "one", folder.path("in/a.png"), folder.path("in/b.png"),
                                                  "two", folder.path("in/a.png"), "last"});
}

TEST_CASE("lines are read once") { CHECK_THROWS_AS(InputPaths({"-", "-"}, is_png, lines_of({})), ConfigError); }
