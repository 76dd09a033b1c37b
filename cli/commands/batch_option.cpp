#include "cli/commands/batch_option.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>

#include "engine/trainer_command.h"

namespace trainer {

namespace {

bool is_whole_number(const std::string& text, std::int64_t most) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  // A leading 0 makes it octal to what reads it later.
  return error == std::errc() && stop == end && text.front() != '0' && number >= 1 && number <= most;
}

}  // namespace

CLI::Validator whole_number(std::int64_t most, const char* range_goes_to) {
  return CLI::Validator(
      [=](std::string& text) {
        if (is_whole_number(text, most)) return std::string();
        const bool is_range = text.find("..") != std::string::npos;
        return fmt::format("'{}' is no whole number from 1 to {}{}", text, most,
                           is_range ? fmt::format("; '{}' takes a range", trainer_command(range_goes_to)) : "");
      },
      "");
}

CLI::Validator whole_number_or_auto(std::int64_t most) {
  return CLI::Validator(
      [most](std::string& text) {
        return is_whole_number(text, most) || text == "auto"
                   ? std::string()
                   : fmt::format("'{}' is neither auto nor a whole number from 1 to {}", text, most);
      },
      "");
}

}  // namespace trainer
