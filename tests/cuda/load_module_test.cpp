#include <catch2/catch.hpp>

#include "cuda/model/load_module.h"

using namespace trainer::cuda;
using Catch::Contains;

TEST_CASE("a library that the module misses is named with the package that brings it") {
  const std::string path = "/opt/trainer/lib/trainer/libtrainer_cuda.so";
  struct Missing {
    const char* library;
    const char* package;
  };
  for (const Missing& missing :
       {Missing{"libcublasLt.so.13", "nvidia-cublas"}, Missing{"libcudnn.so.9", "nvidia-cudnn-cu13"},
        Missing{"libnvrtc.so.13", "nvidia-cuda-nvrtc"}}) {
    const std::string said =
        std::string(missing.library) + ": cannot open shared object file: No such file or directory";
    const std::string text = explain_load_failure(path, said);
    CHECK_THAT(text, Contains(missing.library) && Contains(std::string("pip install ") + missing.package) &&
                         Contains("LD_LIBRARY_PATH") && Contains("device.type=cpu"));
  }
}

TEST_CASE("a library of nobody's package is named without one") {
  const std::string text =
      explain_load_failure("/a/libtrainer_cuda.so", "libfmt.so.9: cannot open shared object file: No such file");
  CHECK_THAT(text, Contains("libfmt.so.9") && !Contains("pip install"));
}

TEST_CASE("what else the loader says is passed on") {
  const std::string path = "/a/libtrainer_cuda.so";
  for (const std::string& said : {path + ": undefined symbol: cudnnFrobnicate", path + ": file too short",
                                  path + ": cannot open shared object file: Permission denied"}) {
    const std::string text = explain_load_failure(path, said);
    CHECK_THAT(text, Contains(said) && Contains("device.type=cpu") && !Contains("needs " + path));
  }
}
