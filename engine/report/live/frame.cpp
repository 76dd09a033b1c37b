#include "engine/report/live/frame.h"

#include "engine/report/text/cell_text.h"

namespace trainer {

FrameLine& FrameLine::add(std::string_view text, TextLook look) {
  std::string shown = cell_text(text, ascii_);
  if (shown.empty()) return *this;
  width_ += cell_width(shown);
  if (!pieces_.empty() && pieces_.back().look == look)
    pieces_.back().text += shown;
  else
    pieces_.push_back({std::move(shown), look});
  return *this;
}

FrameLine& FrameLine::add_at(std::size_t column, std::string_view text, TextLook look) {
  const std::size_t gap = column > width_ ? column - width_ : width_ > 0 ? 1 : 0;
  return add(std::string(gap, ' ')).add(text, look);
}

FrameLine& FrameLine::add_apart(std::string_view text, TextLook look) {
  if (text.empty()) return *this;
  return add(width_ > 0 ? "  " : "").add(text, look);
}

void FrameLine::cut(std::size_t width) {
  if (width_ <= width) return;
  std::vector<Piece> kept;
  std::size_t used = 0;
  for (const Piece& piece : pieces_) {
    const std::size_t columns = cell_width(piece.text);
    // The ending stands in the last column, so what fills that column exactly is cut, too: more comes behind it.
    if (used + columns < width) {
      kept.push_back(piece);
      used += columns;
      continue;
    }
    // One column more than there is room for, so that it is cut.
    kept.push_back({cut_to_cells(piece.text + "  ", width - used, ascii_ ? "~" : "…"), piece.look});
    break;
  }
  pieces_ = std::move(kept);
  width_ = 0;
  for (const Piece& piece : pieces_) width_ += cell_width(piece.text);
}

void FrameLine::reverse(std::size_t width) {
  cut(width);
  const std::string all = pad_cells_right(text(), width);
  pieces_ = {{all, {.is_reversed = true}}};
  width_ = cell_width(all);
}

std::string FrameLine::text() const {
  std::string text;
  for (const Piece& piece : pieces_) text += piece.text;
  return text;
}

std::string Frame::text() const {
  std::string all;
  for (const FrameLine& line : lines) {
    std::string text = line.text();
    text.erase(text.find_last_not_of(' ') + 1);
    all += text + '\n';
  }
  return all;
}

const FrameLetters& frame_letters(bool ascii) {
  static constexpr FrameLetters of_unicode = {.full = "█",
                                              .empty = "░",
                                              .axis = "│",
                                              .corner = "└",
                                              .mark = "◆",
                                              .ending = "…",
                                              .branch = "└ ",
                                              .dash = "─",
                                              .ascii = false};
  static constexpr FrameLetters of_ascii = {.full = "#",
                                            .empty = ".",
                                            .axis = "|",
                                            .corner = "+",
                                            .mark = "o",
                                            .ending = "~",
                                            .branch = "` ",
                                            .dash = "-",
                                            .ascii = true};
  return ascii ? of_ascii : of_unicode;
}

}  // namespace trainer
