#include "tests/fuzz/fuzzed_file.h"
#include "tests/fuzz/fuzzers.h"
#include "tests/fuzz/read_dataset.h"

namespace trainer {

/// Two bytes, the sequence length and 16 times the vocabulary's size (0: from the file), then the file.
void read_fuzzed_tokens(std::string_view input) {
  static const FuzzedFile file;
  if (input.size() < 2) return;
  file.write(input.substr(2));
  DataConfig config;
  config.type = DataType::tokens;
  config.train = file.path();
  config.sequence_length = 1 + static_cast<unsigned char>(input[0]);
  config.classes = 16 * static_cast<std::int64_t>(static_cast<unsigned char>(input[1]));
  config.split = input[0] % 3 == 0 ? 0.25 : 0.0;
  read_dataset(config);
}

}  // namespace trainer
