#include "cli/terminal/diagnostic_log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include "cli/terminal/terminal.h"
#include "engine/config/text/utf8_text.h"

namespace trainer {

DiagnosticLog::DiagnosticLog(bool verbose) {
  if (!verbose) return;
  const auto mode = style_for(stderr).color ? spdlog::color_mode::always : spdlog::color_mode::never;
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_st>(mode);
  sink->set_pattern("%H:%M:%S.%e %^%l%$ %v");
  logger_ = std::make_unique<spdlog::logger>("trainer", std::move(sink));
}

DiagnosticLog::~DiagnosticLog() = default;

void DiagnosticLog::info(const std::string& message) {
  if (logger_) logger_->info(escaped(message));
}

}  // namespace trainer
