#include "tests/fuzz/fuzzed_folder.h"
#include "tests/fuzz/fuzzers.h"
#include "tests/fuzz/read_dataset.h"

namespace trainer {

/// Every batch of the data.
void read_fuzzed_cifar10(std::string_view input) {
  static const FuzzedFile batch;
  static const std::string path = batch.path();
  static const FuzzedFolder folder({{"data_batch_1.bin", path},
                                    {"data_batch_2.bin", path},
                                    {"data_batch_3.bin", path},
                                    {"data_batch_4.bin", path},
                                    {"data_batch_5.bin", path},
                                    {"test_batch.bin", path}});
  batch.write(input);
  DataConfig config;
  config.type = DataType::cifar10;
  config.root = folder.path();
  read_dataset(config);
}

}  // namespace trainer
