#include "cuda/library/known_scratch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "cuda/library/engine_choices.h"
#include "engine/errors.h"
#include "engine/memory/fingerprint.h"

namespace trainer::cuda {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view format_line = "trainer: scratch of convolutions, 1";
/// No device has as many.
constexpr std::int64_t most_bytes = std::int64_t{1} << 50;
/// Longer files are none of ours.
constexpr std::uintmax_t longest_file = KnownScratch::most_answers * 512;

std::uint64_t hash_of(std::string_view text) {
  Fingerprint fingerprint(0);
  fingerprint.mix(static_cast<std::int64_t>(text.size()));
  for (const char letter : text) fingerprint.mix(letter);
  return fingerprint.value();
}

/// The text up to the next line end, which is left out of `rest`.
std::optional<std::string_view> next_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return line;
}

std::optional<std::int64_t> answer_in(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (value < KnownScratch::refused || value > most_bytes) return std::nullopt;
  return value;
}

using Lines = std::vector<std::pair<std::string, std::int64_t>>;

/// Keys with their answers; nothing where the file is not whole or of something else.
std::optional<Lines> read_lines(const std::string& path, const std::string& identity) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > longest_file || error) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::string_view rest = text;
  if (next_line(rest) != format_line) return std::nullopt;
  const auto hash = next_line(rest);
  if (hash != fmt::format("{:016x}", hash_of(rest)) || next_line(rest) != identity) return std::nullopt;
  Lines lines;
  while (!rest.empty()) {
    const auto line = next_line(rest);
    const std::size_t gap = line ? line->find(' ') : std::string_view::npos;
    if (gap == std::string_view::npos || gap + 1 == line->size()) return std::nullopt;
    const auto answer = answer_in(line->substr(0, gap));
    if (!answer || lines.size() == KnownScratch::most_answers) return std::nullopt;
    lines.emplace_back(line->substr(gap + 1), *answer);
  }
  return lines;
}

}  // namespace

std::string known_scratch_path(const std::string& device_name, std::int64_t version, const std::string& identity) {
  const char* const is_kept = std::getenv("TRAINER_SCRATCH_CACHE");
  if (is_kept != nullptr && std::string_view(is_kept) == "off") return {};
  try {
    const fs::path beside = engine_choices_path("scratch", device_name, version);
    return beside.parent_path() / fmt::format("{}-{:016x}.txt", beside.stem().string(), hash_of(identity));
  } catch (const DataError&) {  // there is no home
    return {};
  }
}

KnownScratch::KnownScratch(std::string path, std::string identity)
    : path_(std::move(path)), identity_(std::move(identity)) {
  std::replace(identity_.begin(), identity_.end(), '\n', ' ');
  read();
}

void KnownScratch::read() {
  const std::optional<Lines> lines = read_lines(path_, identity_);
  if (!lines) return;
  for (const auto& [key, value] : *lines)
    if (answers_.try_emplace(key, Answer{value, false}).second) order_.push_back(key);
}

std::optional<std::int64_t> KnownScratch::find(const std::string& key) {
  const auto found = answers_.find(key);
  if (found == answers_.end()) return std::nullopt;
  found->second.is_used = true;
  return found->second.value;
}

void KnownScratch::add(const std::string& key, std::int64_t answer) {
  const auto [place, is_new] = answers_.insert_or_assign(key, Answer{answer, true});
  if (is_new) order_.push_back(key);
  has_news_ = true;
}

void KnownScratch::save() noexcept {
  if (!has_news_) return;
  has_news_ = false;
  try {
    read();
    write();
  } catch (const std::exception&) {  // without memory or a file the next process asks again
  }
}

void KnownScratch::write() {
  // What was used last stays, and what was added last.
  std::vector<const std::string*> kept;
  for (const bool is_used : {true, false}) {
    for (auto key = order_.rbegin(); key != order_.rend() && kept.size() < most_answers; ++key)
      if (answers_.at(*key).is_used == is_used) kept.push_back(&*key);
  }
  std::string body = identity_ + '\n';
  std::reverse(kept.begin(), kept.end());
  for (const std::string* const key : kept)
    fmt::format_to(std::back_inserter(body), "{} {}\n", answers_.at(*key).value, *key);
  fs::create_directories(fs::path(path_).parent_path());
  std::string unfinished = path_ + ".XXXXXX";
  const int descriptor = mkstemp(unfinished.data());
  if (descriptor < 0) return;
  close(descriptor);
  std::error_code error;
  {
    std::ofstream file(unfinished, std::ios::binary);
    file << format_line << '\n' << fmt::format("{:016x}", hash_of(body)) << '\n' << body;
    file.close();
    if (!file) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) fs::rename(unfinished, path_, error);
  if (error) fs::remove(unfinished, error);
}

KnownScratchPlanner::KnownScratchPlanner(std::unique_ptr<ConvolutionPlanner> planner, KnownScratch known,
                                         std::function<std::string()> variant)
    : planner_(std::move(planner)), known_(std::move(known)), variant_(std::move(variant)) {}

std::string KnownScratchPlanner::key_of(const ConvolutionCall& call) const {
  return call.statistics ? text_key(call) + variant_() : text_key(call);
}

std::int64_t KnownScratchPlanner::workspace_bytes(const ConvolutionCall& call) {
  const std::string key = key_of(call);
  const std::optional<std::int64_t> known = known_.find(key);
  if (known && *known != KnownScratch::refused) return *known;
  // What is refused is asked again: the planner says why, or how much the least is.
  const std::int64_t bytes = planner_->workspace_bytes(call);
  if (!known) known_.add(key, bytes);
  return bytes;
}

bool KnownScratchPlanner::serves(const ConvolutionCall& call) {
  const std::string key = key_of(call);
  if (const std::optional<std::int64_t> known = known_.find(key))
    return *known != KnownScratch::refused && *known <= call.workspace_limit;
  const bool is_served = planner_->serves(call);
  known_.add(key, is_served ? planner_->workspace_bytes(call) : KnownScratch::refused);
  return is_served;
}

}  // namespace trainer::cuda
