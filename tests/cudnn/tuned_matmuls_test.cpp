#include "cuda/library/tuned_matmuls.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "cuda/kernels/bias_gradient.h"
#include "cuda/library/cublaslt_descriptors.h"

namespace trainer::cuda {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

class ChoicesFolder {
 public:
  ChoicesFolder() { fs::remove_all(path_); }
  ~ChoicesFolder() { fs::remove_all(path_); }
  ChoicesFolder(const ChoicesFolder&) = delete;
  ChoicesFolder& operator=(const ChoicesFolder&) = delete;
  std::string file() const { return path_ / "trainer" / "products.json"; }

 private:
  fs::path path_ = fs::temp_directory_path() / ("tuned_matmuls_test." + std::to_string(getpid()));
};

const MatmulCall product{.m = 256, .n = 512, .k = 4096, .transpose_b = true, .epilogue = Epilogue::relu_bias};

/// A library that has these candidates, and a device on which they take that long; nothing: they do not run.
struct FakeLibrary {
  struct Way {
    MatmulCandidate candidate;
    std::optional<float> milliseconds;
  };
  std::vector<Way> ways;
  int num_timed = 0;

  TunedMatmuls tuned(const std::string& file) {
    return {file,
            [this](const MatmulCall&, std::int64_t limit) {
              std::vector<MatmulCandidate> found;
              for (const Way& way : ways)
                if (way.candidate.workspace_bytes <= limit) found.push_back(way.candidate);
              return found;
            },
            [this](const MatmulCall&, const std::vector<MatmulCandidate>& candidates) {
              ++num_timed;
              std::vector<std::optional<float>> times;
              for (const MatmulCandidate& candidate : candidates)
                for (const Way& way : ways)
                  if (way.candidate == candidate) times.push_back(way.milliseconds);
              REQUIRE(times.size() == candidates.size());
              return times;
            }};
  }
};

TunedMatmuls of_next_process(const std::string& file) {
  return {file,
          [](const MatmulCall&, std::int64_t) -> std::vector<MatmulCandidate> {
            FAIL("asked the library again");
            return {};
          },
          [](const MatmulCall&, const std::vector<MatmulCandidate>&) -> std::vector<std::optional<float>> {
            FAIL("timed again");
            return {};
          }};
}

const MatmulCandidate fused_small{true, 0, "aa"}, fused_other{true, 65536, "bb"}, plain_small{false, 0, "cc"},
    fused_large{true, 32 * mebibyte, "dd"};

}  // namespace

TEST_CASE("a product that is only planned is given what the rule says, and nothing is timed") {
  const ChoicesFolder folder;
  FakeLibrary library{.ways = {{fused_small, 1.0F}}};
  TunedMatmuls tuned = library.tuned(folder.file());
  CHECK(tuned.workspace_bytes(product) == matmul_workspace_bytes(product));
  CHECK(tuned.workspace_bytes(product) == matmul_workspace_bytes(product));
  CHECK(tuned.num_untuned() == 1);
  CHECK(library.num_timed == 0);
  CHECK_FALSE(fs::exists(folder.file()));
}

TEST_CASE("the fastest of fused products and of products with a kernel behind them runs, and is stored") {
  for (const bool plain_is_faster : {false, true}) {
    const ChoicesFolder folder;
    FakeLibrary library{
        .ways = {{fused_small, 2.0F}, {fused_other, 1.5F}, {plain_small, plain_is_faster ? 1.0F : 3.0F}}};
    const MatmulCandidate& fastest = plain_is_faster ? plain_small : fused_other;
    TunedMatmuls tuned = library.tuned(folder.file());
    const std::int64_t planned = tuned.workspace_bytes(product);
    for (int repetition = 0; repetition < 2; ++repetition) {
      CHECK(tuned.choice_to_run(product) == fastest);
      CHECK(tuned.workspace_bytes(product) == planned);
    }
    CHECK(library.num_timed == 1);
    TunedMatmuls next = of_next_process(folder.file());
    CHECK(next.workspace_bytes(product) == fastest.workspace_bytes);
    CHECK(next.choice_to_run(product) == fastest);
    CHECK(next.num_untuned() == 0);
    TunedMatmuls described(folder.file(), {}, {});
    CHECK(described.workspace_bytes(product) == fastest.workspace_bytes);
  }
}

TEST_CASE("scratch beyond the plan is for the next process, which plans it, and only where it saves a twentieth") {
  for (const float milliseconds : {0.94F, 0.96F}) {
    const ChoicesFolder folder;
    FakeLibrary library{.ways = {{fused_small, 1.2F}, {plain_small, 1.0F}, {fused_large, milliseconds}}};
    TunedMatmuls tuned = library.tuned(folder.file());
    const std::int64_t planned = tuned.workspace_bytes(product);
    REQUIRE(planned < 32 * mebibyte);
    CHECK(tuned.choice_to_run(product) == plain_small);
    CHECK(tuned.workspace_bytes(product) == planned);
    const bool is_worth_it = milliseconds < 0.95F;
    TunedMatmuls next = of_next_process(folder.file());
    CHECK(next.workspace_bytes(product) == (is_worth_it ? 32 * mebibyte : 0));
    CHECK(next.choice_to_run(product) == (is_worth_it ? fused_large : plain_small));
  }
}

