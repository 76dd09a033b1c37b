#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/errors.h"
#include "tests/fuzz/fuzzers.h"

namespace trainer {

namespace fs = std::filesystem;

TEST_CASE("every input of the fuzzers' corpora is read or refused") {
  const fs::path corpora = fs::path(TRAINER_SOURCE_DIR) / "tests/fuzz/corpus";
  for (const Fuzzer& fuzzer : fuzzers) {
    int num_read = 0, num_refused = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(corpora / fuzzer.name)) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string input{std::istreambuf_iterator<char>(file), {}};
      INFO(entry.path().string());
      try {
        fuzzer.read(input);
        ++num_read;
      } catch (const ConfigError&) {
        ++num_refused;
      } catch (const DataError&) {
        ++num_refused;
      }
    }
    INFO(fuzzer.name);
    CHECK(num_read > 0);
    CHECK(num_refused > 0);
  }
}

}  // namespace trainer
