#include "tests/fuzz/fuzzed_file.h"
#include "tests/fuzz/fuzzers.h"
#include "tests/fuzz/read_dataset.h"

namespace trainer {

/// A byte of options and a file with samples and targets, or the samples alone, whose file is then that of its labels
/// too.
void read_fuzzed_arrays(std::string_view input) {
  static const FuzzedFile file;
  if (input.empty()) return;
  const auto options = static_cast<unsigned char>(input[0]);
  file.write(input.substr(1));
  DataConfig config;
  config.type = DataType::arrays;
  config.train = file.path();
  // Another path of the same file: one array is samples and targets then.
  if ((options & 1) != 0) config.train_labels = "/proc/self/fd/../" + file.path().substr(sizeof("/proc/self/") - 1);
  if ((options & 2) != 0) config.target_type = TaskTarget::numeric;
  if ((options & 4) != 0) config.targets_are_probabilities = true;
  if ((options & 8) != 0) config.layout = ImageLayout::channels_first;
  if ((options & 16) != 0) config.layout = ImageLayout::channels_last;
  if ((options & 32) != 0) config.classes = 3;
  if ((options & 64) != 0) {
    RandomCropSpec crop;
    crop.size = {3, 2};
    crop.padding = {0, 1, 0, 0};
    crop.pad_if_needed = true;
    RotateSpec rotate;
    rotate.degrees = {30};
    config.train_transforms = {{"random_crop", crop}, {"rotate", rotate}, {"flip", FlipSpec{}}};
  }
  read_dataset(config);
}

}  // namespace trainer
