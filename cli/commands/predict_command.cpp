#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "cli/bounded_spin.h"
#include "cli/commands/batch_option.h"
#include "cli/commands/commands.h"
#include "cli/commands/output_file.h"
#include "cli/commands/predict_arguments.h"
#include "cli/device_factory.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/terminal.h"
#include "datasets/dataset_description.h"
#include "datasets/image/png_writer.h"
#include "datasets/prediction/input_batches.h"
#include "datasets/prediction/sample_inputs.h"
#include "datasets/prediction/table_inputs.h"
#include "datasets/prediction/text_inputs.h"
#include "datasets/tokens/tokenized_text.h"
#include "engine/bytes.h"
#include "engine/config/text/json_output.h"
#include "engine/device/processor.h"
#include "engine/findings/find_prediction_plan.h"
#include "engine/program/prediction.h"
#include "engine/report/memory/memory_json.h"
#include "engine/report/memory/out_of_memory_report.h"
#include "engine/report/plan/prediction_plan_report.h"
#include "engine/report/prediction/prediction_rows.h"
#include "engine/report/text/step_time_text.h"
#include "engine/train/files/durable_file.h"
#include "engine/train/files/replaced_file.h"
#include "engine/train/files/trained_model.h"
#include "engine/train/prediction_model.h"
#include "engine/train/prediction_run.h"

namespace trainer {
namespace {

void sort_words(PredictArguments& arguments, const std::vector<std::string>& words) {
  for (const std::string& word : words) (is_override(word) ? arguments.overrides : arguments.inputs).push_back(word);
  if (arguments.inputs.empty())
    throw ConfigError(
        "nothing to predict from: name images, tables, arrays, texts or folders of them, or - for paths on stdin");
}

/// A line of stdin.
bool next_line(std::string& line) {
  line.clear();
  int c = 0;
  while ((c = std::getc(stdin)) != EOF) {
    if (c == '\n') return true;
    line += static_cast<char>(c);
  }
  return !line.empty();
}

bool is_called_table(std::string_view path) {
  if (path.ends_with(".gz")) path.remove_suffix(3);
  return path.ends_with(".csv") || path.ends_with(".tsv") || path.ends_with(".txt");
}

/// What makes tokens of texts; null where the model's data has none.
std::shared_ptr<const Tokenizer> tokenizer_of(const TrainedModel& model) {
  const DataConfig& config = model.experiment.data;
  if (config.type != DataType::text) return nullptr;
  return std::make_shared<const Tokenizer>(tokenizer_named(tokenizer_name(config)));
}

std::unique_ptr<InputStream> inputs_of(const PredictArguments& arguments, const TrainedModel& model,
                                       std::shared_ptr<const Tokenizer> tokenizer) {
  const DataConfig& config = model.experiment.data;
  const TensorType& sample = model.data.inputs.front().type;
  if (holds_tokens(config)) {
    InputPaths paths(arguments.inputs, tokenizer ? is_called_text : is_called_tokens, next_line);
    return text_inputs(std::move(paths), std::move(tokenizer), model.data.inputs.front(), arguments.lines);
  }
  if (sample.dtype == DType::i32)
    throw ConfigError(
        fmt::format("{} was trained on arrays of indices, and predict takes images, tables, arrays of "
                    "numbers, and texts for models of data.type text and tokens",
                    model.path));
  if (config.type == DataType::csv) {
    InputPaths paths(arguments.inputs, is_called_table, next_line);
    return table_inputs(std::move(paths), config, model.preprocessing, sample.shape.num_elements());
  }
  std::optional<PreparedImage> prepared;
  if (sample.dtype == DType::u8) prepared = prepared_image_of(model.experiment, sample.shape);
  const bool takes_images = prepared.has_value();
  InputPaths paths(
      arguments.inputs,
      [takes_images](std::string_view path) {
        return is_called_array(path) || (takes_images && is_called_image(path));
      },
      next_line);
  return sample_inputs(std::move(paths), config, sample, std::move(prepared));
}

/// A PNG file a mask, each called as its image but for the ending.
class MaskFiles {
 public:
  MaskFiles(std::string folder, Pair size, bool overwrite)
      : folder_(std::move(folder)), size_(size), overwrite_(overwrite) {}

