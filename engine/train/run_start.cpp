#include "engine/train/run_start.h"

#include <fmt/format.h>

#include <filesystem>

#include "engine/config/fields/model_numbers.h"
#include "engine/config/load_experiment.h"
#include "engine/train/config_drift.h"
#include "engine/train/resumed_state.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

bool is_inside(const std::string& path, const std::string& folder) {
  std::error_code ignored;
  const fs::path relative =
      fs::weakly_canonical(path, ignored).lexically_relative(fs::weakly_canonical(folder, ignored));
  return !relative.empty() && *relative.begin() != "..";
}

/// What goes on from an older checkpoint of its folder takes the place of those behind it.
void check_may_go_back(const Checkpoint& checkpoint, const RunDirectory& directory) {
  std::vector<std::string> later;
  for (const std::int64_t step : directory.checkpoint_steps())
    if (step > checkpoint.state.step) later.push_back(directory.checkpoint_path(step));
  if (later.empty()) return;
  throw DataError(
      fmt::format("{} is not the newest checkpoint of its run: going on from it would remove {}; --overwrite does so, "
                  "output=FOLDER goes on elsewhere and removes nothing",
                  checkpoint.path, fmt::join(later, ", ")));
}

/// Where both are known.
bool differ(const std::optional<std::uint32_t>& saved, const std::optional<std::uint32_t>& now) {
  return saved && now && *saved != *now;
}

}  // namespace

RunStart choose_start(const RunDirectory& directory, const std::string& config_path, const TrainingOptions& options,
                      Communicator* readers) {
  RunStart start;
  if (!options.resume_from.empty()) {
    std::error_code ignored;
    const RunDirectory other(options.resume_from);
    const bool is_run = !fs::exists(options.resume_from + "/state.json", ignored) && !other.checkpoint_steps().empty();
    start.checkpoint = is_run ? other.newest(options.accept_previous) : read_checkpoint(options.resume_from);
    start.continues_own = is_inside(start.checkpoint->path, directory.path());
    if (start.continues_own && !is_run && !options.overwrite) check_may_go_back(*start.checkpoint, directory);
  } else if (options.resume) {
    start.checkpoint = directory.newest(options.accept_previous, readers);
    start.continues_own = true;
  }
  if (start.continues_own) return start;
  std::error_code ignored;
  if (fs::equivalent(config_path, fmt::format("{}/{}", directory.path(), config_file), ignored)) {
    throw DataError(
        fmt::format("the run would replace its own configuration {}; output=FOLDER writes elsewhere", config_path));
  }
  directory.check_files();
  if (!directory.holds_run()) return start;
  if (!options.overwrite) {
    throw DataError(fmt::format("{} already holds a run; {}--overwrite replaces it, output=FOLDER writes elsewhere",
                                directory.path(),
                                directory.checkpoint_steps().empty() ? "" : "--resume continues it, "));
  }
  start.replaces_run = true;
  return start;
}

RunSurroundings surroundings_of(const LoadedData& data, const Device& device) {
  return {data.train->content_crc32(), data.validation ? data.validation->content_crc32() : std::nullopt,
          fmt::format("{} ({})", device.kind(), device.name())};
}

std::vector<std::string> resumption_warnings(const Checkpoint& checkpoint, const Experiment& experiment,
                                             const RunSurroundings& surroundings) {
  std::vector<std::string> warnings;
  const TrainingState& saved = checkpoint.state;
  if (differ(saved.validation_crc32, surroundings.validation_crc32)) {
    warnings.emplace_back(
        "the validation data is not what it was when the checkpoint was made: the best checkpoint and early stopping "
        "compare evaluations of both");
  }
  if (!saved.device.empty() && saved.device != surroundings.device) {
    warnings.push_back(
        fmt::format("the checkpoint was made on {}, this run is on {}: sums are rounded in another order, so its "
                    "numbers are not bit for bit those of a run that was never interrupted",
                    saved.device, surroundings.device));
  }
  const SharingDrift sharing = find_sharing_drift(checkpoint.config_json, resolved_json(experiment));
  if (sharing.text.empty()) return warnings;
  const bool norms = sharing.norms_see_others && has_batch_norm(experiment.layers);
  const bool mixing = sharing.cuts_otherwise && !experiment.data.batch_transforms.empty();
  warnings.push_back(fmt::format(
      "{}: sums are rounded in another order{}{}, so the run's numbers are not bit for bit those of one that was never "
      "interrupted",
      sharing.text, norms ? ", batch norms see other parts of a batch" : "",
      mixing ? ", samples are mixed within other parts" : ""));
  return warnings;
}

RunExperiment resumed_experiment(const Checkpoint& checkpoint, const Experiment& asked, const LoadedData& data,
                                 const RunSurroundings& surroundings) {
  if (checkpoint.state.num_samples != data.train->size()) {
    throw DataError(fmt::format("checkpoint {} was made with {} training samples, the data now has {}", checkpoint.path,
                                checkpoint.state.num_samples, data.train->size()));
  }
  if (differ(checkpoint.state.train_crc32, surroundings.train_crc32)) {
    throw DataError(
        fmt::format("checkpoint {} was made with other training data: as many samples, but their content has changed "
                    "(CRC-32 {:08x}, now {:08x})\n"
                    "To train on from its weights alone: --weights {} output=FOLDER",
                    checkpoint.path, *checkpoint.state.train_crc32, *surroundings.train_crc32, checkpoint.path));
  }
  Experiment given = asked;
  if (given.train.batch_size.is_automatic()) {
    // What `auto` stood for when the run began, whatever would fit now.
    if (const std::optional<std::int64_t> batch_size = saved_batch_size(checkpoint.given_config())) {
      given.train.batch_size = *batch_size;
    }
  }
  const std::string given_json = resolved_json(given);
  if (find_config_drift(checkpoint.config_json, given_json).empty()) return {given, given, {}};
  const std::vector<std::string> drift = find_config_drift(checkpoint.given_config(), given_json);
  if (!drift.empty()) {
    throw DataError(
        fmt::format("checkpoint {} was made with another configuration; what would change its result: {}\n"
                    "To train on from its weights alone: --weights {} output=FOLDER",
                    checkpoint.path, fmt::join(drift, ", "), checkpoint.path));
  }
  return {given, adapted_experiment(checkpoint, given, data.description), checkpoint.state.adapted};
}

}  // namespace trainer
