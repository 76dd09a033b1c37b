#include <nlohmann/json.hpp>
#include <stdexcept>

#include "datasets/text/tokenizer_file.h"
#include "datasets/text/tokenizer_json.h"
#include "datasets/text/tokenizer_training.h"
#include "tests/fuzz/fuzzers.h"
#include "tests/fuzz/patched_json.h"

namespace trainer {

namespace {

nlohmann::json learned_tokenizer() {
  TokenizerTraining training;
  training.vocabulary_size = 280;
  training.special_tokens = {"<|end|>"};
  TokenizerTrainer trainer(training);
  trainer.add("the cat and the hat, the cat's 123 hats");
  return nlohmann::json::parse(json_of_tokenizer(trainer.train()));
}

}  // namespace

/// A patch of a tokenizer.json that is whole. What is taken must give a text back.
void read_fuzzed_tokenizer(std::string_view input) {
  static const FuzzedFile file;
  static const nlohmann::json whole = learned_tokenizer();
  write_patched(file, whole, input);
  const Tokenizer tokenizer = load_tokenizer(file.path());
  constexpr std::string_view text = "the cats'll  12345\n\nh\xC3\xA4t<|end|>\xE4\xBD\xFF  ";
  for (const SpecialTokens special : {SpecialTokens::as_text, SpecialTokens::as_tokens})
    if (tokenizer.decode(tokenizer.encode(text, special)) != text) throw std::logic_error("decoded is another text");
}

}  // namespace trainer
