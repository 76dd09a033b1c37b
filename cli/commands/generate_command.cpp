#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/bounded_spin.h"
#include "cli/commands/commands.h"
#include "cli/commands/experiment_arguments.h"
#include "cli/device_factory.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/terminal.h"
#include "datasets/input_file.h"
#include "datasets/text/text_stream.h"
#include "datasets/tokens/tokenized_text.h"
#include "engine/bytes.h"
#include "engine/config/text/json_output.h"
#include "engine/findings/find_text_plan.h"
#include "engine/philox.h"
#include "engine/program/generation.h"
#include "engine/report/memory/memory_json.h"
#include "engine/report/plan/text_plan_report.h"
#include "engine/report/text/step_time_text.h"
#include "engine/train/files/exported_model.h"
#include "engine/train/files/intact_weights.h"
#include "engine/train/files/run_directory.h"
#include "engine/train/files/trained_model.h"
#include "engine/train/text_model.h"
#include "engine/train/token_choice.h"

namespace trainer {
namespace {

using Clock = std::chrono::steady_clock;

struct GenerateArguments {
  ExperimentArguments experiment;
  std::string weights, tokenizer;
  std::optional<std::string> prompt, prompt_file;
  std::vector<std::int64_t> prompt_tokens;
  std::vector<std::string> stops;
  std::optional<std::int64_t> num_tokens;
  TokenChoice choice;
  std::optional<std::uint64_t> seed;
  std::int64_t num_samples = 1;
  bool has_special = false, json = false, quiet = false;
};

constexpr std::int64_t usual_num_tokens = 200;

/// The experiment with the weights that it is to write with, from a run's or an exported model's folder, or a
/// configuration.
Experiment load_for_texts(GenerateArguments& arguments) {
  std::error_code ignored;
  if (is_exported_model(arguments.experiment.config_path)) {
    TrainedModel model = read_trained_model(arguments.experiment.config_path, arguments.experiment.overrides);
    model.experiment.weights.file = arguments.weights.empty() ? model.weights_file : arguments.weights;
    return std::move(model.experiment);
  }
  std::string weights = arguments.weights;
  std::string& path = arguments.experiment.config_path;
  const bool is_run = std::filesystem::is_directory(path, ignored);
  if (is_run) {
    if (!RunDirectory(path).holds_run())
      throw DataError(
          fmt::format("{} is not the folder of a run: it has no {}; give a run's folder, or a configuration with "
                      "--weights",
                      path, config_file));
    if (weights.empty()) weights = path;
    path += fmt::format("/{}", config_file);
  }
  Experiment experiment = arguments.experiment.load();
  if (is_run) experiment.weights = {};  // what it began with is not what it learned
  if (!weights.empty()) experiment.weights.file = weights;
  if (experiment.weights.file.empty())
    throw ConfigError(fmt::format(
        "{} names no weights to write with: give a run's folder in its place, or --weights with a safetensors file, or "
        "the folder of a checkpoint or a run",
        path));
  return experiment;
}

/// What makes tokens of the prompt and a text of tokens; none where both are numbers.
std::optional<Tokenizer> tokenizer_for(const GenerateArguments& arguments, const Experiment& experiment) {
  if (!arguments.tokenizer.empty()) return tokenizer_named(arguments.tokenizer);
  if (experiment.data.type == DataType::text) return tokenizer_named(tokenizer_name(experiment.data));
  if (!arguments.prompt_tokens.empty()) return std::nullopt;
  throw ConfigError(
      "the configuration names no tokenizer: give --tokenizer with a tokenizer.json, the folder of one, or bytes; or "
      "the prompt as --prompt-tokens");
}

std::string read_prompt_file(const std::string& path) {
  InputFile file(path);
  constexpr std::size_t most_bytes = std::size_t{64} << 20U;
  std::string text(most_bytes + 1, '\0');
  text.resize(file.read(reinterpret_cast<std::byte*>(text.data()), text.size()));
  if (text.size() > most_bytes)
    throw DataError(fmt::format("{}: a prompt has at most {}", path, format_bytes(most_bytes)));
  return text;
}

std::vector<TokenId> prompt_of(const GenerateArguments& arguments, const std::optional<Tokenizer>& tokenizer) {
  if (!arguments.prompt_tokens.empty()) {
    std::vector<TokenId> ids;
    for (const std::int64_t id : arguments.prompt_tokens) ids.push_back(static_cast<TokenId>(id));
    return ids;
  }
  const std::string text = arguments.prompt_file ? read_prompt_file(*arguments.prompt_file) : *arguments.prompt;
  if (text.empty()) throw ConfigError("the prompt is empty, and a text begins with a token: --prompt $'\\n', say");
  return tokenizer->encode(text, arguments.has_special ? SpecialTokens::as_tokens : SpecialTokens::as_text);
}

/// New tokens: as many as asked for, or as usual where the model has places for them.
std::int64_t num_new_tokens(const GenerateArguments& arguments, std::int64_t num_prompt, std::int64_t longest) {
  if (arguments.num_tokens) return *arguments.num_tokens;
  return longest > num_prompt ? std::min(usual_num_tokens, longest - num_prompt) : usual_num_tokens;
}

/// Writes texts to stdout as they come.
class TextPrinter {
 public:
  TextPrinter(const GenerateArguments& arguments, const std::optional<Tokenizer>& tokenizer,
              std::span<const TokenId> prompt)
      : arguments_(arguments), tokenizer_(tokenizer), prompt_(prompt), stream_(arguments.stops) {}

