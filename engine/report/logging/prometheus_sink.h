#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "engine/report/logging/prometheus_text.h"
#include "engine/train/events.h"

namespace trainer {

/// Keeps what Prometheus asks for, and writes it to a file, where one is named: whole each time, beside its place and
/// moved there, so that a collector never reads half of it; with the start, the end, and of what is between about once
/// a second. A first file that cannot be written is a DataError; of a later one `warn` is told, once, and the next
/// second is tried again.
class PrometheusSink final : public EventSink {
 public:
  /// `path`: empty: no file.
  PrometheusSink(std::string path, std::function<void(const std::string&)> warn);

  void take(const Event& event) override;
  /// The metrics as of now; called by any thread.
  std::string text() const;

 private:
  void note(const Event& event);
  /// The system's reason where that fails; else empty.
  std::string write_file() const;

  const std::string path_;
  const std::function<void(const std::string&)> warn_;
  mutable std::mutex mutex_;
  LoggedRun run_;                 ///< under the mutex
  double unwritten_seconds_ = 0;  ///< of what was told since the file was written
  bool has_warned_ = false;
};

}  // namespace trainer
