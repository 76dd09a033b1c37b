#include "datasets/text/text_stream.h"

#include <algorithm>
#include <utility>

namespace trainer {
namespace {

/// How many of the last bytes may be the begin of `stop`.
std::size_t begun(std::string_view text, std::string_view stop) {
  for (std::size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length)
    if (text.ends_with(stop.substr(0, length))) return length;
  return 0;
}

/// How many of the last bytes are the begin of a character that may go on: at most 3 of 4.
std::size_t open_character(std::string_view text) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(text.size(), 3); ++length) {
    const auto first = static_cast<unsigned char>(text[text.size() - length]);
    if ((first & 0xC0U) == 0x80U) continue;  // a byte inside a character
    const std::size_t wanted = first >= 0xF0U ? 4 : first >= 0xE0U ? 3 : first >= 0xC0U ? 2 : 1;
    return length < wanted ? length : 0;
  }
  return 0;
}

}  // namespace

std::string TextStream::add(std::string_view bytes) {
  if (has_ended_) return {};
  pending_ += bytes;
  std::size_t end = std::string::npos;
  for (const std::string& stop : stops_) end = std::min(end, pending_.find(stop));
  if (end != std::string::npos) {
    has_ended_ = true;
    pending_.resize(end);
    return std::exchange(pending_, {});
  }
  std::size_t held = open_character(pending_);
  for (const std::string& stop : stops_) held = std::max(held, begun(pending_, stop));
  std::string shown = pending_.substr(0, pending_.size() - held);
  pending_.erase(0, shown.size());
  return shown;
}

std::string TextStream::finish() { return std::exchange(pending_, {}); }

}  // namespace trainer
