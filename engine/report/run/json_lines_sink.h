#pragma once

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "engine/train/events.h"

namespace trainer {

/// Writes each event as a line of JSON to a stream that stays the caller's. A step's line is seen at once where none
/// was in the last 100 ms, else with the next that is seen; every other event's at once. A stream that takes nothing
/// more (a closed pipe, a full disk) is left alone from then on.
class JsonLinesSink : public EventSink {
 public:
  explicit JsonLinesSink(std::FILE* stream) : stream_(stream) {}

  void take(const Event& event) override;

 protected:
  using Clock = std::chrono::steady_clock;

  explicit JsonLinesSink(std::chrono::milliseconds longest_unseen) : longest_unseen_(longest_unseen) {}
  /// `is_urgent`: the line must be seen now.
  virtual void write(const std::string& line, bool is_urgent);
  /// Writes the line to the stream, and all that waits there where it is urgent or time; false where that fails.
  bool put(const std::string& line, bool is_urgent);

  std::FILE* stream_ = nullptr;

 private:
  std::chrono::milliseconds longest_unseen_{100};
  Clock::time_point last_seen_;
  std::string line_;  ///< kept for its memory
};

/// Writes <directory>/events.jsonl. Opened by the first event, since only then the run has claimed its directory: a
/// new run begins the file anew; a resumed one appends, and so does one that leaves the former run as it is. A step's
/// line is in the file where none was written there in the last second, else with the next that is; all others are at
/// once. Throws DataError that names the file where it cannot be written, once: from then on it writes nothing.
///
/// Note [Events and checkpoints]
/// Every step stands in the file once, whenever runs were killed: what was told before a checkpoint is on the disk
/// before the checkpoint is (make_durable), and a run that resumes from it first removes what the file has of later
/// steps, which will be told again (repeated_events.h). A run whose events can no longer be written ends with a
/// checkpoint of what it has trained, so that nothing but the last lines is lost.
class EventFileSink final : public JsonLinesSink {
 public:
  explicit EventFileSink(std::string directory);
  ~EventFileSink() override;
  EventFileSink(const EventFileSink&) = delete;
  EventFileSink& operator=(const EventFileSink&) = delete;

  const std::string& path() const { return path_; }
  void take(const Event& event) override;
  void make_durable() override;

 protected:
  void write(const std::string& line, bool is_urgent) override;

 private:
  void open(bool append);
  void close();
  [[noreturn]] void fail(const std::string& what);

  std::string directory_, path_;
  std::vector<char> buffer_;  ///< of stream_
  bool has_failed_ = false;
};

}  // namespace trainer
