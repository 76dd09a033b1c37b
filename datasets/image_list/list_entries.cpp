#include "datasets/image_list/list_entries.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "datasets/dataset_format.h"
#include "datasets/input_file.h"
#include "datasets/table/cell_text.h"
#include "datasets/table/csv_records.h"
#include "datasets/table/delimiter.h"
#include "engine/config/text/json_input.h"
#include "engine/config/text/utf8_text.h"

namespace trainer {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 9> usual_images = {"path",       "image", "file",     "filename", "file_name",
                                                          "image_path", "img",   "filepath", "image_id"};
constexpr std::array<std::string_view, 8> usual_targets = {"label",    "labels", "class", "target",
                                                           "category", "tags",   "y",     "class_name"};

constexpr std::size_t most_list_columns = std::size_t{1} << 16;
constexpr std::size_t most_line_bytes = std::size_t{16} << 20;

std::string in_lower_case(std::string text) {
  for (char& letter : text)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter + 32);
  return text;
}

template <class Usual>
std::optional<std::size_t> find_usual(const std::vector<std::string>& names, const Usual& usual, std::size_t but) {
  for (const std::string_view name : usual)
    for (std::size_t i = 0; i < names.size(); ++i)
      if (i != but && in_lower_case(names[i]) == name) return i;
  return std::nullopt;
}

/// Which columns of a list hold what.
struct ListColumns {
  std::size_t image = 0;
  std::vector<std::size_t> targets;
};

/// `names`: of all columns; without a header their numbers.
class ColumnChoice {
 public:
  ColumnChoice(const DataConfig& config, const std::string& file, const std::vector<std::string>& names)
      : config_(config), file_(file), names_(names) {}

  ListColumns choose() const {
    ListColumns columns;
    columns.image = image();
    for (const std::string& name : config_.target) columns.targets.push_back(named("data.target", name));
    if (columns.targets.empty()) columns.targets.push_back(target(columns.image));
    for (const std::size_t each : columns.targets)
      if (each == columns.image)
        throw data_config_error(config_, fmt::format("column '{}' of {} is path and target", names_[each], file_),
                                "two columns: data.image and data.target");
    return columns;
  }

 private:
  std::size_t image() const {
    if (!config_.image.empty()) return named("data.image", config_.image);
    if (!config_.header) return 0;
    const auto found = find_usual(names_, usual_images, names_.size());
    if (!found)
      throw data_config_error(config_, fmt::format("no column of {} is called as paths usually are", file_),
                              fmt::format("data.image: one of {}", list()));
    return *found;
  }
  std::size_t target(std::size_t image) const {
    if (names_.size() == 2) return 1 - image;
    if (const auto found = find_usual(names_, usual_targets, image)) return *found;
    throw data_config_error(config_,
                            fmt::format("{} has {} columns beside the paths, and none of them is called as "
                                        "targets usually are",
                                        file_, names_.size() - 1),
                            fmt::format("data.target: one of {}", list()));
  }
  std::size_t named(std::string_view key, const std::string& name) const {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found != names_.end()) return static_cast<std::size_t>(found - names_.begin());
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && end == name.data() + name.size() && number < names_.size()) return number;
    throw data_config_error(config_, fmt::format("{} has no column '{}', which {} names", file_, name, key),
                            fmt::format("one of {}", list()));
  }
  std::string list() const {
    constexpr std::size_t most_named = 20;
    const auto end = names_.begin() + static_cast<std::ptrdiff_t>(std::min(most_named, names_.size()));
    std::vector<std::string> quoted;
    for (auto name = names_.begin(); name != end; ++name) quoted.push_back(escaped(shortened_cell(*name)));
    return fmt::format("{}{}", fmt::join(quoted, ", "), names_.size() > most_named ? ", …" : "");
  }

  const DataConfig& config_;
  const std::string& file_;
  const std::vector<std::string>& names_;
};

