#include "datasets/table/delimiter.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "datasets/dataset_format.h"

namespace trainer {

char delimiter_of(const DataConfig& config) {
  if (config.delimiter == "\\t" || config.delimiter == "tab") return '\t';
  if (config.delimiter.size() != 1 || std::string_view("\"\r\n").find(config.delimiter[0]) != std::string_view::npos)
    throw data_config_error(config, fmt::format("data.delimiter '{}' cannot separate fields", config.delimiter),
                            "one character, such as ',', ';' or '\\t'");
  return config.delimiter[0];
}

std::optional<std::string_view> other_delimiter(std::string_view text, char delimiter) {
  constexpr std::array<std::pair<char, std::string_view>, 4> usual = {
      {{';', "';'"}, {'\t', "tab"}, {',', "','"}, {'|', "'|'"}}};
  for (const auto& [character, value] : usual)
    if (character != delimiter && text.find(character) != std::string_view::npos) return value;
  return std::nullopt;
}

}  // namespace trainer
