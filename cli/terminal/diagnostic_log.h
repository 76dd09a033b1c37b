#pragma once

#include <memory>
#include <string>

namespace spdlog {
class logger;
}

namespace trainer {

/// What --verbose tells on stderr, with times: what is read and made before the first step. Silent without it.
class DiagnosticLog {
 public:
  explicit DiagnosticLog(bool verbose);
  ~DiagnosticLog();
  DiagnosticLog(const DiagnosticLog&) = delete;
  DiagnosticLog& operator=(const DiagnosticLog&) = delete;

  void info(const std::string& message);

 private:
  std::unique_ptr<spdlog::logger> logger_;  ///< null: silent
};

}  // namespace trainer
