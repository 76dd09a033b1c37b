#include "datasets/text/tokenizer_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "datasets/text/byte_alphabet.h"

namespace trainer {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson byte_level(bool has_expression) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", has_expression}};
}

OrderedJson pre_tokenizer_of(const std::vector<std::string>& expressions) {
  if (expressions.size() == 1 && expressions.front() == gpt2_expression) return byte_level(true);
  OrderedJson steps = OrderedJson::array();
  for (const std::string& expression : expressions) {
    steps.push_back(
        {{"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}, {"invert", false}});
  }
  steps.push_back(byte_level(false));
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

}  // namespace

std::string json_of_tokenizer(const TokenizerDefinition& definition) {
  std::vector<const VocabularyEntry*> entries;
  for (const VocabularyEntry& entry : definition.vocabulary) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(),
            [](const VocabularyEntry* a, const VocabularyEntry* b) { return a->id < b->id; });
  // An ordered map of the library looks through all its keys for each that is added; its objects are made of pairs.
  OrderedJson::object_t vocabulary;
  vocabulary.reserve(entries.size());
  std::unordered_map<TokenId, std::string> texts;
  for (const VocabularyEntry* const entry : entries) {
    const std::string& text =
        texts.emplace(entry->id, entry->is_found ? byte_characters(entry->bytes) : entry->bytes).first->second;
    static_cast<std::vector<std::pair<const std::string, OrderedJson>>&>(vocabulary).emplace_back(text, entry->id);
  }
  OrderedJson merges = OrderedJson::array();
  for (const TokenMerge& merge : definition.merges) merges.push_back({texts.at(merge.left), texts.at(merge.right)});
  OrderedJson added = OrderedJson::array();
  for (const AddedToken& token : definition.added_tokens) {
    added.push_back({{"id", token.id},
                     {"content", token.content},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", token.is_normalized},
                     {"special", token.is_special}});
  }
  OrderedJson model = {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", definition.ignores_merges}};
  model["vocab"] = OrderedJson(std::move(vocabulary));
  model["merges"] = std::move(merges);
  OrderedJson decoder = byte_level(true);
  const OrderedJson normalizer = definition.composes ? OrderedJson{{"type", "NFC"}} : OrderedJson(nullptr);
  const OrderedJson file = {{"version", "1.0"},          {"truncation", nullptr},
                            {"padding", nullptr},        {"added_tokens", std::move(added)},
                            {"normalizer", normalizer},  {"pre_tokenizer", pre_tokenizer_of(definition.expressions)},
                            {"post_processor", nullptr}, {"decoder", std::move(decoder)},
                            {"model", std::move(model)}};
  return file.dump(2) + '\n';
}

}  // namespace trainer
