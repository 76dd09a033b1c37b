#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "datasets/dataset.h"

namespace trainer {

/// Describes and loads the data, reads every sample, and holds what was loaded against what was described.
inline void read_dataset(const DataConfig& config) {
  const DataDescription description = describe_data(config, 1);
  const LoadedData data = load_data(config, 1);
  require_internal(data.train->size() == description.num_train, "as many samples are loaded as were described");
  std::vector<std::byte> sample(static_cast<std::size_t>(data.train->input_types().front().num_bytes()));
  std::vector<std::byte> target(static_cast<std::size_t>(data.train->target_type().num_bytes()));
  for (std::int64_t i = 0; i < data.train->size(); ++i) {
    data.train->read(i, std::array{sample.data(), target.data()});
    if (!data.train->categorical()) continue;
    std::vector<std::int32_t> classes(target.size() / sizeof(std::int32_t));
    data.train->read_classes(i, classes.data());
    for (const std::int32_t the_class : classes) {
      const bool is_class = the_class >= 0 && the_class < description.num_outputs;
      require_internal(is_class || the_class == config.ignored_target, "classes are within those described");
    }
  }
}

}  // namespace trainer
