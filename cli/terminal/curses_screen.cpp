#include "cli/terminal/curses_screen.h"

// Its macros would take the names of std::move and of others.
#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <fmt/format.h>
#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <clocale>
#include <cstdlib>
#include <cwchar>
#include <string>

#include "engine/config/text/utf8_text.h"
#include "engine/errors.h"
#include "engine/report/text/cell_text.h"

namespace trainer {
namespace {

constexpr int escape_milliseconds = 25;
constexpr std::array ink_colors = {COLOR_RED, COLOR_GREEN, COLOR_YELLOW, COLOR_BLUE, COLOR_MAGENTA, COLOR_CYAN};

/// 0: none of the colours.
short pair_of(Ink ink) {
  switch (ink) {
    case Ink::red:
      return 1;
    case Ink::green:
      return 2;
    case Ink::yellow:
      return 3;
    case Ink::blue:
      return 4;
    case Ink::magenta:
      return 5;
    case Ink::cyan:
      return 6;
    case Ink::bold:
    case Ink::dim:
      return 0;
  }
  return 0;
}

/// The letters as curses takes them. One that this system would give another width than Unicode's tables do is
/// replaced, so that what stands behind it keeps its place.
std::wstring wide_text(const std::string& text) {
  std::wstring wide;
  std::mbstate_t state{};
  for (std::size_t offset = 0; offset < text.size();) {
    wchar_t letter = 0;
    const std::size_t length = std::mbrtowc(&letter, text.data() + offset, text.size() - offset, &state);
    if (length == 0 || length > text.size() - offset) {  // no letter of this locale
      state = {};
      wide += L'?';
      ++offset;
      continue;
    }
    const std::size_t width = cell_width(std::string_view(text).substr(offset, length));
    if (const int told = ::wcwidth(letter); told >= 0 && static_cast<std::size_t>(told) == width)
      wide += letter;
    else
      wide.append(width, L'?');
    offset += length;
  }
  return wide;
}

}  // namespace

struct CursesScreen::State {
  SCREEN* screen = nullptr;
  bool has_color = false;

  attr_t attributes_of(const TextLook& look) const {
    attr_t attributes = A_NORMAL;
    if (look.is_bold || look.ink == Ink::bold) attributes |= A_BOLD;
    if (look.ink == Ink::dim) attributes |= A_DIM;
    if (look.is_reversed) attributes |= A_REVERSE;
    return attributes;
  }
};

bool locale_takes_utf8() {
  // Letters alone: numbers stay as they are read and written everywhere.
  std::setlocale(LC_CTYPE, "");
  return std::string_view(nl_langinfo(CODESET)) == "UTF-8";
}

CursesScreen::CursesScreen(bool color) : state_(new State) {
  const char* const named = std::getenv("TERM");
  const std::string term = named == nullptr ? "" : named;
  const auto refuse = [&](const std::string& why) {
    delete state_;
    throw ConfigError(fmt::format("{}; '--once' prints what would be shown", why));
  };
  if (term.empty()) refuse("the environment variable TERM does not name the terminal");
  state_->screen = newterm(named, stdout, stdin);
  if (state_->screen == nullptr)
    refuse(fmt::format("the system does not know the terminal that TERM names, '{}'", shortened(term)));
  if (const char* const moves = tigetstr("cup"); moves == nullptr || moves == reinterpret_cast<const char*>(-1)) {
    endwin();
    delscreen(state_->screen);
    refuse(fmt::format("a terminal of the kind '{}' (TERM) cannot be drawn on", shortened(term)));
  }
  set_escdelay(escape_milliseconds);
  cbreak();
  noecho();
  nonl();
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  // Also of terminals that do not do as they are told about these keys.
  define_key("\x1b[A", KEY_UP);
  define_key("\x1b[B", KEY_DOWN);
  curs_set(0);
  if (color && has_colors() && start_color() == OK) {
    use_default_colors();
    state_->has_color = true;
    for (std::size_t i = 0; i < ink_colors.size(); ++i)
      init_pair(static_cast<short>(i + 1), static_cast<short>(ink_colors[i]), -1);
  }
}

CursesScreen::~CursesScreen() {
  endwin();
  delscreen(state_->screen);
  delete state_;
}

ScreenSize CursesScreen::size() const {
  return {.columns = static_cast<std::size_t>(getmaxx(stdscr)), .rows = static_cast<std::size_t>(getmaxy(stdscr))};
}

void CursesScreen::take_over() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
    resizeterm(size.ws_row, size.ws_col);
  endwin();
  clearok(stdscr, TRUE);
  refresh();
  curs_set(0);
}

void CursesScreen::leave() { endwin(); }

void CursesScreen::draw(const Frame& frame) {
  erase();
  const ScreenSize now = size();
  for (std::size_t row = 0; row < frame.lines.size() && row < now.rows; ++row) {
    move(static_cast<int>(row), 0);
    for (const FrameLine::Piece& piece : frame.lines[row].pieces()) {
      const short pair = state_->has_color && piece.look.ink ? pair_of(*piece.look.ink) : static_cast<short>(0);
      attr_set(state_->attributes_of(piece.look), pair, nullptr);
      const std::wstring text = wide_text(piece.text);
      // The last cell of the screen is written, and the cursor cannot go behind it, which is no error here.
      addnwstr(text.data(), static_cast<int>(text.size()));
    }
  }
  attr_set(A_NORMAL, 0, nullptr);
  refresh();
}

std::optional<KeyPress> CursesScreen::next_key() {
  const int key = getch();
  switch (key) {
    case ERR:
      return std::nullopt;
    case KEY_UP:
      return KeyPress{ScreenKey::up};
    case KEY_DOWN:
      return KeyPress{ScreenKey::down};
    case KEY_PPAGE:
      return KeyPress{ScreenKey::page_up};
    case KEY_NPAGE:
      return KeyPress{ScreenKey::page_down};
    case KEY_HOME:
      return KeyPress{ScreenKey::home};
    case KEY_END:
      return KeyPress{ScreenKey::end};
    case KEY_ENTER:
    case '\r':
    case '\n':
      return KeyPress{ScreenKey::enter};
    case '\t':
      return KeyPress{ScreenKey::tab};
    default:
      if (key >= ' ' && key < 0x7F) return KeyPress{ScreenKey::letter, static_cast<char>(key)};
      return KeyPress{};
  }
}

}  // namespace trainer