  /// The file; throws DataError where it cannot be written, or would take the place of another.
  std::string write(const PredictionInput& input, std::span<const std::uint8_t> mask) {
    const std::filesystem::path path = (std::filesystem::path(folder_) / input.below).replace_extension(".png");
    std::string file = path.string();
    if (!written_.insert(file).second)
      throw DataError(fmt::format("{}: its mask would take the place of another's, '{}'", input.name, file));
    refuse_existing(file, overwrite_);
    make_directories_durably(path.parent_path().string());
    Image image;
    image.reshape(size_[0], size_[1], 1);
    std::copy(mask.begin(), mask.end(), image.pixels().begin());
    const std::string png = png_of(image);
    ReplacedFile replaced(file);
    replaced.write(png.data(), png.size());
    replaced.finish();
    return file;
  }

 private:
  std::string folder_;
  Pair size_;
  bool overwrite_;
  std::unordered_set<std::string> written_;
};

/// Rows on stdout, or in a file that is there once it is whole.
class PredictionWriter final : public PredictionSink {
 public:
  PredictionWriter(const PredictArguments& arguments, const PredictionOutputs& outputs)
      : arguments_(arguments), outputs_(outputs) {
    if (!arguments.output.empty()) file_.emplace(arguments.output);
    if (outputs.kind == PredictedKind::class_map)
      masks_.emplace(arguments.masks, outputs.map_size, arguments.overwrite);
    if (!arguments.json) write(prediction_csv_header(outputs, arguments.rows));
  }

  bool take(const PredictedInput& predicted) override {
    if (!predicted.input.error.empty() || !masks_) {
      row(predicted, "");
      return predicted.input.error.empty();
    }
    std::string mask;
    try {
      mask = masks_->write(predicted.input, predicted.mask);
    } catch (const DataError& error) {
      PredictionInput bad;
      bad.name = predicted.input.name;
      bad.error = error.what();
      row({.input = bad}, "");
      return false;
    }
    row(predicted, mask);
    return true;
  }

  void finish() {
    if (file_) file_->finish();
  }
  void write(const std::string& text) {
    if (file_)
      file_->write(text.data(), text.size());
    else if (is_terminal(stdout) && !arguments_.json)
      write_text(stdout, text);
    else
      write_exactly(stdout, text);
  }

 private:
  void row(const PredictedInput& predicted, const std::string& mask) {
    write(arguments_.json ? prediction_json_row(outputs_, arguments_.rows, predicted, mask)
                          : prediction_csv_row(outputs_, arguments_.rows, predicted, mask));
  }

