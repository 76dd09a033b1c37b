#pragma once

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "engine/train/events.h"

namespace trainer {

/// Writes each event as a line of JSON to a stream that stays the caller's, and flushes it.
/// A stream that takes nothing more (a closed pipe, a full disk) is left alone from then on.
class JsonLinesSink : public EventSink {
 public:
  JsonLinesSink(std::FILE* stream, std::string version) : version_(std::move(version)), stream_(stream) {}

  void on_start(const StartEvent& event) override;
  void on_step(const StepEvent& event) override;
  void on_eval(const EvalEvent& event) override;
  void on_checkpoint(const CheckpointEvent& event) override;
  void on_out_of_memory(const OutOfMemoryEvent& event) override;
  void on_adapt(const AdaptEvent& event) override;
  void on_warning(const WarningEvent& event) override;
  void on_diverged(const DivergedEvent& event) override;
  void on_end(const EndEvent& event) override;

 protected:
  explicit JsonLinesSink(std::string version) : version_(std::move(version)) {}
  /// `flush`: the line must be seen now.
  virtual void write(const std::string& line, bool flush);

  std::string version_;
  std::FILE* stream_ = nullptr;
};

/// Writes <directory>/events.jsonl. Opened by the first event, since only then the run has claimed its directory: a
/// run that starts at step 1 begins the file anew; a resumed one appends, after removing a line that a killed run
/// left unfinished, and so does one that leaves the former run as it is. Lines of steps are flushed every second, all
/// others at once. Throws DataError that names the file where it cannot be written.
class EventFileSink final : public JsonLinesSink {
 public:
  EventFileSink(std::string directory, std::string version);
  ~EventFileSink() override;
  EventFileSink(const EventFileSink&) = delete;
  EventFileSink& operator=(const EventFileSink&) = delete;

  const std::string& path() const { return path_; }
  void on_start(const StartEvent& event) override;
  void on_end(const EndEvent& event) override;

 protected:
  void write(const std::string& line, bool flush) override;

 private:
  void open(bool append);
  void close();
  [[noreturn]] void fail(const std::string& what) const;

  std::string directory_, path_;
  std::chrono::steady_clock::time_point last_flush_;
};

}  // namespace trainer
