#include "engine/ranks/rank_environment.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "engine/config/experiment.h"
#include "engine/errors.h"

namespace trainer {
namespace {

/// The names of one starter's variables; the job's number tells runs on one machine apart.
struct RankVariables {
  const char* starter;
  const char *rank, *size, *local_rank, *num_local, *job;
};
constexpr std::array all_rank_variables = {
    RankVariables{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                  "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_MCA_ess_base_jobid"},
    RankVariables{"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE", "SLURM_JOB_ID"},
    RankVariables{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT"}};

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

/// One that others on this machine hardly use, the same for all ranks of the job.
int port_of_job(std::string_view job) {
  constexpr std::uint32_t first = 20'000, count = 12'000;  // below those that systems hand out
  std::uint32_t hash = 2166136261U;
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return static_cast<int>(first + hash % count);
}

void find_rendezvous(const RankVariables& variables, RankEnvironment& environment) {
  if (const std::string_view address = variable("MASTER_ADDR"); !address.empty()) {
    environment.address = address;
  } else if (const std::string_view nodes = variable("SLURM_STEP_NODELIST"); !nodes.empty()) {
    environment.address = first_of_nodes(nodes);
  } else if (environment.num_local < environment.size) {
    throw ConfigError(
        fmt::format("{} started {} ranks on several machines: set MASTER_ADDR to the name of the one with rank 0",
                    environment.starter, environment.size));
  }
  constexpr int most_port = 65535;
  environment.port = variable("MASTER_PORT").empty() ? port_of_job(variable(variables.job))
                                                     : static_cast<int>(number_of("MASTER_PORT", 1, most_port));
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
    environment.local_rank =
        static_cast<int>(number_or(variables.local_rank, environment.rank, 0, environment.size - 1));
    environment.num_local = static_cast<int>(number_or(variables.num_local, environment.size, 1, environment.size));
    find_rendezvous(variables, environment);
    return environment;
  }
  return std::nullopt;
}

}  // namespace trainer