  void begin(std::int64_t sample) {
    stream_ = TextStream(arguments_.stops);
    sample_ = sample;
    if (arguments_.json) return;
    if (sample > 0) print("\n---\n");
    if (tokenizer_)
      print(tokenizer_->decode(prompt_));
    else
      print(fmt::format("{}", fmt::join(prompt_, " ")));
    std::fflush(stdout);
  }

  /// False where the text ends.
  bool add(TokenId token) {
    std::string text;
    if (tokenizer_) text = stream_.add(tokenizer_->token_bytes(token));
    if (arguments_.json)
      print_json({{"event", "token"}, {"sample", sample_}, {"token", token}, {"text", json_of(text)}});
    else
      print(tokenizer_ ? text : fmt::format(" {}", token));
    std::fflush(stdout);
    return !stream_.has_ended();
  }

  void end() {
    const std::string text = stream_.finish();
    if (arguments_.json) {
      if (!text.empty())
        print_json({{"event", "token"}, {"sample", sample_}, {"token", nullptr}, {"text", json_of(text)}});
      return;
    }
    print(text + '\n');
    std::fflush(stdout);
  }

 private:
  nlohmann::ordered_json json_of(const std::string& text) const {
    return tokenizer_ ? nlohmann::ordered_json(text) : nlohmann::ordered_json(nullptr);
  }
  static void print_json(const nlohmann::ordered_json& json) { write_exactly(stdout, json_text(json) + '\n'); }
  static void print(const std::string& text) {
    if (is_terminal(stdout))
      write_text(stdout, text);
    else
      write_exactly(stdout, text);
  }

