#include "cuda/model/load_module.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

namespace trainer::cuda {

namespace {

constexpr const char* file_name = "libtrainer_cuda.so";

struct LoadedModule {
  const Module* module = nullptr;
  std::string problem;
};

std::filesystem::path executable_folder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

LoadedModule load() {
  std::vector<std::filesystem::path> places;
  if (const char* chosen = std::getenv("TRAINER_CUDA_MODULE"); chosen != nullptr && *chosen != '\0') {
    places.emplace_back(chosen);
  } else {
    const std::filesystem::path folder = executable_folder();
    places = {folder / file_name, folder / ".." / "lib" / "trainer" / file_name};
  }
  for (const std::filesystem::path& place : places) {
    std::error_code error;
    if (!std::filesystem::exists(place, error)) continue;
    void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return {nullptr, explain_load_failure(place.string(), dlerror())};
    const auto entry = reinterpret_cast<decltype(&trainer_cuda_module)>(dlsym(library, "trainer_cuda_module"));
    if (entry == nullptr)
      return {nullptr, place.string() + " is not the CUDA part of trainer; use device.type=cpu to train without a GPU"};
    // Never closed: the devices that it makes keep running its code.
    return {entry(), {}};
  }
  std::string problem = "this build of trainer has no CUDA part (";
  problem += places.size() == 1 ? places.front().string() + ", which TRAINER_CUDA_MODULE names, is not there"
                                : std::string(file_name) + " is not beside the program";
  problem +=
      "): build it where CMake finds nvcc and cuDNN, with -DTRAINER_CUDA=ON, or use device.type=cpu to train without a "
      "GPU";
  return {nullptr, problem};
}

/// The PyPI package that carries a library of NVIDIA's.
std::string package_of(const std::string& library) {
  struct Carried {
    const char* prefix;
    const char* package;
  };
  for (const Carried& carried : {Carried{"libcublas", "nvidia-cublas"}, Carried{"libcudnn", "nvidia-cudnn-cu13"},
                                 Carried{"libnvrtc", "nvidia-cuda-nvrtc"}, Carried{"libcudart", "nvidia-cuda-runtime"},
                                 Carried{"libnvJitLink", "nvidia-nvjitlink"}})
    if (library.starts_with(carried.prefix)) return carried.package;
  return {};
}

}  // namespace

std::string explain_load_failure(const std::string& path, const std::string& loader_message) {
  // The loader's words: "NAME: cannot open shared object file: No such file or directory".
  const std::size_t name_end = loader_message.find(": cannot open shared object file");
  if (name_end == std::string::npos || loader_message.compare(0, name_end, path) == 0)
    return "the CUDA part of trainer cannot be loaded: " + loader_message +
           "; build it on this machine, or use device.type=cpu to train without a GPU";
  const std::string library = loader_message.substr(0, name_end);
  const std::string package = package_of(library);
  std::string text = "the CUDA part of trainer needs " + library + ", which is not found: add its folder to ";
  text += "LD_LIBRARY_PATH, or put it beside " + path;
  if (!package.empty()) text += " (`pip install " + package + "` brings it)";
  return text + ", or use device.type=cpu to train without a GPU";
}

const Module* load_module(std::string& problem) {
  static const LoadedModule loaded = load();
  problem = loaded.problem;
  return loaded.module;
}

bool has_driver_library() {
  static void* const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  return library != nullptr;
}

}  // namespace trainer::cuda
