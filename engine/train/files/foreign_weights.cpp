#include "engine/train/files/foreign_weights.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>

#include "engine/config/text/shell_word.h"
#include "engine/errors.h"

namespace trainer {
namespace {

/// The first bytes, as many as there are.
std::string beginning_of(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  std::array<char, 16> bytes{};
  const std::size_t count = file ? std::fread(bytes.data(), 1, bytes.size(), file.get()) : 0;
  return {bytes.data(), count};
}

/// The length of a header below 4 GiB, and the brace it begins with: four of its bytes may be those of another format.
bool begins_as_safetensors(std::string_view bytes) {
  return bytes.size() > 8 && bytes[8] == '{' && bytes.substr(4, 4) == std::string_view("\0\0\0\0", 4);
}

/// A zip archive, as torch.save writes, or a pickle of protocol 2 to 5, as it did before.
bool is_pickled(std::string_view bytes) {
  return bytes.starts_with("PK\x03\x04") ||
         (bytes.size() > 1 && bytes[0] == '\x80' && bytes[1] >= '\x02' && bytes[1] <= '\x05');
}

std::string_view format_of(std::string_view bytes) {
  if (bytes.starts_with("\x89HDF\r\n\x1a\n")) return "HDF5 (Keras)";
  if (bytes.starts_with("GGUF")) return "GGUF";
  if (bytes.starts_with("version https://g")) return "a pointer of Git LFS, whose file was not fetched";
  if (bytes.starts_with("\x93NUMPY")) return "NumPy";
  return "";
}

std::string converting_line(const std::string& path) {
  std::string to = std::filesystem::path(path).replace_extension(".safetensors").string();
  if (to == path) to = std::filesystem::path(path).replace_extension(".converted.safetensors").string();
  return fmt::format(
      "python3 -c \"import sys, torch; from safetensors.torch import save_file; d = torch.load(sys.argv[1], "
      "map_location='cpu', weights_only=True); d = d.get('state_dict', d.get('model', d)); save_file({{k: "
      "v.clone().contiguous() for k, v in d.items() if torch.is_tensor(v)}}, sys.argv[2])\" {} {}",
      shell_word(path), shell_word(to));
}

}  // namespace

void refuse_foreign_weights(const std::string& path) {
  const std::string bytes = beginning_of(path);
  if (begins_as_safetensors(bytes)) return;
  if (is_pickled(bytes)) {
    throw DataError(
        fmt::format("{} is a pickle of PyTorch, a program that runs when it is read; trainer reads safetensors.\n"
                    "Convert it, where it comes from somebody you trust (pip install torch safetensors numpy):\n  {}",
                    path, converting_line(path)));
  }
  if (const std::string_view format = format_of(bytes); !format.empty())
    throw DataError(fmt::format("{} is {}; trainer reads weights as safetensors", path, format));
}

}  // namespace trainer
