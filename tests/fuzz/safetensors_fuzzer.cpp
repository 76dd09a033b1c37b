#include <cstddef>
#include <vector>

#include "engine/errors.h"
#include "engine/train/files/safetensors.h"
#include "tests/fuzz/fuzzed_file.h"
#include "tests/fuzz/fuzzers.h"

namespace trainer {

/// A file with the length of its header in front, which is the rest of the first line: a length of eight bytes hides
/// the header from a fuzzer. A line that is empty leaves the file as it is.
void read_fuzzed_safetensors(std::string_view input) {
  static const FuzzedFile file;
  const std::size_t end = input.find('\n');
  std::string bytes;
  if (end != std::string_view::npos && end > 0)
    for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(end >> shift & 0xff);
  bytes += bytes.empty() ? input.substr(input.starts_with('\n') ? 1 : 0) : input.substr(0, end);
  if (end != std::string_view::npos && end > 0) bytes += input.substr(end + 1);
  file.write(bytes);
  const SafetensorsFile tensors(file.path());
  for (std::size_t i = 0; i < tensors.tensors().size(); ++i) {
    const NamedTensor& tensor = tensors.tensors()[i];
    std::vector<std::byte> contents(static_cast<std::size_t>(tensor.type.num_bytes()));
    require_internal(contents.size() <= bytes.size(), "a tensor is no larger than its file");
    tensors.read(i, contents.data());
    require_internal(tensors.find(tensor.name) == static_cast<std::ptrdiff_t>(i), "a tensor is found by its name");
  }
}

}  // namespace trainer
