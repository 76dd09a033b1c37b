#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/commands/commands.h"
#include "cli/commands/output_file.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/terminal.h"
#include "datasets/input_file.h"
#include "datasets/text/text_encoder.h"
#include "datasets/text/tokenizer_json.h"
#include "datasets/text/tokenizer_training.h"
#include "datasets/tokens/token_file.h"
#include "datasets/tokens/tokenized_text.h"
#include "engine/report/data/token_writer.h"
#include "engine/report/data/tokenizer_report.h"
#include "engine/report/text/shell_words.h"
#include "engine/train/files/replaced_file.h"

namespace trainer {
namespace {

struct TokenizerTrainArguments {
  std::vector<std::string> files, special;
  std::uint32_t vocabulary_size = 0;
  std::string pattern = "gpt2", output;
  bool overwrite = false, json = false;
};

struct TokenizerEncodeArguments {
  std::string tokenizer, file, output, format = "nanogpt";
  bool has_special = false, overwrite = false, json = false;
};

struct TokenizerDecodeArguments {
  std::string tokenizer, file, output;
  std::int64_t first = 0;
  std::optional<std::int64_t> count;
  bool overwrite = false;
};

/// That this thread took of the processor, which what else runs on the machine does not add to.
double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The whole file, unpacked where it is gzip.
std::string read_text(const std::string& path) {
  constexpr std::size_t least_read = std::size_t{1} << 20U;
  InputFile file(path);
  std::string text;
  while (true) {
    const std::size_t size = text.size();
    const std::size_t wanted = file.compressed() ? std::max(size, least_read) : file.largest_size();
    text.resize(size + wanted);
    const std::size_t got = file.read(reinterpret_cast<std::byte*>(text.data()) + size, wanted);
    text.resize(size + got);
    if (got < wanted || !file.compressed()) return text;
  }
}

ExitCode train_on_files(const TokenizerTrainArguments& arguments) {
  refuse_existing(arguments.output, arguments.overwrite);
  refuse_own_input(arguments.output, arguments.files);
  ReplacedFile file(arguments.output);
  TokenizerTraining training;
  training.vocabulary_size = arguments.vocabulary_size;
  training.expression = std::string(arguments.pattern == "gpt2" ? gpt2_expression : llama3_expression);
  training.special_tokens = arguments.special;
  TokenizerTrainer trainer(training);
  const double begin = thread_seconds();
  for (const std::string& text : arguments.files) trainer.add(read_text(text));
  const TokenizerDefinition definition = trainer.train();

  TokenizerTrainingReport report;
  report.seconds = thread_seconds() - begin;
  report.asked_size = arguments.vocabulary_size;
  report.vocabulary_size = static_cast<std::uint32_t>(definition.vocabulary.size());
  report.num_merges = definition.merges.size();
  report.num_special = definition.added_tokens.size();
  report.num_files = arguments.files.size();
  report.num_bytes = trainer.num_bytes();
  report.num_pieces = trainer.num_pieces();
  report.output = arguments.output;
  const std::string json = json_of_tokenizer(definition);
  file.write(json.data(), json.size());
  file.finish();
  if (arguments.json)
    write_exactly(stdout, tokenizer_training_json(report) + '\n');
  else
    write_text(stdout, tokenizer_training_report(report, style_for(stdout)));
  return ExitCode::done;
}

/// What reading the tokenizer, and `file`, may read.
std::vector<std::string> files_read(const std::string& tokenizer, const std::string& file) {
  return {tokenizer,
          tokenizer + "/tokenizer.json",
          tokenizer + "/vocab.json",
          tokenizer + "/merges.txt",
          std::filesystem::path(tokenizer).replace_filename("merges.txt"),
          file};
}

ExitCode encode_file(const TokenizerEncodeArguments& arguments) {
  refuse_existing(arguments.output, arguments.overwrite);
  refuse_own_input(arguments.output, files_read(arguments.tokenizer, arguments.file));
  const Tokenizer tokenizer = tokenizer_named(arguments.tokenizer);
  std::optional<TokenWriter> writer;
  if (!arguments.output.empty()) {
    const auto format = arguments.format == "llm.c" ? TokenFileFormat::llm_c : TokenFileFormat::nanogpt;
    writer.emplace(arguments.output, format, tokenizer.num_ids());
  }
  const std::string text = read_text(arguments.file);

  EncodingReport report;
  std::vector<std::uint64_t> counts(tokenizer.num_ids());
  double outside_seconds = 0;
  const double begin = thread_seconds();
  TextEncoder encoder(tokenizer);
  encoder.encode(text, arguments.has_special ? SpecialTokens::as_tokens : SpecialTokens::as_text,
                 [&](std::span<const TokenId> ids) {
                   const double pause = thread_seconds();
                   for (const TokenId id : ids) ++counts[id];
                   if (writer) writer->append(ids);
                   outside_seconds += thread_seconds() - pause;
                 });
  report.seconds = thread_seconds() - begin - outside_seconds;
  report.tokenizer = arguments.tokenizer;
  report.file = arguments.file;
  report.vocabulary_size = tokenizer.num_ids();
  report.num_bytes = text.size();
  for (const std::uint64_t count : counts) {
    report.num_tokens += count;
    report.num_distinct += count > 0 ? 1 : 0;
  }
  for (const AddedToken& token : tokenizer.definition().added_tokens)
    if (token.is_special) report.num_special += counts[token.id];
  if (writer) {
    writer->finish();
    report.output = arguments.output;
    report.format = arguments.format;
    report.bits = writer->bits();
  }
  if (arguments.json)
    write_exactly(stdout, encoding_json(report) + '\n');
  else
    write_text(stdout, encoding_report(report, style_for(stdout)));
  return ExitCode::done;
}

ExitCode decode_file(const TokenizerDecodeArguments& arguments) {
  refuse_existing(arguments.output, arguments.overwrite);
  refuse_own_input(arguments.output, files_read(arguments.tokenizer, arguments.file));
  const Tokenizer tokenizer = tokenizer_named(arguments.tokenizer);
  const TokenFile file(arguments.file);
  if (arguments.first > file.num_tokens())
    throw DataError(fmt::format("{} has {} tokens, fewer than --first {}", arguments.file,
                                format_count(file.num_tokens()), format_count(arguments.first)));
  const std::int64_t left = file.num_tokens() - arguments.first;
  const std::int64_t end = arguments.first + std::min(arguments.count.value_or(left), left);
  std::optional<ReplacedFile> output;
  if (!arguments.output.empty()) output.emplace(arguments.output);
  constexpr std::int64_t tokens_at_once = 1 << 16;
  std::vector<std::int32_t> read(tokens_at_once);
  for (std::int64_t at = arguments.first; at < end; at += tokens_at_once) {
    const std::int64_t count = std::min(tokens_at_once, end - at);
    file.read(at, count, tokenizer.num_ids(), read.data());
    const std::vector<TokenId> ids(read.begin(), read.begin() + count);
    const std::string text = tokenizer.decode(ids);
    if (output)
      output->write(text.data(), text.size());
    else if (!write_exactly(stdout, text))
      return ExitCode::done;  // nobody reads any more
  }
  if (output) output->finish();
  return ExitCode::done;
}

void add_train(CLI::App& group, Action& action) {
  auto arguments = std::make_shared<TokenizerTrainArguments>();
  CLI::App* command = group.add_subcommand("train", "Learn a byte-level BPE vocabulary from texts");
  command->add_option("FILE", arguments->files, "Texts, each a whole; any bytes, or gzip of them")
      ->type_name("")
      ->required();
  command->add_option("--vocab", arguments->vocabulary_size, "Tokens, with 256 bytes and the special ones")
      ->type_name("N")
      ->required()
      ->check(CLI::Range(std::uint32_t{256}, most_token_ids));
  command->add_option("--pattern", arguments->pattern, "Cuts texts into pieces: gpt2, llama3; gpt2 if not given")
      ->type_name("NAME")
      ->check(CLI::IsMember({"gpt2", "llama3"}));
  command->add_option("--special", arguments->special, "A special token, such as '<|endoftext|>'; any number of times")
      ->type_name("TOKEN")
      ->allow_extra_args(false);
  command->add_option("-o,--output", arguments->output, "The tokenizer.json to write")->type_name("FILE")->required();
  command->add_flag("--overwrite", arguments->overwrite, "Replace the file where it exists");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->footer(examples({"tokenizer train configs/README.md --vocab 1000 -o tokenizer.json"}));
  command->callback([arguments, &action] { action = [arguments] { return train_on_files(*arguments); }; });
}

void add_tokenizer_argument(CLI::App& command, std::string& tokenizer) {
  command
      .add_option("TOKENIZER", tokenizer,
                  "A tokenizer.json, a folder with one or with vocab.json and merges.txt, or bytes")
      ->type_name("")
      ->required();
}

void add_encode(CLI::App& group, Action& action) {
  auto arguments = std::make_shared<TokenizerEncodeArguments>();
  CLI::App* command = group.add_subcommand("encode", "Encode a text: tokens a byte, and a file of tokens");
  add_tokenizer_argument(*command, arguments->tokenizer);
  command->add_option("FILE", arguments->file, "The text; any bytes, or gzip of them")->type_name("")->required();
  command->add_option("-o,--output", arguments->output, "The file of tokens to write")->type_name("FILE");
  command
      ->add_option("--format", arguments->format,
                   "Of that file: nanogpt, 16 bits a token and no header, or llm.c; nanogpt if not given")
      ->type_name("NAME")
      ->check(CLI::IsMember({"nanogpt", "llm.c"}));
  command->add_flag("--special", arguments->has_special, "What reads like a special token is one, not text");
  command->add_flag("--overwrite", arguments->overwrite, "Replace the file where it exists");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->footer(examples(
      {"tokenizer encode bytes configs/README.md", "tokenizer encode tokenizer.json configs/README.md -o tokens.bin"}));
  command->callback([arguments, &action] { action = [arguments] { return encode_file(*arguments); }; });
}

void add_decode(CLI::App& group, Action& action) {
  auto arguments = std::make_shared<TokenizerDecodeArguments>();
  CLI::App* command = group.add_subcommand("decode", "Tell the text of a file of tokens");
  add_tokenizer_argument(*command, arguments->tokenizer);
  command->add_option("FILE", arguments->file, "The file of tokens, nanoGPT's or llm.c's")->type_name("")->required();
  command->add_option("--first", arguments->first, "The token to begin with, from 0; 0 if not given")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--count", arguments->count, "So many tokens at most; all if not given")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  command->add_option("-o,--output", arguments->output, "The file to write; stdout if not given")->type_name("FILE");
  command->add_flag("--overwrite", arguments->overwrite, "Replace the file where it exists");
  command->footer(examples({"tokenizer decode tokenizer.json tokens.bin --count 100"}));
  command->callback([arguments, &action] { action = [arguments] { return decode_file(*arguments); }; });
}

}  // namespace

void add_tokenizer_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("tokenizer", "Learn a tokenizer from texts, encode texts, decode tokens");
  command->require_subcommand(1);
  command->footer(examples({"tokenizer train configs/README.md --vocab 1000 -o tokenizer.json",
                            "tokenizer encode bytes configs/README.md"}));
  add_train(*command, action);
  add_encode(*command, action);
  add_decode(*command, action);
}

}  // namespace trainer
