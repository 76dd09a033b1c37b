#include "engine/report/memory/memory_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/bytes.h"
#include "engine/report/text/text_table.h"

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

LiveMemory::LayerBytes sum_of(const std::vector<LiveMemory::LayerBytes>& layers, std::string name) {
  LiveMemory::LayerBytes sum{std::move(name), 0, {}};
  for (const LiveMemory::LayerBytes& layer : layers) {
    sum.num_bytes += layer.num_bytes;
    for (std::size_t i = 0; i < layer.by_category.size(); ++i) sum.by_category[i] += layer.by_category[i];
  }
  return sum;
}

/// Categories that share a column of the table by layer.
struct CategoryColumn {
  std::string title;
  std::vector<Category> categories;
};

std::vector<CategoryColumn> columns_of(const Style& style) {
  constexpr int width_of_all_columns = 96;
  const std::vector<Category> other = {Category::input, Category::workspace, Category::temporary,
                                       Category::communication, Category::frozen};
  if (style.width < width_of_all_columns)
    return {{"model", {Category::parameter, Category::gradient, Category::optimizer_state}},
            {"activation", {Category::activation}},
            {"other", other}};
  return {{"parameter", {Category::parameter}},
          {"gradient", {Category::gradient}},
          {"optimizer", {Category::optimizer_state}},
          {"activation", {Category::activation}},
          {"other", other}};
}

std::int64_t bytes_in(const CategoryColumn& column, const LiveMemory::LayerBytes& layer) {
  std::int64_t sum = 0;
  for (const Category category : column.categories) sum += layer.by_category[static_cast<std::size_t>(category)];
  return sum;
}

/// The columns in which any of these holds something.
std::vector<CategoryColumn> used_columns(const LiveMemory::LayerBytes& all, const Style& style) {
  std::vector<CategoryColumn> columns = columns_of(style);
  std::erase_if(columns, [&](const CategoryColumn& column) { return bytes_in(column, all) == 0; });
  return columns;
}

std::vector<TextTable::Column> titles_of(const std::string& first, const std::vector<CategoryColumn>& columns) {
  std::vector<TextTable::Column> titles = {{first, Align::left}};
  for (const CategoryColumn& column : columns) titles.push_back({column.title});
  titles.push_back({"bytes"});
  return titles;
}

std::vector<std::string> row_of(const LiveMemory::LayerBytes& layer, std::int64_t num_bytes,
                                const std::vector<CategoryColumn>& columns) {
  std::vector<std::string> row = {layer.layer};
  for (const CategoryColumn& column : columns) {
    const std::int64_t part = bytes_in(column, layer);
    row.push_back(part == 0 ? "" : format_bytes(part));
  }
  row.push_back(format_bytes(num_bytes));
  return row;
}

}  // namespace

std::string share_of(std::int64_t part, std::int64_t whole) {
  if (whole <= 0) return "";
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string category_table(const CategoryBytes& by_category, std::int64_t allocated, const Style& style) {
  TextTable table({{"by category", Align::left}, {"bytes"}, {"share"}});
  std::int64_t sum = 0;
  for (const Holder& holder : categories(by_category)) {
    sum += holder.num_bytes;
    table.add_row({holder.name, format_bytes(holder.num_bytes), share_of(holder.num_bytes, allocated)});
  }
  table.add_rule();
  table.add_row({"allocated", format_bytes(allocated), ""});
  table.add_row({"unaccounted for", format_bytes(allocated - sum), ""});
  return table.render(style);
}

std::string layer_table(const std::vector<LiveMemory::LayerBytes>& by_layer, std::int64_t allocated, const Style& style,
                        std::size_t most_rows) {
  std::vector<LiveMemory::LayerBytes> layers = by_layer;
  std::erase_if(layers, [](const LiveMemory::LayerBytes& layer) { return layer.num_bytes == 0; });
  std::stable_sort(layers.begin(), layers.end(), [](const LiveMemory::LayerBytes& a, const LiveMemory::LayerBytes& b) {
    return a.num_bytes > b.num_bytes;
  });
  const LiveMemory::LayerBytes all = sum_of(layers, "allocated");
  // One layer too many is written out rather than hidden behind a line of the same height.
  if (layers.size() > most_rows + 1) {
    const auto rest = layers.begin() + static_cast<std::ptrdiff_t>(most_rows);
    const LiveMemory::LayerBytes smaller =
        sum_of({rest, layers.end()}, fmt::format("({} smaller ones)", layers.end() - rest));
    layers.erase(rest, layers.end());
    layers.push_back(smaller);
  }
  const std::vector<CategoryColumn> columns = used_columns(all, style);
  std::vector<TextTable::Column> titles = titles_of("by layer", columns);
  titles.push_back({"share"});
  TextTable table(std::move(titles));
  const auto add_row = [&](const LiveMemory::LayerBytes& layer, std::int64_t num_bytes, std::string share) {
    std::vector<std::string> row = row_of(layer, num_bytes, columns);
    row.push_back(std::move(share));
    table.add_row(std::move(row));
  };
  for (const LiveMemory::LayerBytes& layer : layers)
    add_row(layer, layer.num_bytes, share_of(layer.num_bytes, allocated));
  table.add_rule();
  add_row(all, allocated, "");
  add_row({"unaccounted for", 0, {}}, allocated - all.num_bytes, "");
  return table.render(style);
}

std::string holders_table(const std::vector<LiveMemory::LayerBytes>& holders, const std::string& title,
                          const Style& style) {
  const std::vector<CategoryColumn> columns = used_columns(sum_of(holders, ""), style);
  TextTable table(titles_of(title, columns));
  for (const LiveMemory::LayerBytes& holder : holders) table.add_row(row_of(holder, holder.num_bytes, columns));
  return table.render(style);
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
