#include "engine/report/logging/mlflow_files.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "engine/config/text/utf8_text.h"
#include "engine/config/yaml/yaml_tree.h"
#include "engine/errors.h"
#include "engine/train/files/durable_file.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_mlflow_key = 250, longest_meta = std::size_t{1} << 16;
constexpr const char *store_lock_file = ".trainer.lock", *fresh_ending = ".tmp";

/// The code point that begins at `i` of well-formed UTF-8, with `i` moved behind it.
std::uint32_t next_code_point(std::string_view text, std::size_t& i) {
  const auto first = static_cast<unsigned char>(text[i++]);
  const int further = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
  std::uint32_t point = further == 0 ? first : first & (0x3fU >> static_cast<unsigned>(further));
  for (int k = 0; k < further; ++k) point = point << 6U | (static_cast<unsigned char>(text[i++]) & 0x3fU);
  return point;
}

bool is_experiment_id(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Its name; nothing where the file is none that can be read.
std::optional<std::string> name_of_experiment(const std::string& meta) {
  try {
    SourceSet sources;
    const std::string text = read_text_file(meta, longest_meta);
    const std::optional<Node> root = parse_yaml(sources, sources.add_file(meta, text), text);
    const Node* const name = root ? root->find("name") : nullptr;
    return name != nullptr && name->kind == NodeKind::scalar ? std::optional(name->text) : std::nullopt;
  } catch (const Error&) {  // somebody else's
    return std::nullopt;
  }
}

/// Keeps other runs from a store while an experiment is looked for and made. A file of its own, as the store's folder
/// may be one that its run holds (RunLock).
class StoreLock {
 public:
  explicit StoreLock(const std::string& store) {
    const std::string path = store + '/' + store_lock_file;
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (file_ < 0) throw DataError(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
    constexpr std::chrono::milliseconds between{10};
    constexpr int most_tries = 3000;
    for (int tries = 1; ::flock(file_, LOCK_EX | LOCK_NB) != 0; ++tries) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) return;  // no locks on this file system
      if (tries == most_tries) {
        ::close(file_);
        throw DataError(fmt::format("another run holds {} for half a minute now", path));
      }
      std::this_thread::sleep_for(between);
    }
  }
  ~StoreLock() { ::close(file_); }
  StoreLock(const StoreLock&) = delete;
  StoreLock& operator=(const StoreLock&) = delete;

 private:
  int file_ = -1;
};

void remove_later_lines(const std::string& path, std::int64_t last_step) {
  std::ostringstream kept;
  {
    std::ifstream file(path, std::ios::binary);
    for (std::string line; std::getline(file, line);) {
      const std::string_view step = std::string_view(line).substr(line.rfind(' ') + 1);
      std::int64_t number = 0;
      const auto parsed = std::from_chars(step.data(), step.data() + step.size(), number);
      const bool is_whole = !file.eof() && parsed.ec == std::errc() && parsed.ptr == step.data() + step.size();
      if (is_whole && number <= last_step) kept << line << '\n';
    }
  }
  const std::string fresh = path + fresh_ending;
  write_file_durably(fresh, kept.str());
  std::error_code error;
  fs::rename(fresh, path, error);
  if (error) throw DataError(fmt::format("cannot write {}: {}", path, error.message()));
}

}  // namespace

std::string yaml_quoted(std::string_view text) {
  const std::string shown = escaped(text);
  std::string quoted = "\"";
  for (std::size_t i = 0; i < shown.size();) {
    const std::uint32_t point = next_code_point(shown, i);
    if (point == '"' || point == '\\')
      quoted += {'\\', static_cast<char>(point)};
    else if (point >= 0x20 && point < 0x7f)
      quoted += static_cast<char>(point);
    else
      quoted += point > 0xffff ? fmt::format("\\U{:08x}", point) : fmt::format("\\u{:04x}", point);
  }
  return quoted + '"';
}

std::string mlflow_key(std::string_view name) {
  std::string key(name.substr(0, longest_mlflow_key));
  for (char& letter : key) {
    const bool stays = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                       (letter >= '0' && letter <= '9') || letter == '_' || letter == '-' || letter == '.';
    if (!stays) letter = '_';
  }
  if (key.empty() || key.front() == '.') key.insert(key.begin(), '_');
  return key.substr(0, longest_mlflow_key);
}

std::string find_or_make_experiment(const std::string& store, const std::string& name, std::int64_t milliseconds) {
  const StoreLock lock(store);
  std::error_code none;
  std::vector<std::string> ids;
  for (const auto& entry : fs::directory_iterator(store, none))
    if (const std::string id = entry.path().filename().string(); is_experiment_id(id)) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  const std::string shown = escaped(name);
  for (const std::string& id : ids)
    if (name_of_experiment(fmt::format("{}/{}/meta.yaml", store, id)) == shown) return id;
  std::string id;
  for (std::int64_t number = milliseconds; id.empty() || fs::exists(store + "/" + id, none); ++number)
    id = fmt::format("{}", number);
  const std::string folder = fmt::format("{}/{}", store, id);
  make_directories_durably(folder);
  write_file_durably(folder + "/meta.yaml",
                     fmt::format("artifact_location: {}\ncreation_time: {}\nexperiment_id: '{}'\nlast_update_time: {}\n"
                                 "lifecycle_stage: active\nname: {}\n",
                                 yaml_quoted(fs::absolute(folder).lexically_normal().string()), milliseconds, id,
                                 milliseconds, yaml_quoted(name)));
  return id;
}

void remove_later_metrics(const std::string& folder, std::int64_t last_step) {
  std::error_code none;
  std::vector<std::string> metrics;
  for (const auto& entry : fs::recursive_directory_iterator(folder, none))
    if (entry.is_regular_file(none)) metrics.push_back(entry.path().string());
  for (const std::string& metric : metrics) {
    if (!metric.ends_with(fresh_ending))
      remove_later_lines(metric, last_step);
    else if (std::error_code error; !fs::remove(metric, error) && error)  // of a process that was killed in here
      throw DataError(fmt::format("cannot remove {}: {}", metric, error.message()));
  }
}

}  // namespace trainer