bool begins_with_brace(const std::string& path) {
  InputFile file(path);
  std::array<std::byte, 64> begin{};
  const std::size_t count = file.read(begin.data(), begin.size());
  std::string_view text(reinterpret_cast<const char*>(begin.data()), count);
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

/// The lines of a text without their ends.
class TextLines {
 public:
  explicit TextLines(InputFile& file) : file_(file) {}

  /// False at the end. DataError for a line of more than 16 MiB.
  bool next(std::string& line) {
    line.clear();
    ++number_;
    for (;;) {
      if (at_ == chunk_.size() && !refill()) return !line.empty();
      const std::size_t end = std::min(chunk_.find('\n', at_), chunk_.size());
      line.append(chunk_, at_, end - at_);
      if (line.size() > most_line_bytes)
        throw DataError(fmt::format("{}:{}: a line of more than {} bytes", file_.name(), number_, most_line_bytes));
      at_ = end;
      if (at_ < chunk_.size()) {
        ++at_;
        return true;
      }
    }
  }
  std::int64_t number() const { return number_; }

 private:
  bool refill() {
    constexpr std::size_t chunk_bytes = std::size_t{64} << 10;
    const bool is_first = file_.offset() == 0;
    chunk_.resize(chunk_bytes);
    chunk_.resize(file_.read(reinterpret_cast<std::byte*>(chunk_.data()), chunk_.size()));
    at_ = is_first && chunk_.starts_with("\xEF\xBB\xBF") ? 3 : 0;
    return at_ < chunk_.size();
  }

  InputFile& file_;
  std::string chunk_;
  std::size_t at_ = 0;
  std::int64_t number_ = 0;
};

class ListReader {
 public:
  ListReader(const DataConfig& config, const std::string& path, const ListEntries* like)
      : config_(config), like_(like), entries_(path) {}

  ListEntries read() && {
    if (begins_with_brace(entries_.file()))
      read_json_lines();
    else
      read_table();
    if (entries_.size() == 0) throw DataError(fmt::format("{}: lists no image", entries_.file()));
    entries_.shrink();
    return std::move(entries_);
  }

 private:
  void choose(const std::vector<std::string>& names) {
    DataConfig config = config_;
    if (like_ != nullptr) {  // what the training list has
      config.image = like_->image_column();
      config.target = like_->target_columns();
    }
    columns_ = ColumnChoice(config, entries_.file(), names).choose();
    std::vector<std::string> targets;
    for (const std::size_t each : columns_.targets) targets.push_back(names[each]);
    entries_.name_columns(names[columns_.image], std::move(targets));
  }

  void read_table() {
    InputFile file(entries_.file());
    CsvRecords records(file, delimiter_of(config_));
    bool pending = records.next();
    if (!pending) throw DataError(fmt::format("{}: is empty, expected a list of images", entries_.file()));
    const std::size_t count = records.fields().size();
    if (count < 2) {
      const auto other = other_delimiter(records.fields().front().text, delimiter_of(config_));
      throw records.error(
          records.line(), 1,
          fmt::format("one column, expected paths and targets separated by '{}'; {}", delimiter_of(config_),
                      other ? fmt::format("write data.delimiter: {}", *other) : "see data.delimiter"));
    }
    if (count > most_list_columns)
      throw records.error(records.fields()[most_list_columns],
                          fmt::format("{} columns, more than {}", count, most_list_columns));
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i)
      names.push_back(config_.header ? std::string(trimmed(records.fields()[i])) : fmt::format("{}", i));
    choose(names);
    if (config_.header) pending = records.next();
    for (; pending; pending = records.next()) {
      const auto fields = records.fields();
      if (fields.size() != count)
        throw records.error(fields[std::min(fields.size() - 1, count)],
                            fmt::format("{} fields, expected {}", fields.size(), count));
      const std::string_view path = trimmed(fields[columns_.image]);
      if (path.empty()) throw records.error(fields[columns_.image], "no path of an image");
      std::string targets;
      for (const std::size_t each : columns_.targets) append_target(targets, trimmed(fields[each]));
      add(path, targets, records.line());
    }
  }

  void read_json_lines() {
    InputFile file(entries_.file());
    TextLines lines(file);
    std::string line;
    std::vector<std::string> names;
    while (lines.next(line)) {
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      const auto error = [&](const std::string& message) {
        return DataError(fmt::format("{}:{}: {}", entries_.file(), lines.number(), message));
      };
      const std::optional<Json> object = parse_json<Json>(line);
      if (!object || !object->is_object()) throw error("no object of JSON, expected one in each line");
      if (names.empty()) {
        for (const auto& [key, value] : object->items()) names.push_back(key);
        if (names.size() < 2) throw error("expected a path and a target");
        choose(names);
      }
      const auto value_of = [&](std::size_t column) -> const Json& {
        const auto found = object->find(names[column]);
        if (found == object->end()) throw error(fmt::format("'{}' is missing", escaped(names[column])));
        return *found;
      };
      const Json& path = value_of(columns_.image);
      if (!path.is_string() || path.get_ref<const std::string&>().empty())
        throw error(fmt::format("'{}' is no path", escaped(names[columns_.image])));
      if (path.get_ref<const std::string&>().find('\0') != std::string::npos)
        throw error("a path with a NUL character");
      std::string targets;
      for (const std::size_t each : columns_.targets) {
        const Json& value = value_of(each);
        const bool is_list = value.is_array();
        for (const Json& item : is_list ? value : Json::array({value})) {
          const auto text = text_of(item);
          if (!text || text->find('\0') != std::string::npos)
            throw error(fmt::format("'{}' holds what is no text, number or truth value", escaped(names[each])));
          append_target(targets, *text);
        }
      }
      add(path.get_ref<const std::string&>(), targets, lines.number());
    }
  }

  static std::optional<std::string> text_of(const Json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
    if (value.is_number()) return value.dump();
    return std::nullopt;
  }

  static void append_target(std::string& targets, std::string_view text) {
    targets += text;
    targets.push_back('\0');
  }

  void add(std::string_view path, std::string_view targets, std::int64_t line) {
    entries_.add(std::string(path) + config_.image_suffix, targets, line);
  }

  const DataConfig& config_;
  const ListEntries* like_;
  ListEntries entries_;
  ListColumns columns_;
};

}  // namespace

void ListEntries::add(std::string_view path, std::string_view targets, std::int64_t line) {
  paths_.add(path);
  targets_.add(targets);
  lines_.push_back(line);
}

void ListEntries::shrink() {
  paths_.shrink();
  targets_.shrink();
  lines_.shrink_to_fit();
}

std::vector<std::string_view> ListEntries::targets(std::int64_t row) const {
  std::vector<std::string_view> texts;
  for (std::string_view rest = targets_[row]; !rest.empty();) {
    const std::size_t end = rest.find('\0');
    texts.push_back(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  return texts;
}

std::string ListEntries::place(std::int64_t row) const {
  return fmt::format("{}:{}", file_, lines_[static_cast<std::size_t>(row)]);
}

DataError ListEntries::error(std::int64_t row, const std::string& message) const {
  return DataError(fmt::format("{}: {}", place(row), message));
}

ListEntries read_list(const DataConfig& config, const std::string& path, const ListEntries* like) {
  return ListReader(config, path, like).read();
}

}  // namespace trainer
