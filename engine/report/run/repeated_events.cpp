#include "engine/report/run/repeated_events.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/config/text/json_input.h"
#include "engine/train/files/durable_file.h"

namespace trainer {
namespace {

using EventJson = nlohmann::json;

/// More than the configuration of a start event can take.
constexpr std::size_t longest_event = std::size_t{16} << 20;

bool goes(const std::string& line, const std::optional<Resumption>& resumption) {
  if (line.size() > longest_event) return true;
  const std::optional<EventJson> event = parse_json<EventJson>(line);
  if (!event || !event->is_object()) return true;  // cut off
  const auto name = event->find("event");
  if (name == event->end() || !name->is_string()) return true;
  if (!resumption || !resumption->trains) return false;
  const auto step = event->find(*name == "stage" ? "first_step" : "step");
  if (step == event->end() || !step->is_number_integer()) return false;
  const auto number = step->get<std::int64_t>();
  if (*name == "eval") return number > resumption->step || (number == resumption->step && !resumption->evaluated);
  const bool is_of_a_step = *name == "stage" || *name == "step" || *name == "checkpoint" || *name == "warning";
  return is_of_a_step && number > resumption->step;
}

/// The lines that stay, each with its newline, and whether any does not.
bool keep_lines(const std::string& path, const std::optional<Resumption>& resumption, std::ofstream* kept) {
  std::ifstream file(path, std::ios::binary);
  bool removes_any = false;
  for (std::string line; std::getline(file, line);) {
    const bool is_unfinished = file.eof();
    if (is_unfinished || goes(line, resumption)) {
      removes_any = true;
      if (kept == nullptr) break;  // the lines are read again when they are written
    } else if (kept != nullptr) {
      *kept << line << '\n';
    }
  }
  if (file.bad()) throw DataError(fmt::format("cannot read the events: {}: {}", path, std::strerror(errno)));
  return removes_any;
}

}  // namespace

void remove_repeated_events(const std::string& path, const std::optional<Resumption>& resumption) {
  const std::string fresh = path + ".tmp";
  std::error_code ignored;
  std::filesystem::remove(fresh, ignored);  // of one that was killed here
  if (!keep_lines(path, resumption, nullptr)) return;
  {
    std::ofstream kept(fresh, std::ios::binary);
    keep_lines(path, resumption, &kept);
    if (!kept.flush()) throw DataError(fmt::format("cannot write the events: {}: {}", fresh, std::strerror(errno)));
  }
  append_durably(fresh, "");
  replace_durably(fresh, path);
}

}  // namespace trainer
