#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/report/text/style.h"

namespace trainer {

/// How a piece of a line looks.
struct TextLook {
  std::optional<Ink> ink{};
  bool is_bold = false;
  bool is_reversed = false;  ///< letters in the background's colour
  friend bool operator==(const TextLook&, const TextLook&) = default;
};

/// A line of a screen: pieces one behind the other. Whatever text comes in is made harmless here (Note [Cells of a
/// terminal] in engine/report/text/cell_text.h).
class FrameLine {
 public:
  struct Piece {
    std::string text;
    TextLook look;
  };

  FrameLine() = default;
  /// `ascii`: the terminal takes nothing else.
  explicit FrameLine(bool ascii) : ascii_(ascii) {}

  FrameLine& add(std::string_view text, TextLook look = {});
  /// At `column`, behind a space at least; spaces in between have the look of what stands before.
  FrameLine& add_at(std::size_t column, std::string_view text, TextLook look = {});
  /// Two spaces, then the text; nothing where the text is empty.
  FrameLine& add_apart(std::string_view text, TextLook look = {});
  void cut(std::size_t width);
  /// Up to `width` in one look over those of its pieces: a chosen row.
  void reverse(std::size_t width);

  std::size_t width() const { return width_; }
  const std::vector<Piece>& pieces() const { return pieces_; }
  /// Without looks.
  std::string text() const;

 private:
  std::vector<Piece> pieces_;
  std::size_t width_ = 0;
  bool ascii_ = false;
};

struct ScreenSize {
  std::size_t columns = 80, rows = 24;
  friend bool operator==(const ScreenSize&, const ScreenSize&) = default;
};

/// A whole screen: at most so many lines as it has rows, none wider than its columns.
struct Frame {
  std::vector<FrameLine> lines;

  /// Each line ended, without spaces at their ends.
  std::string text() const;
};

/// What drawings are made of.
struct FrameLetters {
  std::string_view full, empty, axis, corner, mark, ending, branch, dash;
  bool ascii = false;
};
/// Where the terminal takes UTF-8, and where it does not.
const FrameLetters& frame_letters(bool ascii);

}  // namespace trainer
