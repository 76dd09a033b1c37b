#include <algorithm>

#include "tests/fuzz/fuzzed_file.h"
#include "tests/fuzz/fuzzers.h"
#include "tests/fuzz/read_dataset.h"

namespace trainer {

/// A byte with the size of the file of labels, this file, and the file of images.
void read_fuzzed_idx(std::string_view input) {
  static const FuzzedFile labels, images;
  if (input.empty()) return;
  const std::size_t num_label_bytes = std::min<std::size_t>(static_cast<unsigned char>(input[0]), input.size() - 1);
  labels.write(input.substr(1, num_label_bytes));
  images.write(input.substr(1 + num_label_bytes));
  DataConfig config;
  config.type = DataType::idx;
  config.train = images.path();
  config.train_labels = labels.path();
  read_dataset(config);
}

}  // namespace trainer
