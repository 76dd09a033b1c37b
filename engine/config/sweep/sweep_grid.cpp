#include "engine/config/sweep/sweep_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <variant>

#include "engine/bytes.h"
#include "engine/config/sweep/sweep_range.h"
#include "engine/config/text/number_text.h"
#include "engine/config/text/utf8_text.h"
#include "engine/config/yaml/source_set.h"

namespace trainer {
namespace {

std::string_view without_blanks(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// The pieces between commas that stand outside brackets, braces and quotes.
std::vector<std::string_view> split_values(std::string_view text) {
  std::vector<std::string_view> pieces;
  int depth = 0;
  char quote = '\0';
  char before = ',';  // the last that is no space: where a value begins, a quote opens
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (quote != '\0') {
      if (letter == '\\' && quote == '"')
        ++i;
      else if (letter == quote)
        quote = '\0';
      before = letter;
      continue;
    }
    const bool begins = before == ',' || before == '[' || before == '{' || before == ':';
    if ((letter == '"' || letter == '\'') && begins) quote = letter;
    if (letter == '[' || letter == '{') ++depth;
    if (letter == ']' || letter == '}') --depth;
    if (letter == ',' && depth <= 0) {
      pieces.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
    if (letter != ' ' && letter != '\t') before = letter;
  }
  pieces.push_back(text.substr(begin));
  return pieces;
}

/// Whether setting `key` also sets, or replaces, `other`.
bool sets_key(std::string_view key, std::string_view other) {
  return other.starts_with(key) && (other.size() == key.size() || other[key.size()] == '.');
}

/// What stands behind the last dot.
std::string last_key_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

/// A number that is the same on every machine and in every release: FNV-1a.
std::uint32_t name_hash(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619U;
  return hash;
}

/// The text as a folder's name. Where letters had to be replaced or left out, a hash keeps names apart.
std::string folder_name(const std::string& text) {
  constexpr std::size_t longest = 100;
  std::string name = text;
  for (char& letter : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
                       std::string_view("._+-=,").find(letter) != std::string_view::npos;
    if (!plain) letter = '_';
  }
  if (name.size() > longest) name.resize(longest);
  return name == text ? name : fmt::format("{}-{:08x}", name, name_hash(text));
}

/// Reads the arguments and reports what is wrong with them.
class GridReader {
 public:
  /// The values where the argument is swept, else none.
  std::vector<std::string> values_of(const std::string& argument) {
    const int source = sources_.add_argument(argument);
    const std::size_t equals = argument.find('=');
    if (equals == std::string::npos) return {};
    const std::string_view text = std::string_view(argument).substr(equals + 1);
    const std::vector<std::string_view> pieces = split_values(text);
    std::vector<std::string> values;
    bool is_swept = pieces.size() > 1;
    for (const std::string_view piece : pieces) {
      const std::string_view value = without_blanks(piece);
      const auto begin = static_cast<std::size_t>((value.empty() ? piece : value).data() - argument.data());
      const Mark mark = mark_of(source, argument, begin, value.size());
      std::vector<std::string> counted = {std::string(value)};
      if (std::optional<SweepRange> range = read_sweep_range(value)) {
        is_swept = true;
        if (!range->mistake.empty()) sources_.report(mark, range->mistake, range->expectation);
        counted = std::move(range->values);
      }
      if (!is_swept) continue;
      if (value.empty()) sources_.report(mark, "a value is missing between commas");
      for (std::string& next : counted) {
        if (std::find(values.begin(), values.end(), next) != values.end()) {
          if (!value.empty()) sources_.report(mark, fmt::format("the value {} comes twice", next));
          break;
        }
        values.push_back(std::move(next));
      }
    }
    return is_swept ? values : std::vector<std::string>{};
  }

  /// A mistake about the key of the argument that was read as number `index`.
  void report(int index, const std::string& argument, std::string message, std::string expectation = "") {
    sources_.report(mark_of(index, argument, 0, argument.find('=')), std::move(message), std::move(expectation));
  }

  void throw_mistakes() const { sources_.throw_mistakes(); }

 private:
  static Mark mark_of(int source, std::string_view argument, std::size_t begin, std::size_t num_bytes) {
    return {source, 1, static_cast<int>(num_code_points(argument.substr(0, begin))) + 1,
            std::max(1, static_cast<int>(num_code_points(argument.substr(begin, num_bytes))))};
  }

  SourceSet sources_;
};

}  // namespace

SweepGrid::SweepGrid(const std::vector<std::string>& arguments) {
  GridReader reader;
  const auto key_of = [](const std::string& argument) { return argument.substr(0, argument.find('=')); };
  for (const std::string& argument : arguments) {
    const std::string key = key_of(argument);
    std::vector<std::string> values = reader.values_of(argument);
    const bool is_swept = !values.empty();
    const auto index = static_cast<int>(arguments_.size());
    if (is_swept && key == "output")
      reader.report(index, argument, "'output' cannot be swept", "the folder of the sweep");
    for (const Argument& earlier : arguments_) {
      const std::string other = key_of(earlier.text);
      if ((is_swept || earlier.key >= 0) && sets_key(key, other)) {
        reader.report(index, argument,
                      other == key ? fmt::format("'{}' is given twice", key)
                                   : fmt::format("'{}' replaces '{}', which stands before it", key, other));
        break;
      }
    }
    arguments_.push_back({argument, is_swept ? static_cast<int>(keys_.size()) : -1});
    if (is_swept) keys_.push_back({key, "", std::move(values)});
  }
  reader.throw_mistakes();
  if (keys_.empty())
    throw ConfigError(
        "nothing is swept: give a key several values, such as train.batch_size=16,32,64 or "
        "train.batch_size=16..512:*2");
  std::size_t num_points = 1;
  for (const SweptKey& key : keys_) {
    num_points = std::min(num_points * key.values.size(), most_sweep_points + 1);
  }
  if (num_points > most_sweep_points)
    throw ConfigError(fmt::format("the sweep has more than {} points; sweep fewer values at once", most_sweep_points));
  for (SweptKey& key : keys_) {
    const std::string last = last_key_part(key.key);
    const auto ends_so = [&](const SweptKey& other) { return last_key_part(other.key) == last; };
    key.label = std::count_if(keys_.begin(), keys_.end(), ends_so) == 1 ? last : key.key;
  }
}

SweepPoint SweepGrid::point(const std::vector<std::string>& values) const {
  SweepPoint point;
  point.values = values;
  for (const Argument& argument : arguments_) {
    if (argument.key < 0) {
      point.overrides.push_back(argument.text);
      continue;
    }
    const auto index = static_cast<std::size_t>(argument.key);
    point.overrides.push_back(keys_[index].key + "=" + values[index]);
  }
  std::string name;
  for (std::size_t i = 0; i < keys_.size(); ++i)
    name += fmt::format("{}{}={}", name.empty() ? "" : ",", keys_[i].label, values[i]);
  point.name = folder_name(name);
  return point;
}

std::vector<SweepPoint> SweepGrid::points() const {
  std::size_t num_points = 1;
  for (const SweptKey& key : keys_) num_points *= key.values.size();
  std::vector<SweepPoint> points;
  for (std::size_t number = 0; number < num_points; ++number) {
    std::vector<std::string> values(keys_.size());
    std::size_t rest = number;
    for (std::size_t i = keys_.size(); i-- > 0;) {
      values[i] = keys_[i].values[rest % keys_[i].values.size()];
      rest /= keys_[i].values.size();
    }
    points.push_back(point(values));
  }
  return points;
}

std::optional<double> number_of_value(const std::string& value) {
  const auto number = read_number(value);
  if (const double* read = std::get_if<double>(&number)) return *read;
  if (const std::optional<std::int64_t> size = parse_bytes(value)) return static_cast<double>(*size);
  return std::nullopt;
}

bool grows_memory(const std::string& key, const std::vector<std::string>& values) {
  return key != "memory.limit" && std::all_of(values.begin(), values.end(), [](const std::string& value) {
           return number_of_value(value).has_value();
         });
}

bool value_is_less(const std::string& a, const std::string& b) {
  const auto rank = [](const std::string& value) {
    const std::optional<double> number = number_of_value(value);
    return std::tuple(!number.has_value(), number.value_or(0.0), value);
  };
  return rank(a) < rank(b);
}

}  // namespace trainer
