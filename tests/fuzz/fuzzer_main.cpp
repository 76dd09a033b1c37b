#include <cstddef>
#include <cstdint>

#include "engine/errors.h"
#include "tests/fuzz/fuzzers.h"

/// libFuzzer's entry. What else is thrown ends the fuzzer, which keeps the input.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t num_bytes) {
  try {
    trainer::TRAINER_FUZZED_READING({reinterpret_cast<const char*>(bytes), num_bytes});
  } catch (const trainer::ConfigError&) {
  } catch (const trainer::DataError&) {
  }
  return 0;
}
