#include "engine/report/text/cell_text.h"

#include <catch2/catch.hpp>
#include <string>

#include "engine/report/text/dot_canvas.h"

namespace trainer {

TEST_CASE("a terminal's cells are counted by Unicode's widths") {
  CHECK(cell_width("") == 0);
  CHECK(cell_width("abc") == 3);
  CHECK(cell_width("größe") == 5);
  CHECK(cell_width("模型") == 4);
  CHECK(cell_width("e\u0301") == 1);
  CHECK(cell_width("🚀") == 2);
  CHECK(cell_width("█░⠿◆") == 4);
}

TEST_CASE("what a terminal would obey, or give a width of its own, is shown as a question mark") {
  CHECK(cell_text("a\x1b[31mb") == "a?[31mb");
  CHECK(cell_text("a\rb\nc\td") == "a b c d");
  CHECK(cell_text(std::string("a\0b", 3)) == "a?b");
  CHECK(cell_text("\x7f\xc2\x9b") == "??");
  CHECK(cell_text("\xff\xc3") == "??");
  CHECK(cell_text("a\u202eb\u200bc\ufeff") == "a?b?c?");
  CHECK(cell_text("\u2028\ue000") == "??");
  CHECK(cell_text("größe 模") == "größe 模");
  CHECK(cell_text("größe 模", /*ascii=*/true) == "gr??e ?");
}

TEST_CASE("two marks stand on a letter, none on nothing, and further ones are left out") {
  CHECK(cell_text("e\u0301") == "e\u0301");
  CHECK(cell_text("e\u0301\u0302\u0303\u0304") == "e\u0301\u0302");
  CHECK(cell_text("\u0301x") == "x");
  CHECK(cell_text("e\u0301", /*ascii=*/true) == "e");
}

TEST_CASE("a text is cut to columns with an ending, and not within a letter") {
  CHECK(cut_to_cells("abc", 3) == "abc");
  CHECK(cut_to_cells("abcd", 3) == "ab…");
  CHECK(cut_to_cells("abcd", 0).empty());
  CHECK(cut_to_cells("abcd", 1) == "…");
  CHECK(cut_to_cells("模型模", 5) == "模型…");
  CHECK(cut_to_cells("模型模", 4) == "模…");
  CHECK(cut_to_cells("e\u0301e\u0301e\u0301", 2) == "e\u0301…");
  CHECK(cut_to_cells("abcd", 3, "~") == "ab~");
  CHECK(pad_cells_right("模", 4) == "模  ");
  CHECK(pad_cells_left("模", 3) == " 模");
  CHECK(pad_cells_left("模型", 3) == "模型");
}

TEST_CASE("a canvas draws what is infinitely far apart, and has letters for those without braille") {
  DotCanvas canvas(2, 2);
  const double most = 1.7e308;
  canvas.draw(std::array{most, -most, 0.0}, -most, most);
  CHECK(canvas.cell(0, 0) != " ");
  CHECK(canvas.cell(0, 1) != " ");
  DotCanvas dots(4, 1);
  dots.set(0, 0);
  dots.set(2, 3);
  dots.set(4, 1);
  dots.set(4, 2);
  CHECK(dots.row(0) == "⠁⡀⠆");
  CHECK(dots.cell(0, 0, true) + dots.cell(1, 0, true) + dots.cell(2, 0, true) + dots.cell(3, 0, true) == "'.: ");
}

}  // namespace trainer
