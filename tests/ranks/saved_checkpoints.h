#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "engine/train/files/weight_files.h"

// What checkpoints hold, whatever files it lies in.

namespace trainer {

/// Type and bytes of each tensor of a checkpoint's "model" or "optimizer".
inline std::map<std::string, std::string> saved_in(const std::string& checkpoint, const std::string& stem) {
  const std::string file = checkpoint + "/" + stem + ".safetensors";
  const WeightFiles files(std::filesystem::exists(file) ? file : file + ".index.json");
  std::map<std::string, std::string> tensors;
  for (const WeightTensor& tensor : files.tensors()) {
    std::string bytes(static_cast<std::size_t>(tensor.type.num_bytes()), '\0');
    files.read(tensor, 0, tensor.type.num_bytes(), bytes.data());
    tensors[tensor.name] = tensor.type.to_string() + bytes;
  }
  return tensors;
}

/// (A comparison of the bytes would print them.)
inline bool same_tensors(const std::string& checkpoint, const std::string& other) {
  return saved_in(checkpoint, "model") == saved_in(other, "model") &&
         saved_in(checkpoint, "optimizer") == saved_in(other, "optimizer");
}

}  // namespace trainer
