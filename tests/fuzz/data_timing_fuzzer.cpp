#include <nlohmann/json.hpp>
#include <string>

#include "engine/train/files/durable_file.h"
#include "engine/train/measure/data_timing_file.h"
#include "tests/fuzz/fuzzed_folder.h"
#include "tests/fuzz/fuzzers.h"
#include "tests/fuzz/patched_json.h"

namespace trainer {

namespace {

constexpr const char* fuzzed_subject = "some data";

std::string written_data_timing() {
  const FuzzedFolder folder({});
  const std::string path = folder.path() + "/data.json";
  KeptDataTiming kept;
  kept.timing.num_distinct = 1;
  kept.timing.one_thread = kept.timing.all_threads = {1, 1, 1};
  write_data_timing(path, fuzzed_subject, kept);
  return read_text_file(path, std::size_t{1} << 20);
}

}  // namespace

/// A patch of a file that is whole.
void read_fuzzed_data_timing(std::string_view input) {
  static const FuzzedFile file;
  static const nlohmann::json whole = nlohmann::json::parse(written_data_timing());
  write_patched(file, whole, input);
  (void)read_data_timing(file.path(), fuzzed_subject);
}

}  // namespace trainer