  const PredictArguments& arguments_;
  const PredictionOutputs& outputs_;
  std::optional<ReplacedFile> file_;
  std::optional<MaskFiles> masks_;
};

void check_lines(const PredictArguments& arguments, const DataConfig& data) {
  if (!arguments.lines || data.type == DataType::text) return;
  throw ConfigError(holds_tokens(data) ? "files of tokens have no lines: each is one text"
                                       : "lines are of texts, and the model takes something else");
}

void tell(const PredictArguments& arguments, const std::string& text) {
  if (arguments.quiet) return;
  const Style style = style_for(stderr);
  write_text(stderr, paint(style, Ink::dim, wrap(text, static_cast<std::size_t>(style.width))) + '\n');
}

void tell_totals(const PredictArguments& arguments, const PredictionTotals& totals, const StepMemory& memory,
                 const PredictionPlanFindings& findings, PredictionWriter& writer) {
  const auto rate_of = [&](std::int64_t count) {
    return totals.seconds > 0 ? static_cast<double>(count) / totals.seconds : 0;
  };
  const double rate = rate_of(totals.num_inputs);
  const bool are_texts = findings.window_length > 0;
  if (arguments.json) {
    nlohmann::ordered_json event{{"event", "predictions"}, {"inputs", totals.num_inputs}, {"errors", totals.num_bad}};
    if (are_texts) event["tokens"] = totals.num_tokens;
    event["batch_size"] = findings.batch_size;
    event["seconds"] = totals.seconds;
    event["data_seconds"] = totals.data_seconds;
    event["inputs_per_second"] = rate;
    event["parameter_bytes"] = findings.parameter_bytes;
    event["memory"] = step_memory_of(memory);
    writer.write(json_text(event) + '\n');
  }
  const std::string counted = format_number_of(totals.num_inputs, are_texts ? "text" : "input") +
                              (are_texts ? fmt::format(" of {}", format_number_of(totals.num_tokens, "token")) : "");
  const std::string speed =
      are_texts ? samples_per_second_text(rate_of(totals.num_tokens)) + " tokens" : samples_per_second_text(rate);
  tell(arguments,
       fmt::format("{} in {}{}: {}/s, waiting for data {}. Reserved {}.", counted, step_time_text(totals.seconds),
                   totals.num_bad > 0 ? fmt::format(", {} with an error", format_count(totals.num_bad)) : "", speed,
                   step_time_text(totals.data_seconds), format_bytes(memory.peak_reserved)));
}

ExitCode tell_no_room(const PredictionPlanFindings& findings) {
  write_text(stderr, prediction_plan_report(findings, style_for(stderr)));
  return ExitCode::out_of_memory;
}

ExitCode predict_all(const PredictArguments& arguments, const TrainedModel& model, Device& device,
                     const PredictionPlanRequest& request, const PredictionPlanFindings& findings, InputStream& stream,
                     const Tokenizer* tokenizer) {
  const Program program =
      compile_prediction(model.experiment, model.data, findings.batch_size, findings.odd_batch_size, device);
  PredictionOutputs outputs =
      describe_outputs(model.experiment, model.preprocessing, program.prediction->batches.front().type);
  if (tokenizer != nullptr) outputs.names = shown_tokens(*tokenizer);
  check_options(arguments, model.experiment.data, outputs);
  const WeightFiles files(model.weights_file);
  const WeightsMatch match = match_weights(model.experiment.weights, files, program);
  require_match(match);
  tell(arguments, prediction_plan_line(findings));

  PredictionModel predicting(program, model.experiment, device, findings.capacity.num_bytes);
  predicting.load(match, files);
  PredictionWriter writer(arguments, outputs);
  InputBatches batches(stream, model.data.inputs.front().type,
                       {.batch_size = findings.batch_size,
                        .num_buffers = static_cast<std::size_t>(num_staged_batches(device)),
                        .num_workers = static_cast<int>(request.data.num_readers),
                        .make_memory = [&](std::int64_t num_bytes) { return device.make_host_memory(num_bytes); }});
  const int threads = model.experiment.device.threads;
  const PredictionTotals totals =
      predict_inputs(predicting.predictor(), batches, outputs, writer, threads > 0 ? threads : usable_threads());
  tell_totals(arguments, totals, highest_of(predicting.executor().memory(), predicting.executor().run_peak()), findings,
              writer);
  for (const std::string& remark : stream.remarks()) tell(arguments, remark);
  writer.finish();
  return totals.num_bad > 0 ? ExitCode::data : ExitCode::done;
}

}  // namespace

void check_options(const PredictArguments& arguments, const DataConfig& data, const PredictionOutputs& outputs) {
  check_lines(arguments, data);
  if (outputs.kind == PredictedKind::class_map && arguments.masks.empty())
    throw ConfigError(
        "the model predicts a class for each pixel: --masks FOLDER (in a stage predict.masks) is where its masks go");
  if (outputs.kind != PredictedKind::class_map && !arguments.masks.empty())
    throw ConfigError("masks are for a class of each pixel, and the model predicts something else");
  const bool chooses = outputs.kind == PredictedKind::classes || outputs.kind == PredictedKind::next_token;
  if (!chooses && arguments.rows.top > 0)
    throw ConfigError(
        "the top ones are of classes, of which one is true, or of next tokens, and the model predicts something else");
}

ExitCode predict(const PredictArguments& arguments, Device* here) {
  refuse_existing(arguments.output, arguments.overwrite);
  refuse_own_input(arguments.output, arguments.inputs);
  const TrainedModel model = read_trained_model(arguments.model, arguments.overrides);
  check_lines(arguments, model.experiment.data);
  const std::shared_ptr<const Tokenizer> tokenizer = tokenizer_of(model);
  const std::unique_ptr<InputStream> stream = inputs_of(arguments, model, tokenizer);
  std::unique_ptr<Device> made;
  if (here == nullptr) made = make_device(model.experiment);
  Device* const device = here == nullptr ? made.get() : here;
  PredictionPlanRequest request;
  request.experiment = model.experiment;
  request.data = model.data;
  request.path = arguments.model;
  request.overrides = arguments.overrides;
  if (arguments.batch_size != "auto") request.batch_size = std::stoll(arguments.batch_size);
  request.num_inputs = stream->count();
  const PredictionPlanFindings findings =
      find_prediction_plan(request, *device, capacity_of(model.experiment, model.data, *device));
  if (!findings.plan.fits) return tell_no_room(findings);
  try {
    return predict_all(arguments, model, *device, request, findings, *stream, tokenizer.get());
  } catch (const ProgramOutOfMemory& error) {
    write_text(stderr, fmt::format("{}\nThe plan fits its capacity, but the device had less when it was needed.\n",
                                   out_of_memory_message(error.failure(), device->kind())));
    // What there is now.
    Capacity left = capacity_of(model.experiment, model.data, *device);
    left.num_bytes = std::min(left.num_bytes, error.failure().capacity);
    request.batch_size = findings.batch_size;
    const PredictionPlanFindings again = find_prediction_plan(request, *device, left);
    return again.plan.fits ? ExitCode::out_of_memory : tell_no_room(again);
  }
}

void add_predict_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<PredictArguments>();
  auto words = std::make_shared<std::vector<std::string>>();  // inputs and overrides, as they come
  CLI::App* command =
      app.add_subcommand("predict", "Say what a trained model makes of images, tables, arrays and texts");
  command->add_option("EXPORT", arguments->model, "What 'export --to' wrote, or the folder of a run or a checkpoint")
      ->required()
      ->type_name("");
  command->add_option("INPUT", *words, "Images, tables, arrays, texts, folders; - for paths on stdin; key=value")
      ->required()
      ->type_name("...");
  command->add_option("-o,--output", arguments->output, "Write rows there instead of stdout")->type_name("FILE");
  command->add_option("--top", arguments->rows.top, "The K likeliest classes or tokens, not all classes")
      ->type_name("K")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  command->add_flag("--lines", arguments->lines, "Of texts: each line is an input, FILE:LINE");
  command->add_option("--masks", arguments->masks, "Of classes of pixels: the folder for a PNG each")
      ->type_name("FOLDER");
  command->add_option("--batch", arguments->batch_size, "Inputs at once: N, or auto: what fits, up to 32 or 256")
      ->type_name("N")
      ->check(whole_number_or_auto(most_asked_batch));
  command->add_flag("--json", arguments->json, "Rows as JSON Lines, then the end; else CSV");
  command->add_flag("--overwrite", arguments->overwrite, "Replace FILE and masks where they exist");
  command->add_flag("-q,--quiet", arguments->quiet, "Print rows and mistakes only");
  command->footer(
      "Of a text its loss is told, the mean of -ln p of its tokens, and the likeliest\ntoken behind it; a batch is of "
      "windows of data.sequence_length tokens, of which\nfewer make short texts cheaper. An input that cannot be read "
      "is a row with its\nerror, and the exit code is then 6. Exits with 3 where it does not fit; 'plan\nEXPORT "
      "--predict N' tells beforehand.\n\n" +
      examples({"predict runs/quickstart digits/ -o rows.csv", "predict exported photo.jpg --top 5",
                "predict runs/house-prices new.csv --json device=cpu",
                "predict runs/shakespeare-gpt sentences.txt --lines --top 5"}));
  command->callback([arguments, words, &action] {
    action = [arguments, words] {
      bound_spinning();
      sort_words(*arguments, *words);
      return predict(*arguments);
    };
  });
}

}  // namespace trainer