  const GenerateArguments& arguments_;
  const std::optional<Tokenizer>& tokenizer_;
  std::span<const TokenId> prompt_;
  TextStream stream_;
  std::int64_t sample_ = 0;
};

struct WrittenTexts {
  std::int64_t num_tokens = 0;
  double prompt_seconds = 0, seconds = 0;  ///< of the prompt, and of the tokens behind it
};

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

WrittenTexts write_texts(TextModel& model, const GenerateArguments& arguments, std::uint64_t seed,
                         std::span<const TokenId> prompt, std::int64_t num_tokens, std::int64_t num_ids,
                         TextPrinter& printer) {
  WrittenTexts written;
  TokenChooser chooser(arguments.choice);
  for (std::int64_t sample = 0; sample < arguments.num_samples; ++sample) {
    printer.begin(sample);
    const PhiloxStream numbers{seed, static_cast<std::uint32_t>(sample), 0};
    std::span<const float> logits;
    const Clock::time_point begin = Clock::now();
    if (sample == 0) {
      logits = model.append(prompt);
    } else {  // all of the prompt but its last token is there
      model.cut(static_cast<std::int64_t>(prompt.size()) - 1);
      logits = model.append(prompt.last(1));
    }
    written.prompt_seconds += since(begin);
    const Clock::time_point first = Clock::now();
    for (std::int64_t i = 0; i < num_tokens; ++i) {
      const TokenId token = chooser.choose(logits.first(static_cast<std::size_t>(num_ids)),
                                           numbers.uniform(static_cast<std::uint64_t>(i)));
      ++written.num_tokens;
      if (!printer.add(token) || i + 1 == num_tokens) break;
      logits = model.append({&token, 1});
    }
    written.seconds += since(first);
    printer.end();
  }
  return written;
}

void tell_end(const GenerateArguments& arguments, const TextPlanFindings& findings, const StepMemory& memory,
              std::int64_t num_prompt, const WrittenTexts& written) {
  const double rate = written.seconds > 0 ? static_cast<double>(written.num_tokens) / written.seconds : 0;
  if (arguments.json) {
    write_exactly(stdout, json_text({{"event", "text"},
                                     {"prompt_tokens", num_prompt},
                                     {"tokens", written.num_tokens},
                                     {"samples", arguments.num_samples},
                                     {"prompt_seconds", written.prompt_seconds},
                                     {"seconds", written.seconds},
                                     {"tokens_per_second", rate},
                                     {"parameter_bytes", findings.parameter_bytes},
                                     {"cache_bytes", findings.cache_bytes},
                                     {"memory", step_memory_of(memory)}}) +
                              '\n');
    return;
  }
  if (arguments.quiet) return;
  const std::string text = fmt::format(
      "{} of prompt in {}, {} more in {}: {} tokens/s. Parameters {}, keys and values {}, reserved {} of {}.",
      format_number_of(num_prompt, "token"), step_time_text(written.prompt_seconds), format_count(written.num_tokens),
      step_time_text(written.seconds), samples_per_second_text(rate), format_bytes(findings.parameter_bytes),
      format_bytes(findings.cache_bytes), format_bytes(memory.peak_reserved),
      format_bytes(findings.capacity.num_bytes));
  const Style style = style_for(stderr);
  write_text(stderr, '\n' + paint(style, Ink::dim, wrap(text, static_cast<std::size_t>(style.width))) + '\n');
}

void require_vocabulary(const std::optional<Tokenizer>& tokenizer, std::span<const TokenId> prompt,
                        std::int64_t vocabulary) {
  if (tokenizer && static_cast<std::int64_t>(tokenizer->num_ids()) > vocabulary)
    throw ConfigError(fmt::format("the tokenizer has {} tokens, and the model predicts one of {}: it is not its own",
                                  tokenizer->num_ids(), vocabulary));
  for (const TokenId token : prompt)
    if (token >= vocabulary)
      throw ConfigError(fmt::format("the prompt's token {} is none of the model's {}", token, vocabulary));
}

ExitCode generate(GenerateArguments arguments) {
  bound_spinning();
  const Experiment experiment = load_for_texts(arguments);
  // Before the device, which measures what the process holds.
  const std::optional<Tokenizer> tokenizer = tokenizer_for(arguments, experiment);
  if (!tokenizer && !arguments.stops.empty())
    throw ConfigError("--stop is a text, and there is no tokenizer: give --tokenizer");
  const std::vector<TokenId> prompt = prompt_of(arguments, tokenizer);
  const auto num_prompt = static_cast<std::int64_t>(prompt.size());
  const std::int64_t num_tokens = num_new_tokens(arguments, num_prompt, longest_text(experiment));
  const WeightFiles files = intact_weights(experiment.weights.file);

  const std::unique_ptr<Device> device = make_device(experiment);
  const Capacity capacity = capacity_of(experiment, data_of_texts(), *device);
  TextPlanRequest request{.experiment = experiment,
                          .config_path = arguments.experiment.config_path,
                          .overrides = arguments.experiment.overrides,
                          .length = num_prompt + num_tokens,
                          .gpu = {},
                          .capacity = {},
                          .finds_longest = false};
  const Program program = compile_generation(experiment, request.length, *device);
  const std::int64_t vocabulary = program.buffers[program.generation->logits()].type.shape[-1];
  require_vocabulary(tokenizer, prompt, vocabulary);
  const WeightsMatch match = match_weights(experiment.weights, files, program);
  require_match(match);
  if (match.count(WeightsStatus::fresh) > 0)
    throw ConfigError("weights.new leaves parameters without a value to write with: a text takes all of them");

  const TextPlanFindings findings = find_text_plan(request, *device, capacity);
  if (!findings.plan.fits) {
    write_text(arguments.json ? stderr : stdout, text_plan_report(findings, style_for(stdout)));
    return ExitCode::out_of_memory;
  }
  TextModel model(program, experiment, *device, capacity.num_bytes);
  model.load(match, files);
  TextPrinter printer(arguments, tokenizer, prompt);
  const std::int64_t num_ids = tokenizer ? static_cast<std::int64_t>(tokenizer->num_ids()) : vocabulary;
  const WrittenTexts written =
      write_texts(model, arguments, arguments.seed.value_or(experiment.seed), prompt, num_tokens, num_ids, printer);
  tell_end(arguments, findings, highest_of(model.executor().memory(), model.executor().run_peak()), num_prompt,
           written);
  return ExitCode::done;
}

}  // namespace

void add_generate_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = app.add_subcommand("generate", "Write a text with a model of tokens");
  command->add_option("RUN", arguments->experiment.config_path, "The folder of a run, or a configuration with weights")
      ->required()
      ->type_name("");
  command->add_option("key=value", arguments->experiment.overrides, "Replaces a value of the configuration")
      ->type_name("...");
  CLI::Option* prompt =
      command->add_option("--prompt", arguments->prompt, "What the text begins with")->type_name("TEXT");
  CLI::Option* prompt_file =
      command->add_option("--prompt-file", arguments->prompt_file, "The same, in a file")->type_name("FILE");
  CLI::Option* prompt_tokens =
      command->add_option("--prompt-tokens", arguments->prompt_tokens, "The same as numbers of tokens: 464,3139")
          ->type_name("N,N")
          ->delimiter(',')
          ->check(CLI::Range(std::int64_t{0}, std::int64_t{most_token_ids} - 1));
  command
      ->add_option("--tokens", arguments->num_tokens,
                   fmt::format("New tokens at most; {}, or what there is room for", usual_num_tokens))
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, most_tried_length));
  command
      ->add_option("--temperature", arguments->choice.temperature,
                   "Divides logits; 0: the likeliest token; 1 if not given")
      ->type_name("T")
      ->check(CLI::Range(0.0, 1e6));
  command->add_option("--top-k", arguments->choice.top_k, "Draw from the K likeliest tokens alone")
      ->type_name("K")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{most_token_ids}));
  command->add_option("--top-p", arguments->choice.top_p, "Draw from the likeliest that together reach P alone")
      ->type_name("P")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--seed", arguments->seed, "Of what is drawn; the configuration's if not given")->type_name("N");
  command->add_option("--samples", arguments->num_samples, "Texts, one after the other")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  command->add_option("--stop", arguments->stops, "End in front of this text; any number of times")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->check([](const std::string& text) { return text.empty() ? "a stop is not empty" : std::string(); });
  command->add_option("--weights", arguments->weights, "A safetensors file, or a checkpoint's or run's folder")
      ->type_name("PATH");
  command->add_option("--tokenizer", arguments->tokenizer, "A tokenizer.json, its folder, or bytes")->type_name("PATH");
  command->add_flag("--special", arguments->has_special, "Special tokens in the prompt are such, not text");
  command->add_flag("--json", arguments->json, "Print tokens, then the end, as JSON Lines");
  command->add_flag("-q,--quiet", arguments->quiet, "Print the text alone");
  command->footer("Exits with 3 where it does not fit; 'plan CONFIG --generate N' tells beforehand.\n\n" +
                  examples({"generate runs/shakespeare-gpt --prompt ROMEO: --temperature 0.8",
                            "generate runs/shakespeare-gpt --prompt ROMEO: --top-k 20 --seed 7"}));
  command->callback([arguments, prompts = std::array{prompt, prompt_file, prompt_tokens}, &action] {
    if (std::count_if(prompts.begin(), prompts.end(), [](const CLI::Option* each) { return each->count() > 0; }) != 1)
      throw CLI::ValidationError("one of --prompt, --prompt-file and --prompt-tokens is what a text begins with");
    action = [arguments] { return generate(*arguments); };
  });
}

}  // namespace trainer
