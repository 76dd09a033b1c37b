#include "datasets/text/tokenizer_file.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "datasets/file_scan.h"
#include "datasets/text/byte_alphabet.h"
#include "engine/config/text/json_input.h"
#include "engine/config/text/utf8_text.h"
#include "engine/errors.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using TokenizerJson = nlohmann::json;
using TokenizerInput = JsonInput<TokenizerJson>;

constexpr std::size_t most_expressions = 16, most_added_tokens = 65'536;

DataError unusable_tokenizer(const std::string& path, std::string_view what) {
  return DataError(fmt::format("{}: not a usable tokenizer: {}", path, what));
}

std::string read_tokenizer_text(const std::string& path) {
  std::vector<std::byte> bytes;
  const std::uint64_t size = read_file(path, bytes, most_tokenizer_file_bytes);
  if (size > most_tokenizer_file_bytes)
    throw unusable_tokenizer(path,
                             fmt::format("it has {} bytes, at most {} are read", size, most_tokenizer_file_bytes));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Text that may hold any characters.
const std::string& any_text(const TokenizerInput& object, std::string_view name) {
  const TokenizerJson& map = object.object();
  const auto found = map.find(name);
  if (found != map.end() && found->is_string()) return found->get_ref<const std::string&>();
  return object.at(name).text();  // which says what is wrong
}

/// Whether a value is there that is neither null nor false nor empty: one that changes what a tokenizer does.
bool is_set(const TokenizerInput& object, std::string_view name) {
  const TokenizerJson& map = object.object();
  const auto found = map.find(name);
  if (found == map.end() || found->is_null()) return false;
  if (found->is_boolean()) return found->get<bool>();
  if (found->is_number()) return found->get<double>() != 0;
  if (found->is_string()) return !found->get_ref<const std::string&>().empty();
  return true;
}

void refuse_where_set(const TokenizerInput& object, std::initializer_list<std::string_view> names,
                      std::string_view place) {
  for (const std::string_view name : names)
    if (is_set(object, name)) throw JsonMistake(fmt::format("'{}.{}' is not supported", place, name));
}

/// The literal text as an expression.
std::string quoted_expression(std::string_view literal) {
  std::string expression;
  for (const char letter : literal) {
    if (std::string_view("\\^$.|?*+()[]{}-#&").find(letter) != std::string_view::npos) expression.push_back('\\');
    expression.push_back(letter);
  }
  return expression;
}

/// The vocabulary, and who is found by which text of the file.
class VocabularyReader {
 public:
  explicit VocabularyReader(TokenizerDefinition& definition) : definition_(definition) {}

  void read(const TokenizerInput& vocabulary, std::string_view place) {
    const TokenizerJson& map = vocabulary.object();
    if (map.size() > most_token_ids)
      throw JsonMistake(fmt::format("'{}' has {} tokens, at most {} are read", place, map.size(), most_token_ids));
    definition_.vocabulary.reserve(map.size());
    texts_.reserve(map.size());
    for (const auto& [text, value] : map.items()) {
      if (text.empty()) throw JsonMistake(fmt::format("'{}' holds an empty token", place));
      const TokenId id = id_of(value, fmt::format("'{}' gives '{}'", place, shortened(text)));
      if (const auto [there, is_new] = texts_.emplace(id, text); !is_new)
        throw JsonMistake(
            fmt::format("'{}' gives '{}' and '{}' the id {}", place, shortened(there->second), shortened(text), id));
      std::optional<std::string> bytes = bytes_of_characters(text);
      const bool is_found = bytes.has_value();
      definition_.vocabulary.push_back({id, bytes ? *std::move(bytes) : text, is_found});
    }
    vocabulary_ = Vocabulary(definition_.vocabulary);
  }

  /// `where` begins the message.
  void add_merge(std::string_view left, std::string_view right, const std::string& where) {
    const auto token = [&](std::string_view characters) {
      const std::optional<std::string> bytes = bytes_of_characters(characters);
      const std::optional<TokenId> id = bytes ? vocabulary_.find(*bytes) : std::nullopt;
      if (!id) throw JsonMistake(fmt::format("{}: '{}' is no token of the vocabulary", where, shortened(characters)));
      return *id;
    };
    definition_.merges.push_back({token(left), token(right), token(fmt::format("{}{}", left, right))});
  }

  void add_added_token(AddedToken token, const std::string& where) {
    const auto refuse = [&](std::string_view what) {
      throw JsonMistake(fmt::format("{}: '{}' {}", where, shortened(token.content), what));
    };
    if (token.content.empty()) refuse("is empty");
    if (token.content.size() > most_added_token_bytes)
      refuse(fmt::format("is longer than {} bytes", most_added_token_bytes));
    if (const auto [there, is_new] = texts_.emplace(token.id, token.content); !is_new && there->second != token.content)
      refuse(fmt::format("has the id {} of '{}'", token.id, shortened(there->second)));
    if (!contents_.insert(token.content).second) refuse("stands there twice");
    definition_.added_tokens.push_back(std::move(token));
  }

  static TokenId id_of(const TokenizerJson& value, const std::string& what) {
    const bool holds = value.is_number_unsigned() && value.get<std::uint64_t>() < most_token_ids;
    if (!holds)
      throw JsonMistake(fmt::format("{} {}, where an id from 0 to {} belongs", what,
                                    shortened(value.dump(-1, ' ', false, TokenizerJson::error_handler_t::replace)),
                                    most_token_ids - 1));
    return value.get<TokenId>();
  }

 private:
  TokenizerDefinition& definition_;
  Vocabulary vocabulary_;
  std::unordered_map<TokenId, std::string> texts_;  ///< of the file, by id
  std::unordered_set<std::string> contents_;        ///< of added tokens
};

void read_model(const TokenizerInput& model, TokenizerDefinition& definition, VocabularyReader& vocabulary) {
  // The oldest files do not say so.
  if (const auto type = model.find("type"); type && type->text() != "BPE")
    throw JsonMistake(fmt::format("'model.type' is {}; only BPE is supported, on bytes", shortened(type->text())));
  refuse_where_set(model, {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"}, "model");
  definition.ignores_merges = is_set(model, "ignore_merges") && model.at("ignore_merges").boolean();
  vocabulary.read(model.at("vocab"), "model.vocab");
  const TokenizerInput listed = model.at("merges");
  const TokenizerJson& merges = *model.object().find("merges");
  if (!merges.is_array()) listed.items();  // which says what is wrong
  definition.merges.reserve(merges.size());
  std::size_t number = 0;
  for (const TokenizerJson& merge : merges) {
    const std::string where = fmt::format("'model.merges.{}'", number++);
    const bool is_pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    if (is_pair) {
      vocabulary.add_merge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>(), where);
      continue;
    }
    const std::string_view text = merge.is_string() ? std::string_view(merge.get_ref<const std::string&>()) : "";
    const std::size_t blank = text.find(' ');
    if (blank == std::string_view::npos || text.find(' ', blank + 1) != std::string_view::npos)
      throw JsonMistake(fmt::format("{} is not two tokens", where));
    vocabulary.add_merge(text.substr(0, blank), text.substr(blank + 1), where);
  }
}

void read_added_tokens(const TokenizerInput& file, VocabularyReader& vocabulary) {
  const auto list = file.find("added_tokens");
  if (!list || list->is_null()) return;
  const std::vector<TokenizerInput> tokens = list->items();
  if (tokens.size() > most_added_tokens)
    throw JsonMistake(fmt::format("'added_tokens' are {}, at most {} are read", tokens.size(), most_added_tokens));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string where = fmt::format("added_tokens.{}", i);
    const TokenizerInput& token = tokens[i];
    refuse_where_set(token, {"single_word", "lstrip", "rstrip"}, where);
    AddedToken added;
    added.id = static_cast<TokenId>(token.at("id").integer(0, most_token_ids - 1));
    added.content = any_text(token, "content");
    if (const auto special = token.find("special")) added.is_special = special->boolean();
    if (const auto normalized = token.find("normalized")) added.is_normalized = normalized->boolean();
    vocabulary.add_added_token(std::move(added), fmt::format("'{}'", where));
  }
}

void read_normalizer(const TokenizerInput& file, TokenizerDefinition& definition) {
  const auto normalizer = file.find("normalizer");
  if (!normalizer || normalizer->is_null()) return;
  std::vector<TokenizerInput> steps = {*normalizer};
  if (normalizer->at("type").text() == "Sequence") steps = normalizer->at("normalizers").items();
  for (const TokenizerInput& step : steps) {
    const std::string& type = step.at("type").text();
    if (type != "NFC")
      throw JsonMistake(fmt::format("'normalizer' is {}; only NFC is supported, since decoding would give another text",
                                    shortened(type)));
    definition.composes = true;
  }
}

/// Of ByteLevel.
void read_byte_level(const TokenizerInput& step, TokenizerDefinition& definition, const std::string& place) {
  if (const auto prefix = step.find("add_prefix_space"); !prefix || prefix->boolean())
    throw JsonMistake(fmt::format("'{}.add_prefix_space' must be false: decoding would not give a text back", place));
  const auto use = step.find("use_regex");
  if (!use || use->boolean()) definition.expressions.emplace_back(gpt2_expression);
}

std::string split_expression(const TokenizerInput& step, const std::string& place) {
  const TokenizerInput pattern = step.at("pattern");
  const bool is_literal = pattern.find("String").has_value();
  std::string expression = is_literal ? quoted_expression(any_text(pattern, "String")) : any_text(pattern, "Regex");
  const std::string& behavior = step.at("behavior").text();
  const bool is_inverted = is_set(step, "invert") && step.at("invert").boolean();
  // These expressions match everything, so that removing what lies between matches removes nothing.
  const bool matches_all = expression == gpt2_expression || expression == llama3_expression;
  if (behavior != "Isolated" && !(behavior == "Removed" && is_inverted && matches_all))
    throw JsonMistake(fmt::format("'{}.behavior' is {}; only Isolated is supported", place, shortened(behavior)));
  return expression;
}

void read_pre_tokenizer(const TokenizerInput& file, TokenizerDefinition& definition) {
  const TokenizerInput pre_tokenizer = file.at("pre_tokenizer");
  if (pre_tokenizer.is_null()) throw JsonMistake("'pre_tokenizer' is null: without ByteLevel it is not byte-level");
  const bool is_sequence = pre_tokenizer.at("type").text() == "Sequence";
  const std::vector<TokenizerInput> steps =
      is_sequence ? pre_tokenizer.at("pretokenizers").items() : std::vector<TokenizerInput>{pre_tokenizer};
  if (steps.size() > most_expressions)
    throw JsonMistake(fmt::format("'pre_tokenizer' has {} steps, at most {} are read", steps.size(), most_expressions));
  bool is_byte_level = false;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::string place = is_sequence ? fmt::format("pre_tokenizer.pretokenizers.{}", i) : "pre_tokenizer";
    const TokenizerInput& step = steps[i];
    const std::string& type = step.at("type").text();
    if (is_byte_level) throw JsonMistake(fmt::format("'{}' stands behind ByteLevel, which must be the last", place));
    if (type == "ByteLevel") {
      read_byte_level(step, definition, place);
      is_byte_level = true;
    } else if (type == "Split") {
      definition.expressions.push_back(split_expression(step, place));
    } else if (type == "Digits") {
      const auto alone = step.find("individual_digits");
      definition.expressions.emplace_back(alone && alone->boolean() ? R"(\p{N})" : R"(\p{N}+)");
    } else {
      throw JsonMistake(
          fmt::format("'{}' is {}; only ByteLevel, Split and Digits are supported", place, shortened(type)));
    }
  }
  if (!is_byte_level) throw JsonMistake("'pre_tokenizer' ends without ByteLevel");
}

