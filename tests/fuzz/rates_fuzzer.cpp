#include "engine/train/measure/rates_file.h"

#include <nlohmann/json.hpp>
#include <string>

#include "engine/train/files/durable_file.h"
#include "tests/fuzz/fuzzed_folder.h"
#include "tests/fuzz/fuzzers.h"
#include "tests/fuzz/patched_json.h"

namespace trainer {

namespace {

std::string written_rates() {
  const FuzzedFolder folder({});
  const std::string path = folder.path() + "/rates.json";
  write_rates(path, "cpu", assumed_cpu_rates(1));
  return read_text_file(path, std::size_t{1} << 20);
}

}  // namespace

/// A patch of a file that is whole: every op there is has a figure in it.
void read_fuzzed_rates(std::string_view input) {
  static const FuzzedFile file;
  static const nlohmann::json whole = nlohmann::json::parse(written_rates());
  write_patched(file, whole, input);
  (void)read_rates(file.path(), "cpu");
}

}  // namespace trainer
