#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "datasets/text/byte_alphabet.h"
#include "datasets/text/text_pattern.h"

namespace trainer {

using TokenPairs = std::vector<std::pair<std::string, std::string>>;

/// A whole tokenizer.json: the 256 bytes, one token for each pair of bytes' texts in `merges`, in that order (ids from
/// 256 on), cut by GPT-2's expression.
inline nlohmann::json tokenizer_json(const TokenPairs& merges = {}) {
  nlohmann::json vocabulary = nlohmann::json::object();
  const std::string bytes = bytes_by_character();
  for (const char byte : bytes) vocabulary[byte_characters(std::string(1, byte))] = vocabulary.size();
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [left, right] : merges) {
    list.push_back({byte_characters(left), byte_characters(right)});
    const std::string result = byte_characters(left + right);
    if (!vocabulary.contains(result)) vocabulary[result] = vocabulary.size();
  }
  return {{"version", "1.0"},
          {"added_tokens", nlohmann::json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", list}}}};
}

inline nlohmann::json added_token(int id, const std::string& content, bool is_special = true) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", is_special}};
}

/// As Llama 3 has it: the expression in a Split, then ByteLevel without its own.
inline nlohmann::json split_and_byte_level(const std::string& expression) {
  return {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}, {"invert", false}},
            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}}}}};
}

}  // namespace trainer
