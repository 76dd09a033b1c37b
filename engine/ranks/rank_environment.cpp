#include "engine/ranks/rank_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "engine/config/experiment.h"
#include "engine/errors.h"

namespace trainer {
namespace {

/// The names of one starter's variables; the job's number, and its step's, tell runs on one machine apart.
struct RankVariables {
  const char* starter;
  const char *rank, *size, *num_local, *local_rank, *job, *step = "";
};
constexpr const char* slurm_tasks = "SLURM_STEP_TASKS_PER_NODE";
constexpr std::array all_rank_variables = {
    RankVariables{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                  "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"},
    RankVariables{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", slurm_tasks, "SLURM_LOCALID", "SLURM_JOB_ID",
                  "SLURM_STEP_ID"},
    RankVariables{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT"}};

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

std::int64_t number_of(const char* name, std::int64_t least, std::int64_t most) {
  const std::string_view text = variable(name);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most)
    throw ConfigError(fmt::format("the variable {} is '{}', expected a number from {} to {}", name, text, least, most));
  return number;
}

std::int64_t number_or(const char* name, std::int64_t usual, std::int64_t least, std::int64_t most) {
  return variable(name).empty() ? usual : number_of(name, least, most);
}

/// "gpu[03-04],gpu7" begins with gpu03, "a,b" with a.
std::string first_of_nodes(std::string_view list) {
  const std::size_t end = list.find_first_of("[,");
  std::string first(list.substr(0, end));
  if (end == std::string_view::npos || list[end] == ',') return first;
  const std::string_view within = list.substr(end + 1);
  return first + std::string(within.substr(0, within.find_first_of("-,]")));
}

/// Of this machine, the SLURM_NODEID-th, in "4(x2),3".
std::int64_t slurm_tasks_here(std::int64_t num_ranks) {
  std::string_view list = variable(slurm_tasks);
  for (std::int64_t left = number_or("SLURM_NODEID", 0, 0, most_ranks); !list.empty();) {
    const std::string_view entry = list.substr(0, list.find(','));
    list.remove_prefix(std::min(entry.size() + 1, list.size()));
    const std::size_t times = entry.find("(x");
    std::int64_t num_tasks = 0, num_machines = 1;
    std::from_chars(entry.data(), entry.data() + std::min(times, entry.size()), num_tasks);
    if (times != std::string_view::npos)
      std::from_chars(entry.data() + times + 2, entry.data() + entry.size(), num_machines);
    if (num_tasks < 1 || num_tasks > num_ranks) break;
    if (left < num_machines) return num_tasks;
    left -= num_machines;
  }
  throw ConfigError(fmt::format("the variable {} is '{}', expected the ranks on each machine, like 4(x2),3",
                                slurm_tasks, variable(slurm_tasks)));
}

/// One that others on this machine hardly use, the same for all ranks of the job.
int port_of_job(const std::string& job) {
  constexpr std::uint32_t first = 20'000, count = 12'000;  // below those that systems hand out
  std::uint32_t hash = 2166136261U;
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return static_cast<int>(first + hash % count);
}

void find_rendezvous(const RankVariables& variables, RankEnvironment& environment) {
  const bool is_slurms = variables.num_local == slurm_tasks;
  if (const std::string_view address = variable("MASTER_ADDR"); !address.empty()) {
    environment.address = address;
    environment.is_address_given = true;
  } else if (environment.num_local < environment.size) {
    environment.address = first_of_nodes(is_slurms ? variable("SLURM_STEP_NODELIST") : std::string_view());
  }
  constexpr int most_port = 65535;
  const bool is_taken = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (!variable("MASTER_PORT").empty()) environment.port = static_cast<int>(number_of("MASTER_PORT", 1, most_port));
  if (environment.port == 0 || is_taken)
    environment.port = port_of_job(fmt::format("{} {}", variable(variables.job), variable(variables.step)));
}

}  // namespace

std::optional<RankEnvironment> rank_environment() {
  for (const RankVariables& variables : all_rank_variables) {
    if (variable(variables.rank).empty() || variable(variables.size).empty()) continue;
    RankEnvironment environment;
    environment.starter = variables.starter;
    environment.size = static_cast<int>(number_of(variables.size, 1, most_ranks));
    environment.rank = static_cast<int>(number_of(variables.rank, 0, environment.size - 1));
    if (environment.size == 1) continue;
    if (variables.num_local != slurm_tasks || variable(slurm_tasks).empty())
      environment.num_local = static_cast<int>(number_or(variables.num_local, environment.size, 1, environment.size));
    else
      environment.num_local = static_cast<int>(slurm_tasks_here(environment.size));
    environment.local_rank = static_cast<int>(
        number_or(variables.local_rank, environment.rank % environment.num_local, 0, environment.num_local - 1));
    find_rendezvous(variables, environment);
    // What only looks like it has no one to ask who the others are.
    environment.has_mpi = &variables == all_rank_variables.data() && !variable("PMIX_NAMESPACE").empty();
    return environment;
  }
  return std::nullopt;
}

}  // namespace trainer
