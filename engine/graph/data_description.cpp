#include "engine/graph/data_description.h"

namespace trainer {

std::string DataDescription::sample_text() const {
  std::string text;
  for (const InputDescription& input : inputs) text += (text.empty() ? "" : ", ") + input.type.to_string();
  return text;
}

std::int64_t DataDescription::sample_bytes() const {
  std::int64_t num_bytes = target.num_bytes();
  for (const InputDescription& input : inputs) num_bytes += input.type.num_bytes();
  return num_bytes;
}

}  // namespace trainer
