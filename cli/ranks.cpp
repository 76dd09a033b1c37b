#include "cli/ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/config/stages.h"
#include "engine/ranks/reach_ranks.h"
#include "engine/train/agreement.h"

namespace trainer {
namespace {

/// "train.batch_size" of two resolved configurations, but what each machine may have its own of.
std::vector<std::string> different_keys(const std::string& first, const std::string& own) {
  std::vector<std::string> keys;
  for (const nlohmann::json& change : nlohmann::json::diff(nlohmann::json::parse(first), nlohmann::json::parse(own))) {
    std::string key = change.at("path").get<std::string>().substr(1);
    std::replace(key.begin(), key.end(), '/', '.');
    if (!key.starts_with("device") && key != "memory.limit") keys.push_back(std::move(key));
  }
  return keys;
}

[[noreturn]] void refuse_number(const ParallelConfig& parallel, const RankEnvironment& environment) {
  const std::int64_t of_each = parallel.pipeline * parallel.tensor;
  const std::string configured =
      of_each == 1 ? fmt::format("parallel.data is {}", parallel.data)
                   : fmt::format("parallel.data, pipeline and tensor make {} ranks", total_ranks(parallel));
  const std::string change =
      environment.size % of_each == 0
          ? fmt::format("give parallel.data={} behind the configuration, or ", environment.size / of_each)
          : "";
  throw ConfigError(fmt::format("{}, and {} has started {} ranks; {}start as many", configured, environment.starter,
                                environment.size, change));
}

std::string name_of_kind(const std::string& kind) { return kind == "cpu" ? "the CPU" : "a GPU"; }

}  // namespace

Ranks::Ranks(const Experiment& experiment, std::int64_t asked) : environment_(rank_environment()) {
  const std::int64_t configured = total_ranks(experiment.parallel);
  if (environment_) {
    num_ranks_ = environment_->size;
    if (asked > 0 && asked != num_ranks_)
      throw ConfigError(fmt::format("--ranks is {}, and {} has started {}", asked, environment_->starter, num_ranks_));
    if (configured != num_ranks_) refuse_number(experiment.parallel, *environment_);
    return;
  }
  num_ranks_ = static_cast<int>(configured);
  const std::int64_t num_data = experiment.parallel.data;
  if (const std::int64_t batch_size = experiment.train.batch_size.number().value_or(num_data); batch_size < num_data)
    throw ConfigError(fmt::format("{} ranks share a batch, and train.batch_size is {}", num_data, batch_size));
  if (num_ranks_ > 1)
    carrier_between({.size = num_ranks_, .starter = "trainer run --ranks"}, experiment.parallel.transport);
}

void Ranks::prepare(Experiment& experiment) const {
  if (!environment_) return;
  ParallelConfig own;
  own.rank = environment_->rank;
  own.num_local = environment_->num_local;
  own.local_rank = environment_->local_rank;
  set_rank(experiment, own);
}

void Ranks::meet(const Experiment& experiment) {
  if (!environment_) return;
  communicator_ = reach_ranks(*environment_, experiment.parallel);
  const std::string version = text_of_rank(*communicator_, 0, TRAINER_VERSION);
  if (version != TRAINER_VERSION)
    throw ConfigError(fmt::format("rank 0 runs trainer {}, and rank {} trainer {}", version, rank(), TRAINER_VERSION));
  const std::string own = resolved_json(experiment);
  const std::string first = text_of_rank(*communicator_, 0, own);
  if (const std::vector<std::string> keys = different_keys(first, own); !keys.empty())
    throw ConfigError(fmt::format("rank {} runs another configuration than rank 0: {}", rank(), fmt::join(keys, ", ")));
}

bool Ranks::tell_end(ExitCode code, const std::string& reason) {
  return communicator_ && communicator_->tell_end(code, reason) && !leads();
}

void Ranks::leave() {
  if (communicator_) communicator_->leave();
}

void Ranks::leave_failed() {
  if (!communicator_) return;
  static std::unique_ptr<RankCommunicator> until_end;
  until_end = std::move(communicator_);
  if (!leads()) until_end->wait_for_end_of_first();
}

bool Ranks::runs_out_behind_another() {
  if (leads()) return false;
  communicator_->tell_end(ExitCode::out_of_memory, "ran out of memory");
  return communicator_->ends_before(ExitCode::out_of_memory);
}

void Ranks::reach(Device& device) {
  if (!communicator_) return;
  const std::string first = text_of_rank(*communicator_, 0, device.kind());
  if (first != device.kind())
    throw ConfigError(fmt::format("rank 0 trains on {}, and rank {} on {}: give all of them one device.type",
                                  name_of_kind(first), rank(), name_of_kind(device.kind())));
  device.set_communicator(*communicator_);
}

}  // namespace trainer
