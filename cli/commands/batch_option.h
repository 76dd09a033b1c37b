#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class Validator;
}

namespace trainer {

/// A check of an option's value: a whole number from 1 to `most`. `range_goes_to`: the command that takes a range such
/// as 1..8.
CLI::Validator whole_number(std::int64_t most, const char* range_goes_to);
/// A check of an option's value: `auto`, or a whole number from 1 to `most`.
CLI::Validator whole_number_or_auto(std::int64_t most);

}  // namespace trainer
