#include "cuda/library/known_scratch.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "cuda/library/cudnn_convolution.h"
#include "engine/errors.h"
#include "tests/cudnn/cache_home.h"

namespace trainer::cuda {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t usual_limit = std::int64_t{96} << 20;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void keep(const std::string& path, const std::string& key, std::int64_t answer) {
  KnownScratch known(path, "identity");
  known.add(key, answer);
  known.save();
}

/// Answers by rule, and counts what it was asked.
class CountingPlanner final : public ConvolutionPlanner {
 public:
  explicit CountingPlanner(int& num_asked) : num_asked_(num_asked) {}
  std::int64_t workspace_bytes(const ConvolutionCall& call) override {
    ++num_asked_;
    if (call.statistics) throw DeviceError("no engine");
    return call.x[0] * 1000;
  }

 private:
  int& num_asked_;
};

KnownScratchPlanner planner_over(int& num_asked, const CacheHome& home, const std::string& variant = "") {
  return {std::make_unique<CountingPlanner>(num_asked), KnownScratch(home.file(), "identity"),
          [variant] { return variant; }};
}

const ConvolutionCall call_of_64{
    .x = {64, 56, 56, 64}, .y = {64, 56, 56, 64}, .kernel = {3, 3}, .padding = {1, 1}, .workspace_limit = usual_limit};

std::string h200_properties() { return text_of(fs::path(TRAINER_SOURCE_DIR) / "configs/gpus/h200.cudnn.json"); }

TEST_CASE("what a planner said is known to the next process, refusals too") {
  const CacheHome home;
  int num_asked = 0;
  ConvolutionCall limited = call_of_64, refused = call_of_64;
  limited.workspace_limit = 63'999;
  refused.statistics = true;
  for (int process = 0; process < 2; ++process) {
    KnownScratchPlanner planner = planner_over(num_asked, home);
    for (int i = 0; i < 2; ++i) {
      CHECK(planner.workspace_bytes(call_of_64) == 64'000);
      CHECK(planner.serves(call_of_64));
      CHECK_FALSE(planner.serves(limited));
      CHECK_FALSE(planner.serves(refused));
    }
    CHECK(num_asked == 3);
  }
  // Why there is none, or how much the least would be, is asked each time.
  KnownScratchPlanner planner = planner_over(num_asked, home);
  CHECK_THROWS_AS(planner.workspace_bytes(refused), DeviceError);
  CHECK(planner.workspace_bytes(limited) == 64'000);
  CHECK(num_asked == 5);
}

TEST_CASE("a call with statistics is asked again where what it depends on has changed") {
  const CacheHome home;
  int num_asked = 0;
  ConvolutionCall call = call_of_64;
  call.statistics = true;
  CHECK_FALSE(planner_over(num_asked, home).serves(call));
  CHECK_FALSE(planner_over(num_asked, home).serves(call));
  CHECK(num_asked == 1);
  CHECK_FALSE(planner_over(num_asked, home, " without").serves(call));
  CHECK(num_asked == 2);
}

TEST_CASE("a file of answers that is damaged counts as none and is written anew") {
  const CacheHome home;
  keep(home.file(), "a", 1);
  const std::string whole = text_of(home.file());
  REQUIRE(KnownScratch(home.file(), "identity").find("a") == 1);
  std::vector<std::string> damaged = {"", "\n", "trainer", whole + "x", whole + "1 b\n", std::string(5'000'000, 'x')};
  for (std::size_t length = 0; length < whole.size(); ++length) damaged.push_back(whole.substr(0, length));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    damaged.push_back(whole);
    damaged.back()[i] = static_cast<char>(damaged.back()[i] ^ 1);
  }
  for (const std::string& text : damaged) {
    std::ofstream(home.file(), std::ios::binary) << text;
    KnownScratch known(home.file(), "identity");
    CHECK_FALSE(known.find("a"));
    known.add("b", 2);
    known.save();
    CHECK(KnownScratch(home.file(), "identity").find("b") == 2);
  }
  CHECK_FALSE(KnownScratch(home.file(), "another").find("b"));
}

TEST_CASE("answers out of range are none, whoever wrote them") {
  const CacheHome home;
  for (const std::int64_t answer : {std::int64_t{-2}, (std::int64_t{1} << 50) + 1, std::int64_t{1} << 62}) {
    keep(home.file(), "a", answer);
    CHECK_FALSE(KnownScratch(home.file(), "identity").find("a"));
  }
  keep(home.file(), "a", std::int64_t{1} << 50);
  CHECK(KnownScratch(home.file(), "identity").find("a") == std::int64_t{1} << 50);
}

TEST_CASE("processes that keep answers at the same time leave a whole file, and those that come later add to it") {
  const CacheHome home;
  KnownScratch first(home.file(), "identity"), second(home.file(), "identity");
  first.add("a", 1);
  second.add("b", 2);
  first.save();
  second.save();
  CHECK(KnownScratch(home.file(), "identity").find("a") == 1);
  CHECK(KnownScratch(home.file(), "identity").find("b") == 2);

  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&home, t] {
      for (int i = 0; i < 50; ++i) keep(home.file(), std::to_string(t) + "." + std::to_string(i), i);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(KnownScratch(home.file(), "identity").find("a") == 1);
  CHECK(home.files().size() == 1);
}

TEST_CASE("no more answers are kept than there may be: those that are used stay") {
  const CacheHome home;
  {
    KnownScratch known(home.file(), "identity");
    for (std::size_t i = 0; i < KnownScratch::most_answers; ++i) known.add(std::to_string(i), 1);
    known.save();
  }
  {
    KnownScratch known(home.file(), "identity");
    CHECK(known.find("0"));
    known.add("new", 2);
    known.save();
  }
  KnownScratch known(home.file(), "identity");
  CHECK(known.find("0"));
  CHECK(known.find("new") == 2);
  CHECK_FALSE(known.find("1"));
  CHECK(known.find("2"));
  CHECK(fs::file_size(home.file()) < 512 * KnownScratch::most_answers);
}

TEST_CASE("answers that cannot be kept are answers all the same") {
  int num_asked = 0;
  KnownScratchPlanner planner(std::make_unique<CountingPlanner>(num_asked),
                              KnownScratch("/proc/no/such/folder/scratch.txt", "identity"), [] { return ""; });
  CHECK(planner.workspace_bytes(call_of_64) == 64'000);
}

TEST_CASE("answers are kept where caches are, for each device, version and identity, and only where that is wanted") {
  const CacheHome home;
  const std::string path = known_scratch_path("NVIDIA H200", 91900, "a");
  CHECK(fs::path(path).parent_path() == fs::path(home.file()).parent_path());
  CHECK(fs::path(path).filename().string().starts_with("scratch-NVIDIA-H200-91900-"));
  CHECK(known_scratch_path("NVIDIA H200", 91900, "b") != path);
  REQUIRE(setenv("TRAINER_SCRATCH_CACHE", "off", 1) == 0);
  CHECK(known_scratch_path("NVIDIA H200", 91900, "a").empty());
  REQUIRE(unsetenv("TRAINER_SCRATCH_CACHE") == 0);
  REQUIRE(unsetenv("XDG_CACHE_HOME") == 0);
  const char* const home_variable = std::getenv("HOME");
  const std::string home_before = home_variable == nullptr ? "" : home_variable;
  REQUIRE(unsetenv("HOME") == 0);
  CHECK(known_scratch_path("NVIDIA H200", 91900, "a").empty());
  if (home_variable != nullptr) REQUIRE(setenv("HOME", home_before.c_str(), 1) == 0);
}

TEST_CASE("cuDNN's answers for a described device are the same when they are known, and choices by time are not kept") {
  const CacheHome home;
  make_cudnn_planner(h200_properties(), {.autotune = true})->workspace_bytes(call_of_64);
  CHECK(home.files().empty());
  std::vector<ConvolutionCall> calls;
  for (const ConvolutionDirection direction :
       {ConvolutionDirection::forward, ConvolutionDirection::input_gradient, ConvolutionDirection::weight_gradient}) {
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
      for (const std::int64_t batch : {1, 7, 256}) {
        ConvolutionCall call = call_of_64;
        call.direction = direction;
        call.type = type;
        call.x[0] = call.y[0] = batch;
        calls.push_back(call);
        call.statistics = direction == ConvolutionDirection::forward;
        calls.push_back(call);
      }
    }
  }
  const auto answers = [&] {
    const std::unique_ptr<ConvolutionPlanner> planner = make_cudnn_planner(h200_properties(), {});
    std::vector<std::int64_t> bytes;
    for (const ConvolutionCall& call : calls) {
      bytes.push_back(planner->serves(call) ? 1 : 0);
      if (!call.statistics) bytes.push_back(planner->workspace_bytes(call));
    }
    return bytes;
  };
  REQUIRE(setenv("TRAINER_SCRATCH_CACHE", "off", 1) == 0);
  const std::vector<std::int64_t> asked = answers();
  CHECK(home.files().empty());
  REQUIRE(unsetenv("TRAINER_SCRATCH_CACHE") == 0);
  CHECK(answers() == asked);
  REQUIRE(home.files().size() == 1);
  const std::string kept = text_of(home.files().front());
  CHECK(answers() == asked);
  CHECK(text_of(home.files().front()) == kept);

  // It is the file that answers.
  const std::string identity = CudnnPlans::identity(h200_properties());
  KnownScratch other(known_scratch_path("NVIDIA H200", CudnnPlans::cudnn_version(), identity), identity);
  other.add(text_key(call_of_64), 12'345);
  other.save();
  CHECK(make_cudnn_planner(h200_properties(), {})->workspace_bytes(call_of_64) == 12'345);
}

}  // namespace

}  // namespace trainer::cuda
