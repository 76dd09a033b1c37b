#include <vector>

#include "datasets/tar/tar_index.h"
#include "engine/errors.h"
#include "tests/fuzz/fuzzed_file.h"
#include "tests/fuzz/fuzzers.h"

namespace trainer {

/// An archive: its index, and each member where it lies.
void read_fuzzed_tar(std::string_view input) {
  static const FuzzedFile file;
  file.write(input);
  const TarIndex index = read_tar_index(file.path());
  std::vector<std::byte> memory;
  for (const TarMember& member : index.members) {
    const auto [offset, num_bytes] = member.place;
    require_internal(offset <= input.size() && num_bytes <= input.size() - offset, "a member lies within its archive");
    read_tar_member(file.path(), member.name, member.place, memory);
    require_internal(memory.size() == num_bytes, "a member is read whole");
  }
}

}  // namespace trainer
