#include "engine/report/logging/mlflow_files.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "tests/temporary_folder.h"

using namespace trainer;

namespace {

std::string mlflow_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("a quoted text is one line of ASCII") {
  CHECK(yaml_quoted("plain: {a}") == R"("plain: {a}")");
  CHECK(yaml_quoted("a\"b\\c\nd") == R"("a\"b\\c\u000ad")");
  CHECK(yaml_quoted("\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80") == R"("\u00fc\u20ac\U0001f600")");
  CHECK(yaml_quoted("\xff\x1b") == R"("\\xff\\x1b")");
  CHECK(yaml_quoted("") == R"("")");
}

TEST_CASE("a key names a file in its folder, whatever it says") {
  CHECK(mlflow_key("optimizer.lr") == "optimizer.lr");
  CHECK(mlflow_key("../../etc/passwd") == "_.._.._etc_passwd");
  CHECK(mlflow_key("/a b\n\xff") == "_a_b__");
  CHECK(mlflow_key(".") == "_.");
  CHECK(mlflow_key("") == "_");
  CHECK(mlflow_key(std::string(10'000, 'k')).size() == 250);
  CHECK(mlflow_key("." + std::string(10'000, 'k')).size() == 250);
}

TEST_CASE("an experiment is found by its name, also where its folder was made by others, and made once") {
  const TemporaryFolder store;
  std::filesystem::create_directories(store.path() + "/0");
  std::ofstream(store.path() + "/0/meta.yaml") << "{{{ not yaml";
  std::filesystem::create_directories(store.path() + "/12");
  std::ofstream(store.path() + "/12/meta.yaml") << "experiment_id: '12'\nname: 'it''s'\n";
  std::filesystem::create_directories(store.path() + "/.trash/13");
  std::ofstream(store.path() + "/.trash/13/meta.yaml") << "name: gone\n";
  CHECK(find_or_make_experiment(store.path(), "it's", 5) == "12");
  CHECK(find_or_make_experiment(store.path(), "gone", 12) == "13");  // 12 is taken
  for (const std::string name : {"a\"\n../b: [", "\xf0\x9f\x98\x80", "\xff"}) {
    const std::string id = find_or_make_experiment(store.path(), name, 20);
    CHECK(find_or_make_experiment(store.path(), name, 99) == id);
  }
}

TEST_CASE("runs that begin at a time make their experiment once") {
  const TemporaryFolder store;
  for (const std::string name : {"a", "b", "c", "d"}) {
    std::vector<std::future<std::string>> runs(8);
    for (auto& run : runs)
      run = std::async(std::launch::async, [&] { return find_or_make_experiment(store.path(), name, 5); });
    std::set<std::string> ids;
    for (auto& run : runs) ids.insert(run.get());
    CHECK(ids.size() == 1);
  }
}

TEST_CASE("metrics of later steps go, with lines that a killed process left unfinished") {
  const TemporaryFolder store;
  std::filesystem::create_directories(store.path() + "/loss");
  const std::string path = store.path() + "/loss/train", fresh = path + ".tmp";
  std::ofstream(path) << "10 0.5 1\n11 nan 2\n12 0.25 3\nodd\n13 0.2 2";
  std::ofstream(fresh) << "10 0.5 1\n";
  remove_later_metrics(store.path(), 2);
  CHECK(mlflow_text(path) == "10 0.5 1\n11 nan 2\n");
  CHECK_FALSE(std::filesystem::exists(fresh));
}
