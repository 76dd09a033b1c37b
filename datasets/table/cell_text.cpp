#include "datasets/table/cell_text.h"

#include <charconv>
#include <cmath>

#include "engine/config/yaml/node_text.h"

namespace trainer {

std::string_view trimmed(const CsvField& field) {
  std::string_view text = field.text;
  if (field.quoted) return text;
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::optional<double> number_in(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string yaml_word(std::string_view text) {
  Node word;
  word.kind = NodeKind::scalar;
  word.quoted = true;
  word.text = text;
  return flow_text(word);
}

std::string shortened_cell(std::string_view text) {
  constexpr std::size_t most_shown = 40;
  if (text.size() <= most_shown) return std::string(text);
  std::size_t end = most_shown;
  const auto continues = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U; };
  while (end > 0 && continues(end)) --end;
  return std::string(text.substr(0, end)) + "…";
}

}  // namespace trainer
