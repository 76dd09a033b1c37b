#include "datasets/text/composed_text.h"

#include <utf8proc.h>

#include <algorithm>

#include "datasets/text/utf8_stretch.h"
#include "engine/errors.h"

namespace trainer {
namespace {

/// Whether a byte is the first of a character from U+0300 on. Those below are alike in both forms, none of them is put
/// together with what stands in front of it, and a text may be cut there.
bool begins_high(char byte) { return static_cast<unsigned char>(byte) >= 0xCC; }
bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }
bool begins_low(char byte) { return !begins_high(byte) && !continues(byte); }

}  // namespace

std::string_view TextComposer::compose(std::string_view text) {
  if (std::none_of(text.begin(), text.end(), begins_high)) return text;
  composed_.clear();
  composed_.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::size_t stretch = utf8_stretch(text.substr(at));
    add_well_formed(text.substr(at, stretch));
    at += stretch;
    if (at < text.size()) composed_ += text[at];
  }
  return composed_;
}

void TextComposer::add_well_formed(std::string_view text) {
  const auto end = text.end();
  for (auto at = text.begin(); at != end;) {
    const auto high = std::find_if(at, end, begins_high);
    auto begin = high;
    // With the character in front, which may be put together with what follows.
    while (high != end && begin != at && !begins_low(*begin)) --begin;
    composed_.append(at, begin);
    at = std::find_if(high, end, begins_low);
    if (begin != at) add_composed(std::string_view(begin, at));
  }
}

void TextComposer::add_composed(std::string_view text) {
  constexpr auto form_c = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const auto* const bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  utf8proc_ssize_t count = 0;
  for (;;) {
    const auto room = static_cast<utf8proc_ssize_t>(characters_.size());
    count = utf8proc_decompose(bytes, static_cast<utf8proc_ssize_t>(text.size()), characters_.data(), room, form_c);
    require_internal(count >= 0, "what is composed is well-formed");
    if (count < room) break;  // one more is needed behind them
    characters_.resize(static_cast<std::size_t>(count) + 1);
  }
  const utf8proc_ssize_t num_bytes = utf8proc_reencode(characters_.data(), count, form_c);
  require_internal(num_bytes >= 0, "what is composed is well-formed");
  composed_.append(reinterpret_cast<const char*>(characters_.data()), static_cast<std::size_t>(num_bytes));
}

}  // namespace trainer
