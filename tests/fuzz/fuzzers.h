#pragma once

#include <span>
#include <string_view>

namespace trainer {

/// What a fuzzer does with one input. It throws what reading it throws: ConfigError or DataError where the input is
/// refused. Any other exception is a mistake of trainer's, and so is what the sanitizers report.
using FuzzedReading = void (*)(std::string_view input);

struct Fuzzer {
  const char* name;  ///< tests/fuzz/<name>_fuzzer.cpp and tests/fuzz/corpus/<name>/
  FuzzedReading read;
};

void read_fuzzed_arrays(std::string_view input);
void read_fuzzed_checkpoint(std::string_view input);
void read_fuzzed_cifar10(std::string_view input);
void read_fuzzed_config(std::string_view input);
void read_fuzzed_csv(std::string_view input);
void read_fuzzed_data_timing(std::string_view input);
void read_fuzzed_exported_model(std::string_view input);
void read_fuzzed_gpu_profile(std::string_view input);
void read_fuzzed_gzip(std::string_view input);
void read_fuzzed_idx(std::string_view input);
void read_fuzzed_image(std::string_view input);
void read_fuzzed_image_list(std::string_view input);
void read_fuzzed_rates(std::string_view input);
void read_fuzzed_safetensors(std::string_view input);
void read_fuzzed_safetensors_index(std::string_view input);
void read_fuzzed_sweep(std::string_view input);
void read_fuzzed_tar(std::string_view input);
void read_fuzzed_token_text(std::string_view input);
void read_fuzzed_tokenizer(std::string_view input);
void read_fuzzed_tokens(std::string_view input);

inline constexpr Fuzzer fuzzers[] = {
    {"arrays", read_fuzzed_arrays},
    {"checkpoint", read_fuzzed_checkpoint},
    {"cifar10", read_fuzzed_cifar10},
    {"config", read_fuzzed_config},
    {"csv", read_fuzzed_csv},
    {"data_timing", read_fuzzed_data_timing},
    {"exported_model", read_fuzzed_exported_model},
    {"gpu_profile", read_fuzzed_gpu_profile},
    {"gzip", read_fuzzed_gzip},
    {"idx", read_fuzzed_idx},
    {"image", read_fuzzed_image},
    {"image_list", read_fuzzed_image_list},
    {"rates", read_fuzzed_rates},
    {"safetensors", read_fuzzed_safetensors},
    {"safetensors_index", read_fuzzed_safetensors_index},
    {"sweep", read_fuzzed_sweep},
    {"tar", read_fuzzed_tar},
    {"token_text", read_fuzzed_token_text},
    {"tokenizer", read_fuzzed_tokenizer},
    {"tokens", read_fuzzed_tokens},
};

}  // namespace trainer
