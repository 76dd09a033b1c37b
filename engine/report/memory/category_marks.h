#pragma once

#include <array>
#include <cstdint>

#include "engine/category.h"
#include "engine/report/text/style.h"

namespace trainer {

/// How a category looks in drawings of memory: Note [Memory chart] in engine/report/memory/memory_chart.h.
struct CategoryMark {
  Category category;
  char letter;
  Ink ink;
};

/// From the lowest to the highest of a stack.
inline constexpr std::array<CategoryMark, num_categories> category_marks = {
    {{Category::parameter, 'P', Ink::blue},
     {Category::frozen, 'F', Ink::bold},
     {Category::optimizer_state, 'O', Ink::cyan},
     {Category::gradient, 'G', Ink::yellow},
     {Category::activation, 'A', Ink::green},
     {Category::input, 'I', Ink::dim},
     {Category::communication, 'C', Ink::bold},
     {Category::temporary, 'T', Ink::magenta},
     {Category::workspace, 'W', Ink::red}}};

}  // namespace trainer
