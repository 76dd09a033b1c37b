#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "engine/errors.h"
#include "tests/fuzz/fuzzers.h"

namespace {

/// Of this process, which a busy machine does not add to.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

/// libFuzzer's entry. What else is thrown ends the fuzzer, which keeps the input, and so does one that takes too long.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t num_bytes) {
  constexpr double most_seconds = 2;
  const double begin = processor_seconds();
  try {
    trainer::TRAINER_FUZZED_READING({reinterpret_cast<const char*>(bytes), num_bytes});
  } catch (const trainer::ConfigError&) {
  } catch (const trainer::DataError&) {
  }
  if (const double seconds = processor_seconds() - begin; seconds > most_seconds) {
    std::fprintf(stderr, "an input took %.1f s\n", seconds);
    std::abort();
  }
  return 0;
}
