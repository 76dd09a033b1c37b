#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// A text that comes in pieces of bytes, which may part characters, and is passed on as soon as it is known to be
/// shown: whole characters, and nothing of what it ends at.
class TextStream {
 public:
  /// The text ends in front of the first of `stops` that occurs in it; none is empty.
  explicit TextStream(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  /// What can be shown now, behind what was. Nothing after the end.
  std::string add(std::string_view bytes);
  /// What is left where nothing comes any more; bytes that are no character, too.
  std::string finish();
  /// Whether a stop has occurred.
  bool has_ended() const { return has_ended_; }

 private:
  std::vector<std::string> stops_;
  std::string pending_;
  bool has_ended_ = false;
};

}  // namespace trainer
