#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/commands/experiment_arguments.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/terminal.h"
#include "engine/config/config_reference.h"
#include "engine/config/load_experiment.h"
#include "engine/config/text/nearest_word.h"
#include "engine/errors.h"
#include "engine/report/text/glossary.h"

namespace trainer {
namespace {

struct ConfigArguments {
  ExperimentArguments experiment;
  bool json = false;
  std::string key;
};

/// A key or value of configurations, or a word of the reports; of what is both, both.
std::string explain(const std::string& word) {
  const ReportWord* const entry = find_report_word(word);
  std::string meaning =
      entry == nullptr ? "" : fmt::format("{} (a word of plans and reports)\n  {}.\n", entry->word, entry->meaning);
  try {
    return explain_key(word) + (meaning.empty() ? "" : '\n' + meaning);
  } catch (const ConfigError& error) {
    if (entry == nullptr) {
      const std::string message = error.what();
      const std::vector<std::string> known = report_words();
      const std::string_view near = nearest(word, known);
      if (near.empty()) throw;
      // Of a key and a word of the reports the nearer one is meant.
      constexpr std::string_view prefix = "error: ", asked = "\n  did you mean '";
      const std::size_t begin = message.starts_with(prefix) ? prefix.size() : 0, question = message.find(asked);
      if (question != std::string::npos) {
        const std::size_t named = question + asked.size();
        const std::vector<std::string> both = {message.substr(named, message.find('\'', named) - named),
                                               std::string(near)};
        if (nearest(word, both) == both.front()) throw;
      }
      throw ConfigError(
          fmt::format("{}{}{}'?", std::string_view(message).substr(0, question).substr(begin), asked, near));
    }
    return meaning;
  }
}

}  // namespace

void add_config_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<ConfigArguments>();
  CLI::App* command = app.add_subcommand("config", "Show, explain or describe configurations");
  command->require_subcommand(1);
  command->footer(examples({"config show configs/quickstart.yaml", "config explain train.batch_size"}));

  CLI::App* show = command->add_subcommand("show", "Print a configuration with every default and reference filled in");
  arguments->experiment.add_to(*show);
  show->add_flag("--json", arguments->json, "Print JSON instead of YAML");
  show->footer(examples({"config show configs/quickstart.yaml optimizer.lr=0.01"}));
  show->callback([arguments, &action] {
    action = [arguments] {
      const Experiment experiment = arguments->experiment.load();
      const std::string text = arguments->json ? resolved_json(experiment, 2) : resolved_yaml(experiment);
      write_exactly(stdout, text + (text.empty() || text.back() != '\n' ? "\n" : ""));
      return ExitCode::done;
    };
  });

  CLI::App* explained = command->add_subcommand("explain", "Explain a key, a section, a layer, a value or a word");
  explained
      ->add_option("WORD", arguments->key,
                   "train.batch_size, train, conv2d, conv2d.kernel, one_cycle, reserved; all sections without")
      ->type_name("");
  explained->footer(examples({"config explain optimizer.lr", "config explain one_cycle"}));
  explained->callback([arguments, &action] {
    action = [arguments] {
      write_text(stdout, wrap_lines(explain(arguments->key), static_cast<std::size_t>(style_for(stdout).width)));
      return ExitCode::done;
    };
  });

  CLI::App* schema = command->add_subcommand("schema", "Print the JSON Schema, for completion in editors");
  schema->footer(examples({"config schema > trainer.schema.json"}));
  schema->callback([&action] {
    action = [] {
      write_exactly(stdout, config_json_schema());
      return ExitCode::done;
    };
  });

  CLI::App* reference = command->add_subcommand("reference", "Print every key and layer, in Markdown");
  reference->footer(examples({"config reference | less"}));
  reference->callback([&action] {
    action = [] {
      write_exactly(stdout, config_reference_markdown());
      return ExitCode::done;
    };
  });
}

}  // namespace trainer
