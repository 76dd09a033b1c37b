#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/out_of_memory_context.h"
#include "engine/report/text/style.h"

namespace trainer {

/// Who holds the memory, by category, largest first, with each one's share of `allocated` and a last line with the
/// bytes that no category accounts for: allocated − sum, which is 0 unless something is wrong.
std::string category_table(const CategoryBytes& by_category, std::int64_t allocated, const Style& style);

/// The same by layer, with what of it is which category: a column for each that holds something, with fewer columns
/// where there is less room. At most `most_rows` layers are written out, the largest; the rest is one line, so that
/// every column still adds up.
std::string layer_table(const std::vector<LiveMemory::LayerBytes>& by_layer, std::int64_t allocated, const Style& style,
                        std::size_t most_rows = 12);

/// What each of `holders` holds by category, in their order, named as `layer` in a column of that title; it needs no
/// sum.
std::string holders_table(const std::vector<LiveMemory::LayerBytes>& holders, const std::string& title,
                          const Style& style);

/// The largest live buffers: name, layer, category, bytes.
std::string buffer_table(const std::vector<LiveMemory::TopBuffer>& top, std::int64_t allocated, const Style& style);

/// "12.5 %"; empty where the whole is nothing.
std::string share_of(std::int64_t part, std::int64_t whole);

/// "parameter 1.20 MiB, activation 3.40 MiB": the categories that hold something, largest first.
std::string category_list(const CategoryBytes& by_category);

}  // namespace trainer
