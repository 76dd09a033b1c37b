#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "datasets/text/text_encoder.h"
#include "datasets/text/tokenizer_file.h"
#include "datasets/text/tokenizer_json.h"

using namespace trainer;

namespace {

/// See learned/make_expected.py.
const std::string learned_folder = TRAINER_SOURCE_DIR "/tests/datasets/text/learned/";

}  // namespace

TEST_CASE("Texts become the ids that tokenizers gives them, by the two expressions") {
  const nlohmann::json all = nlohmann::json::parse(std::ifstream(learned_folder + "expected.json"));
  REQUIRE(all.size() == 26);
  for (const char* name : {"gpt2", "llama3"}) {
    const Tokenizer tokenizer = load_tokenizer(learned_folder + name + ".json");
    TextEncoder encoder(tokenizer);
    for (const nlohmann::json& each : all) {
      if (each["tokenizer"] != name) continue;
      const auto text = each["text"].get<std::string>();
      INFO(name << ": " << text);
      for (const auto& [key, special] :
           {std::pair{"ids", SpecialTokens::as_text}, std::pair{"ids_with_special", SpecialTokens::as_tokens}}) {
        const auto expected = each[key].get<std::vector<TokenId>>();
        CHECK(tokenizer.encode(text, special) == expected);
        std::vector<TokenId> ids;
        encoder.encode(text, special, ids);
        CHECK(ids == expected);
        CHECK(tokenizer.decode(ids) == text);
      }
    }
  }
}

TEST_CASE("A file that was learned is written again as it was") {
  for (const char* name : {"gpt2.json", "llama3.json"}) {
    std::ifstream file(learned_folder + name, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    CHECK(json_of_tokenizer(load_tokenizer(learned_folder + name).definition()) == text);
  }
}
