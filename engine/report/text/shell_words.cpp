#include "engine/report/text/shell_words.h"

#include <algorithm>

#include "engine/config/text/shell_word.h"
#include "engine/report/text/style.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

std::vector<std::string> quoted_each(const std::vector<std::string>& words) {
  std::vector<std::string> all;
  all.reserve(words.size());
  for (const std::string& word : words) all.push_back(shell_word(word));
  return all;
}

std::string folded(const std::vector<std::string>& words, std::size_t width, std::string_view indent) {
  constexpr std::size_t continuation_columns = 2;
  std::string text;
  std::size_t column = 0;
  for (const std::string& word : words) {
    const std::size_t columns = display_width(word);
    if (text.empty()) {
      column = columns;
    } else if (column + 1 + columns + continuation_columns <= width) {
      text += ' ';
      column += 1 + columns;
    } else {
      text += " \\\n";
      text += indent;
      column = columns;
    }
    text += word;
  }
  return text;
}

std::string_view key_of(std::string_view override_text) { return override_text.substr(0, override_text.find('=')); }

bool replaces(std::string_view key, std::string_view older) {
  return older == key || (older.size() > key.size() && older.starts_with(key) && older[key.size()] == '.');
}

}  // namespace

std::string shell_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

std::string folded_shell_words(const std::vector<std::string>& words, std::size_t width, std::string_view indent) {
  return folded(quoted_each(words), width, indent);
}

std::string pasted_command(const std::vector<std::string>& words, const Style& style, std::string_view indent) {
  std::vector<std::string> all = quoted_each(words);
  all.insert(all.begin(), trainer_command());
  const std::size_t width = static_cast<std::size_t>(style.width) - indent.size() - 2;  // of the lines that go on
  return std::string(indent) + folded(all, width, std::string(indent) + "  ") + '\n';
}

std::vector<std::string> merged_overrides(const std::vector<std::string>& overrides,
                                          const std::vector<std::string>& further) {
  std::vector<std::string> merged;
  for (const std::string& older : overrides) {
    const bool replaced = std::any_of(further.begin(), further.end(),
                                      [&](const std::string& newer) { return replaces(key_of(newer), key_of(older)); });
    if (!replaced) merged.push_back(older);
  }
  merged.insert(merged.end(), further.begin(), further.end());
  return merged;
}

}  // namespace trainer