TokenizerDefinition read_tokenizer_json(const TokenizerInput& file) {
  TokenizerDefinition definition;
  VocabularyReader vocabulary(definition);
  if (is_set(file, "truncation")) throw JsonMistake("'truncation' is not supported: a text would not come back whole");
  read_normalizer(file, definition);
  read_pre_tokenizer(file, definition);
  read_model(file.at("model"), definition, vocabulary);
  read_added_tokens(file, vocabulary);
  return definition;
}

void read_merges_text(const std::string& path, VocabularyReader& vocabulary) {
  const std::string text = read_tokenizer_text(path);
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("#version") || line.empty()) continue;
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos || line.find(' ', blank + 1) != std::string_view::npos)
      throw DataError(fmt::format("{}:{}: expected two tokens with a space between them", path, number));
    try {
      vocabulary.add_merge(line.substr(0, blank), line.substr(blank + 1), "");
    } catch (const JsonMistake& mistake) {
      throw DataError(fmt::format("{}:{}{}", path, number, mistake.what()));
    }
  }
}

TokenizerDefinition read_vocabulary_and_merges(const TokenizerInput& file, const std::string& merges_path) {
  TokenizerDefinition definition;
  VocabularyReader vocabulary(definition);
  vocabulary.read(file, "the vocabulary");
  definition.expressions.emplace_back(gpt2_expression);
  constexpr const char* end_of_text = "<|endoftext|>";
  if (const auto found = file.object().find(end_of_text); found != file.object().end())
    vocabulary.add_added_token({found->get<TokenId>(), end_of_text, true, false}, "");
  read_merges_text(merges_path, vocabulary);
  return definition;
}

}  // namespace

