#include "engine/train/telling_process.h"

#include <unistd.h>

#include <array>
#include <chrono>

#include "engine/config/text/utf8_text.h"

namespace trainer {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "";
  std::string text = name.data();
  return mistake_in_text(text).empty() ? text : "";
}

TellingProcess this_process() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {.pid = ::getpid(), .host = host_name(), .begin_seconds = std::chrono::duration<double>(now).count()};
}

}  // namespace trainer
