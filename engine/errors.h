#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/source_location.h"

namespace trainer {

/// What the process exits with; fixed, scripts depend on it.
enum class ExitCode : int {
  done = 0,
  unexpected = 1,
  config = 2,
  out_of_memory = 3,
  does_not_fit = 4,
  diverged = 5,
  data = 6,
  device = 7,
  interrupted = 75,
};

/// Base of every error that trainer raises on purpose. Message first, values last; no newline at the end.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode exit_code() const noexcept { return code_; }

  /// What to do now, as a text of its own behind the message; empty: the message says it.
  const std::string& advice() const noexcept { return advice_; }
  void advise(std::string advice) { advice_ = std::move(advice); }

 private:
  ExitCode code_;
  std::string advice_;
};

/// One mistake in a configuration, told as a compiler tells it (engine/config/diagnostic.h).
struct Diagnostic {
  SourceLocation location;
  std::string message;                      ///< what is wrong: "unknown key 'batch_sise'"
  std::string expectation;                  ///< what would be right: "an integer from 1 to 10"; may be empty
  std::string suggestion;                   ///< the nearest right word, shown as "did you mean '…'?"; may be empty
  std::string source_line;                  ///< the line the location points into; empty where unknown
  std::vector<std::string> use_lines = {};  ///< likewise of location.used_at, of its own and so on
};

/// Wrong usage or configuration. what() is a message or, where there are diagnostics, their text.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& message, std::vector<Diagnostic> diagnostics = {})
      : Error(ExitCode::config, message), diagnostics_(std::move(diagnostics)) {}
  const std::vector<Diagnostic>& diagnostics() const noexcept { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// A data, checkpoint or output file that is missing, damaged or not what was expected.
class DataError : public Error {
 public:
  explicit DataError(const std::string& message) : Error(ExitCode::data, message) {}
};

/// The device is absent, unusable or failed; never raised for a failed allocation.
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message) : Error(ExitCode::device, message) {}
};

/// Another rank of this run has ended, or does not answer; it exits as that one did, where that is known.
class RankError : public Error {
 public:
  RankError(ExitCode code, const std::string& message) : Error(code, message) {}
};

/// The system has no memory left that this process asked for beside a device's allocator. (Memory that an allocator
/// cannot serve is an OutOfMemory.)
class HostOutOfMemory : public Error {
 public:
  /// `purpose` follows "for": "a batch of samples". 0 bytes: it is not known how much was asked for.
  HostOutOfMemory(const std::string& purpose, std::int64_t num_bytes, bool depends_on_batches = true)
      : Error(ExitCode::out_of_memory, "the system has no memory left for " + purpose),
        purpose_(purpose),
        num_bytes_(num_bytes),
        depends_on_batches_(depends_on_batches) {}
  const std::string& purpose() const noexcept { return purpose_; }
  /// Whether smaller batches take less for this purpose.
  bool depends_on_batches() const noexcept { return depends_on_batches_; }
  std::int64_t num_bytes() const noexcept { return num_bytes_; }

 private:
  std::string purpose_;
  std::int64_t num_bytes_ = 0;
  bool depends_on_batches_ = true;
};

/// A broken promise inside trainer; always a bug.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message) : Error(ExitCode::unexpected, message) {}
};

/// Throws InternalError if `holds` is false. For promises between our own parts, never for input.
inline void require_internal(bool holds, const char* promise) {
  if (!holds) throw InternalError(std::string("internal error: ") + promise);
}

}  // namespace trainer
