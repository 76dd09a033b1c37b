#include <array>
#include <stdexcept>
#include <vector>

#include "datasets/text/text_encoder.h"
#include "datasets/text/tokenizer.h"
#include "datasets/text/tokenizer_training.h"
#include "tests/fuzz/fuzzers.h"

namespace trainer {

namespace {

Tokenizer tokenizer_learned_by(std::string_view expression) {
  TokenizerTraining training;
  training.vocabulary_size = 340;
  training.expression = std::string(expression);
  training.special_tokens = {"<|end|>", "<|end|><", "\xE4\xBD\xA0"};
  TokenizerTrainer trainer(training);
  trainer.add("aaaa abab  abba 1111 12 121\n\n\t it's we'll \xC3\xA4\xC3\xB6 \xE4\xBD\xA0\xE5\xA5\xBD <|end|> ((()))");
  return Tokenizer(trainer.train());
}

struct TextEncoding {
  Tokenizer tokenizer;
  TextEncoder encoder{tokenizer};
};

}  // namespace

/// A letter that says by which tokenizer, then a text, which must be given back, or ids, of which not all are tokens.
void read_fuzzed_token_text(std::string_view input) {
  static std::array<TextEncoding, 3> encodings = {TextEncoding{Tokenizer::bytes()},
                                                  TextEncoding{tokenizer_learned_by(gpt2_expression)},
                                                  TextEncoding{tokenizer_learned_by(llama3_expression)}};
  if (input.empty()) return;
  const auto choice = static_cast<unsigned char>(input[0]);
  TextEncoding& encoding = encodings[choice % encodings.size()];
  const std::string_view text = input.substr(1);
  if ((choice & 0x80U) != 0) {
    std::vector<TokenId> ids;
    for (std::size_t i = 0; i + 1 < text.size(); i += 2)
      ids.push_back(static_cast<unsigned char>(text[i]) | TokenId{static_cast<unsigned char>(text[i + 1])} << 8U);
    (void)encoding.tokenizer.decode(ids);
    return;
  }
  for (const SpecialTokens special : {SpecialTokens::as_text, SpecialTokens::as_tokens}) {
    const std::vector<TokenId> ids = encoding.tokenizer.encode(text, special);
    if (encoding.tokenizer.decode(ids) != text) throw std::logic_error("decoded is another text");
    std::vector<TokenId> remembered;
    encoding.encoder.encode(text, special, remembered);
    if (remembered != ids) throw std::logic_error("what was remembered is something else");
  }
}

}  // namespace trainer
