#include "cli/commands/batch_option.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>

namespace trainer {

CLI::Validator whole_number_or_auto(std::int64_t most) {
  return CLI::Validator(
      [most](std::string& text) {
        std::int64_t number = 0;
        const char* const end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, number);
        const bool is_number = error == std::errc() && stop == end && number >= 1 && number <= most;
        return is_number || text == "auto"
                   ? std::string()
                   : fmt::format("'{}' is neither auto nor a whole number from 1 to {}", text, most);
      },
      "");
}

}  // namespace trainer
