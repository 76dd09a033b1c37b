#include "engine/report/run/json_lines_sink.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "engine/report/run/event_json.h"
#include "engine/report/run/repeated_events.h"
#include "engine/train/files/durable_file.h"

namespace trainer {
namespace {

/// Some two hundred lines of steps: the file system is not asked for each dozen.
constexpr std::size_t buffer_bytes = 64 << 10;

}  // namespace

void JsonLinesSink::take(const Event& event) {
  line_.clear();
  append_event_json(event, line_);
  write(line_, !std::holds_alternative<StepEvent>(event));
}

bool JsonLinesSink::put(const std::string& line, bool is_urgent) {
  if (std::fwrite(line.data(), 1, line.size(), stream_) != line.size() || std::fputc('\n', stream_) == EOF)
    return false;
  const Clock::time_point now = Clock::now();
  if (!is_urgent && now - last_seen_ < longest_unseen_) return true;
  last_seen_ = now;
  return std::fflush(stream_) == 0;
}

void JsonLinesSink::write(const std::string& line, bool is_urgent) {
  if (stream_ != nullptr && !put(line, is_urgent)) stream_ = nullptr;
}

EventFileSink::EventFileSink(std::string directory)
    : JsonLinesSink(std::chrono::seconds(1)),
      directory_(std::move(directory)),
      path_((std::filesystem::path(directory_) / "events.jsonl").string()) {}

EventFileSink::~EventFileSink() {
  if (stream_ != nullptr) std::fclose(stream_);
}

void EventFileSink::take(const Event& event) {
  if (const auto* start = std::get_if<StartEvent>(&event); start != nullptr && stream_ == nullptr) {
    const bool goes_on = start->resumption || start->leaves_former_run;
    if (goes_on) remove_repeated_events(path_, start->resumption);
    open(goes_on);
  }
  JsonLinesSink::take(event);
  if (std::holds_alternative<EndEvent>(event)) close();
}

void EventFileSink::make_durable() {
  if (stream_ == nullptr) return;
  // What is no file on a disk, such as a pipe, says EINVAL.
  if (std::fflush(stream_) != 0 || (fsync(fileno(stream_)) != 0 && errno != EINVAL)) fail("cannot write the events");
}

void EventFileSink::write(const std::string& line, bool is_urgent) {
  if (has_failed_) return;
  if (stream_ == nullptr) open(false);
  if (!put(line, is_urgent)) fail("cannot write the events");
}

void EventFileSink::open(bool append) {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  stream_ = std::fopen(path_.c_str(), append ? "ab" : "wb");
  if (stream_ == nullptr) fail("cannot open the event file");
  sync_directory(directory_.empty() ? "." : directory_);
  buffer_.resize(buffer_bytes);
  std::setvbuf(stream_, buffer_.data(), _IOFBF, buffer_.size());
}

void EventFileSink::close() {
  std::FILE* stream = stream_;
  stream_ = nullptr;
  if (stream != nullptr && std::fclose(stream) != 0) fail("cannot write the events");
}

void EventFileSink::fail(const std::string& what) {
  const int error = errno;
  has_failed_ = true;
  if (stream_ != nullptr) std::fclose(stream_);
  stream_ = nullptr;
  throw DataError(fmt::format("{}: {}: {}", what, path_, std::strerror(error)));
}

}  // namespace trainer
