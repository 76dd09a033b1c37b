#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "datasets/table/csv_records.h"

namespace trainer {

/// A field without the blanks around it; what stands in quotes stays as it is.
std::string_view trimmed(const CsvField& field);

/// The finite number that the whole of `text` is, in the notation of C ("-1.5e3", also with a plus).
std::optional<double> number_in(std::string_view text);

/// As a configuration writes it: in quotes where YAML would take it for something else.
std::string yaml_word(std::string_view text);

/// At most 40 bytes of it, whole characters, for a message; what escapes it there is not done here.
std::string shortened_cell(std::string_view text);

}  // namespace trainer
