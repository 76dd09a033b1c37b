#include "tests/fuzz/fuzzed_file.h"
#include "tests/fuzz/fuzzers.h"
#include "tests/fuzz/read_dataset.h"

namespace trainer {

/// A letter that says how the file is read, then the file.
void read_fuzzed_csv(std::string_view input) {
  static const FuzzedFile file;
  if (input.empty()) return;
  const auto choice = static_cast<unsigned char>(input.front());
  file.write(input.substr(1));
  DataConfig config;
  config.type = DataType::csv;
  config.train = file.path();
  config.header = (choice & 1) != 0;
  config.target_type = (choice & 2) != 0 ? TaskTarget::categorical : TaskTarget::numeric;
  config.delimiter = (choice & 4) != 0 ? ";" : ",";
  config.target = (choice & 8) != 0 ? "1" : "";
  config.targets_are_probabilities = (choice & 16) != 0 && config.target_type == TaskTarget::numeric;
  read_dataset(config);
}

}  // namespace trainer
