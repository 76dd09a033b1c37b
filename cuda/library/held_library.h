#pragma once

#include <string>

namespace trainer::cuda {

/// Keeps a shared library loaded for as long as it lives.
class HeldLibrary {
 public:
  /// Holds nothing where the system's loader does not find `name`.
  explicit HeldLibrary(const std::string& name);
  ~HeldLibrary();
  HeldLibrary(const HeldLibrary&) = delete;
  HeldLibrary& operator=(const HeldLibrary&) = delete;
  bool is_held() const { return library_ != nullptr; }

 private:
  void* library_;
};

/// "libnvrtc.so.13": of the toolkit that this was built with. cuDNN loads and closes it up to nine times in a question
/// about what is compiled for a device (50 to 160 ms; 2 to 10 ms where it is held). Without it cuDNN does as it would.
std::string nvrtc_name();

/// Loads the library that stands for a driver's, "libcuda.so.1", where the system has none, for the rest of the
/// process: whoever then loads that name is given it. See Note [Attention by cuDNN] in cuda/library/attention.h. Empty
/// where one of the two is there, else why it could not be loaded.
std::string stand_in_for_driver();

}  // namespace trainer::cuda