Tokenizer load_tokenizer(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    const std::array<std::string, 2> candidates = {(fs::path(path) / "tokenizer.json").string(),
                                                   (fs::path(path) / "vocab.json").string()};
    for (const std::string& file : candidates)
      if (fs::exists(file, ignored)) return load_tokenizer(file);
    throw DataError(fmt::format("'{}' holds neither a tokenizer.json nor a vocab.json", path));
  }
  const auto json = parse_json<TokenizerJson>(read_tokenizer_text(path));
  if (!json) throw unusable_tokenizer(path, "it is not JSON");
  TokenizerDefinition definition;
  try {
    const TokenizerInput file(*json);
    // As a token of a vocabulary 'model' has a number.
    const auto model = file.object().find("model");
    if (model != file.object().end() && !model->is_number()) {
      definition = read_tokenizer_json(file);
    } else {
      const std::string merges = (fs::path(path).parent_path() / "merges.txt").string();
      if (!fs::exists(merges, ignored))
        throw JsonMistake(fmt::format("it has no 'model', and as a vocabulary it lacks '{}' beside it", merges));
      definition = read_vocabulary_and_merges(file, merges);
    }
  } catch (const JsonMistake& mistake) {
    throw unusable_tokenizer(path, mistake.what());
  }
  try {
    return Tokenizer(std::move(definition));
  } catch (const DataError& error) {
    throw unusable_tokenizer(path, error.what());
  }
}

}  // namespace trainer