TEST_CASE("a product whose bias gradient may stand behind it always has room for the sums") {
  const ChoicesFolder folder;
  const MatmulCall gradient{
      .m = 512, .n = 256, .k = 100'000, .transpose_a = true, .epilogue = Epilogue::bias_gradient_a};
  const std::int64_t sums = bias_gradient_workspace_bytes(gradient.k, gradient.m);
  REQUIRE(sums > 0);
  FakeLibrary library{.ways = {{fused_small, 1.0F}}};
  library.tuned(folder.file()).choice_to_run(gradient);
  CHECK(of_next_process(folder.file()).workspace_bytes(gradient) >= sums);
}

TEST_CASE("where nothing runs, or there is no room to time, the heuristics choose and nothing is stored") {
  const ChoicesFolder folder;
  FakeLibrary library{.ways = {{fused_small, std::nullopt}, {plain_small, std::nullopt}}};
  TunedMatmuls tuned = library.tuned(folder.file());
  CHECK_FALSE(tuned.choice_to_run(product).has_value());
  CHECK_FALSE(tuned.choice_to_run(product).has_value());
  CHECK(library.num_timed == 1);
  CHECK_FALSE(fs::exists(folder.file()));
  library.ways[0] = {fused_large, 1.0F};
  // Too large for this process, and stored for the next.
  TunedMatmuls other = library.tuned(folder.file());
  CHECK_FALSE(other.choice_to_run(product).has_value());
  CHECK(of_next_process(folder.file()).workspace_bytes(product) == 32 * mebibyte);
}

TEST_CASE("a product whose operands begin anywhere shares the plan and leaves the choice to the heuristics") {
  const ChoicesFolder folder;
  FakeLibrary library{.ways = {{fused_other, 1.0F}}};
  MatmulCall unaligned = product;
  unaligned.alignment = 4;
  TunedMatmuls first = library.tuned(folder.file());
  CHECK_FALSE(first.choice_to_run(unaligned).has_value());
  CHECK(library.num_timed == 0);
  CHECK(first.num_untuned() == 0);
  CHECK(first.choice_to_run(product) == fused_other);
  CHECK(first.num_untuned() == 1);
  TunedMatmuls next = of_next_process(folder.file());
  CHECK_FALSE(next.choice_to_run(unaligned).has_value());
  CHECK(next.workspace_bytes(unaligned) == next.workspace_bytes(product));
}

TEST_CASE("a choice that cannot be stored runs, and a note says so") {
  FakeLibrary library{.ways = {{fused_small, 2.0F}, {fused_other, 1.0F}}};
  TunedMatmuls tuned = library.tuned("/proc/no/such/folder/products.json");
  for (int repetition = 0; repetition < 2; ++repetition) CHECK(tuned.choice_to_run(product) == fused_other);
  CHECK(library.num_timed == 1);
  CHECK_THAT(tuned.note(), Catch::Contains("not stored"));
}

TEST_CASE("a stored text that is no choice is timed anew") {
  const ChoicesFolder folder;
  for (const char* text : {"", "fused", "fused -1 aa", "fused 1 aa bb", "half 1 aa", "fused x aa"}) {
    EngineChoices(folder.file()).store(text_key(product), text);
    FakeLibrary library{.ways = {{fused_other, 1.0F}}};
    TunedMatmuls tuned = library.tuned(folder.file());
    CHECK(tuned.workspace_bytes(product) == matmul_workspace_bytes(product));
    CHECK(tuned.choice_to_run(product) == fused_other);
    CHECK(library.num_timed == 1);
  }
  CHECK(candidate_of(text_of(fused_large)) == fused_large);
}

TEST_CASE("products that differ have keys that differ") {
  std::vector<MatmulCall> calls(11, product);
  calls[1].m = 1;
  calls[2].n = 1;
  calls[3].k = 1;
  calls[4].transpose_a = true;
  calls[5].transpose_b = false;
  calls[6].type = DType::bf16;
  calls[7].epilogue = Epilogue::none;
  calls[8].tf32 = true;
  calls[9].f32_result = true;
  calls[10].adds = true;
  std::set<std::string> keys;
  for (const MatmulCall& call : calls) keys.insert(text_key(call));
  CHECK(keys.size() == calls.size());
}

TEST_CASE("an algorithm of cuBLASLt is the same after it was written down") {
  cublasLtMatmulAlgo_t algorithm{}, read{};
  for (std::size_t i = 0; i < std::size(algorithm.data); ++i) algorithm.data[i] = 0x0123456789ABCDEFULL * (i + 1);
  CHECK(read_algorithm(text_of(algorithm), read));
  CHECK(std::equal(std::begin(algorithm.data), std::end(algorithm.data), std::begin(read.data)));
  CHECK_FALSE(read_algorithm("", read));
  CHECK_FALSE(read_algorithm(text_of(algorithm).replace(3, 1, "g"), read));
}

TEST_CASE("choices of products are kept for each kind of device and version of cuBLASLt") {
  REQUIRE(setenv("XDG_CACHE_HOME", "/cache", 1) == 0);
  CHECK(tuned_matmuls_path(R"({"deviceName": "NVIDIA H200"})", 130000) ==
        "/cache/trainer/products-NVIDIA-H200-130000.json");
  REQUIRE(unsetenv("XDG_CACHE_HOME") == 0);
}

}  // namespace trainer::cuda
