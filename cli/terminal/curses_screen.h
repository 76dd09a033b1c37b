#pragma once

#include <cstdint>
#include <optional>

#include "engine/report/live/frame.h"

namespace trainer {

enum class ScreenKey : std::uint8_t { other, up, down, page_up, page_down, home, end, enter, tab, letter };

struct KeyPress {
  ScreenKey key = ScreenKey::other;
  char letter = '\0';  ///< of ScreenKey::letter
};

/// The whole terminal behind stdin and stdout, while it lives: letters are read as they are typed, and what stood
/// there comes back when it goes, whichever way that is. Signals are the owner's to handle (TerminalSignals, which it
/// must find in place). One at a time.
class CursesScreen {
 public:
  /// Throws ConfigError where TERM names a terminal that curses does not know or that cannot move its cursor.
  explicit CursesScreen(bool color);
  ~CursesScreen();
  CursesScreen(const CursesScreen&) = delete;
  CursesScreen& operator=(const CursesScreen&) = delete;

  /// As the terminal is now.
  ScreenSize size() const;
  /// After it has become another size, or was another's for a while: all of it is drawn anew.
  void take_over();
  /// Gives the terminal back until take_over().
  void leave();
  void draw(const Frame& frame);
  /// Nothing where none has been typed.
  std::optional<KeyPress> next_key();

 private:
  struct State;
  State* state_;
};

/// Whether letters are written as UTF-8 here (LC_ALL, LC_CTYPE, LANG), which this asks the system for.
bool locale_takes_utf8();

}  // namespace trainer
