#include "datasets/image_list/list_entries.h"
#include "tests/fuzz/fuzzed_file.h"
#include "tests/fuzz/fuzzers.h"

namespace trainer {

/// A letter that says how the list is read, then the list. The images that it names are not looked for.
void read_fuzzed_image_list(std::string_view input) {
  static const FuzzedFile file;
  if (input.empty()) return;
  const auto choice = static_cast<unsigned char>(input.front());
  file.write(input.substr(1));
  DataConfig config;
  config.type = DataType::image_list;
  config.header = (choice & 1) != 0;
  config.delimiter = (choice & 2) != 0 ? ";" : ",";
  if ((choice & 4) != 0) config.target = {"1"};
  if ((choice & 8) != 0) config.target = {"b", "0"};
  if ((choice & 16) != 0) config.image = "a";
  if ((choice & 32) != 0) config.image_suffix = ".png";
  const ListEntries list = read_list(config, file.path(), nullptr);
  require_internal(list.size() > 0, "a list has a row");
  for (std::int64_t row = 0; row < list.size(); ++row) {
    require_internal(!list.path(row).empty(), "a row has a path");
    require_internal(list.path(row).find('\0') == std::string_view::npos, "a path is one of the system's");
    require_internal(list.place(row).size() > file.path().size(), "a row has a place");
    list.targets(row);
  }
  const ListEntries again = read_list(config, file.path(), &list);
  require_internal(again.size() == list.size(), "a list is like itself");
}

}  // namespace trainer
