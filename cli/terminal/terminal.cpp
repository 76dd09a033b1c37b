#include "cli/terminal/terminal.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "engine/config/text/utf8_text.h"

namespace trainer {

bool is_terminal(std::FILE* stream) { return isatty(fileno(stream)) == 1; }

bool is_pipe(std::FILE* stream) {
  struct stat status {};
  return fstat(fileno(stream), &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

bool can_redraw(std::FILE* stream) {
  const char* term = std::getenv("TERM");
  return is_terminal(stream) && term != nullptr && std::string_view(term) != "dumb";
}

int terminal_width(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 100;
  return size.ws_col;
}

Style style_for(std::FILE* stream) {
  Style style;
  if (!is_terminal(stream)) return style;
  const char* no_color = std::getenv("NO_COLOR");
  style.color = (no_color == nullptr || *no_color == '\0') && can_redraw(stream);
  style.width = std::clamp(terminal_width(stream), 60, 100);
  return style;
}

bool write_text(std::FILE* stream, std::string_view text) {
  return write_exactly(stream, style_for(stream).color ? escaped_but_paint(text) : escaped(text));
}

bool write_exactly(std::FILE* stream, std::string_view bytes) {
  return std::fwrite(bytes.data(), 1, bytes.size(), stream) == bytes.size();
}

}  // namespace trainer
