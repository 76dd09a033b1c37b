#include "engine/report/memory_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/bytes.h"
#include "engine/report/text_table.h"

namespace trainer {
namespace {

struct Holder {
  std::string name;
  std::int64_t num_bytes = 0;
};

std::vector<Holder> largest_first(std::vector<Holder> holders) {
  std::erase_if(holders, [](const Holder& holder) { return holder.num_bytes == 0; });
  std::stable_sort(holders.begin(), holders.end(),
                   [](const Holder& a, const Holder& b) { return a.num_bytes > b.num_bytes; });
  return holders;
}

std::vector<Holder> categories(const CategoryBytes& by_category) {
  std::vector<Holder> holders;
  for (std::size_t i = 0; i < by_category.size(); ++i)
    holders.push_back({std::string(category_names[i]), by_category[i]});
  return largest_first(std::move(holders));
}

std::string holder_table(const std::string& title, const std::vector<Holder>& holders, std::int64_t allocated,
                         std::size_t most_rows, const Style& style) {
  TextTable table({{title, Align::left}, {"bytes"}, {"share"}});
  std::int64_t sum = 0;
  std::int64_t rest_bytes = 0;
  std::size_t num_rest = 0;
  // One layer too many is written out rather than hidden behind a line of the same height.
  const std::size_t num_shown = holders.size() <= most_rows + 1 ? holders.size() : most_rows;
  for (std::size_t i = 0; i < holders.size(); ++i) {
    sum += holders[i].num_bytes;
    if (i < num_shown) {
      table.add_row({holders[i].name, format_bytes(holders[i].num_bytes), share_of(holders[i].num_bytes, allocated)});
    } else {
      rest_bytes += holders[i].num_bytes;
      ++num_rest;
    }
  }
  if (num_rest > 0)
    table.add_row(
        {fmt::format("({} smaller ones)", num_rest), format_bytes(rest_bytes), share_of(rest_bytes, allocated)});
  table.add_rule();
  table.add_row({"allocated", format_bytes(allocated), ""});
  table.add_row({"unaccounted for", format_bytes(allocated - sum), ""});
  return table.render(style);
}

}  // namespace

std::string share_of(std::int64_t part, std::int64_t whole) {
  if (whole <= 0) return "";
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string category_table(const CategoryBytes& by_category, std::int64_t allocated, const Style& style) {
  return holder_table("by category", categories(by_category), allocated, num_categories, style);
}

std::string layer_table(const std::vector<LiveMemory::LayerBytes>& by_layer, std::int64_t allocated, const Style& style,
                        std::size_t most_rows) {
  std::vector<Holder> holders;
  holders.reserve(by_layer.size());
  for (const auto& layer : by_layer) holders.push_back({layer.layer, layer.num_bytes});
  return holder_table("by layer", largest_first(std::move(holders)), allocated, most_rows, style);
}

std::string buffer_table(const std::vector<LiveMemory::TopBuffer>& top, std::int64_t allocated, const Style& style) {
  TextTable table(
      {{"largest buffers", Align::left}, {"layer", Align::left}, {"category", Align::left}, {"bytes"}, {"share"}});
  for (const auto& buffer : top)
    table.add_row({buffer.name, cut_to_width(buffer.layer, 28), std::string(name_of(buffer.category)),
                   format_bytes(buffer.num_bytes), share_of(buffer.num_bytes, allocated)});
  return table.render(style);
}

std::string category_list(const CategoryBytes& by_category) {
  std::string text;
  for (const Holder& holder : categories(by_category))
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", holder.name, format_bytes(holder.num_bytes));
  return text.empty() ? "nothing" : text;
}

}  // namespace trainer
