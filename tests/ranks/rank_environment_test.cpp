#include "engine/ranks/rank_environment.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "engine/errors.h"
#include "engine/ranks/reach_ranks.h"

using namespace trainer;
using Catch::Contains;

namespace {

/// Variables of this process while it lives; none of a starter of ranks beside them.
class SetVariables {
 public:
  explicit SetVariables(std::vector<std::pair<std::string, std::string>> variables) : variables_(std::move(variables)) {
    for (const char* each : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) unsetenv(each);
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~SetVariables() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }
  SetVariables(const SetVariables&) = delete;
  SetVariables& operator=(const SetVariables&) = delete;

 private:
  std::vector<std::pair<std::string, std::string>> variables_;
};

std::string problem_of_environment() {
  try {
    rank_environment();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("srun's variables tell the ranks of a machine, and where rank 0 is") {
  std::vector<std::pair<std::string, std::string>> variables = {
      {"SLURM_PROCID", "5"},  {"SLURM_STEP_NUM_TASKS", "9"},
      {"SLURM_LOCALID", "1"}, {"SLURM_NODEID", "2"},
      {"SLURM_JOB_ID", "71"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x2),4,1"},
      {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", "gpu[03-05],big"}};
  int port = 0;
  {
    const SetVariables set(variables);
    const std::optional<RankEnvironment> environment = rank_environment();
    REQUIRE(environment);
    CHECK(environment->rank == 5);
    CHECK(environment->size == 9);
    CHECK(environment->num_local == 4);
    CHECK(environment->local_rank == 1);
    CHECK(environment->address == "gpu03");
    port = environment->port;
  }
  variables[6].second = "1";  // another step of the job
  const SetVariables set(variables);
  CHECK(rank_environment()->port != port);
}

TEST_CASE("srun on one machine needs no name of it") {
  const SetVariables set({{"SLURM_PROCID", "1"},
                          {"SLURM_STEP_NUM_TASKS", "2"},
                          {"SLURM_STEP_TASKS_PER_NODE", "2"},
                          {"SLURM_STEP_NODELIST", "node7"}});
  CHECK(rank_environment()->address == "127.0.0.1");
  CHECK(rank_environment()->num_local == 2);
}

TEST_CASE("which of a machine's ranks one is follows from its rank where nothing says so") {
  std::vector<std::pair<std::string, std::string>> variables = {
      {"RANK", "7"}, {"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "4"}, {"MASTER_ADDR", "node1"}};
  {
    const SetVariables set(variables);
    CHECK(rank_environment()->local_rank == 3);
  }
  variables.emplace_back("LOCAL_RANK", "0");
  const SetVariables set(variables);
  CHECK(rank_environment()->local_rank == 0);
}

TEST_CASE("a batch script of Slurm's is no rank") {
  const SetVariables set({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "71"}});
  CHECK_FALSE(rank_environment());
}

TEST_CASE("a port at which torchrun waits itself is not taken") {
  std::vector<std::pair<std::string, std::string>> variables = {
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};
  {
    const SetVariables set(variables);
    CHECK(rank_environment()->port == 29500);
  }
  variables.emplace_back("TORCHELASTIC_USE_AGENT_STORE", "True");
  const SetVariables set(variables);
  CHECK(rank_environment()->port != 29500);
  CHECK(rank_environment()->address == "node1");
}

TEST_CASE("variables that are no such numbers are told") {
  {
    const SetVariables set({{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "4"}, {"LOCAL_RANK", "4"}});
    CHECK(problem_of_environment() == "the variable LOCAL_RANK is '4', expected a number from 0 to 3");
  }
  {
    const SetVariables set({{"RANK", "x"}, {"WORLD_SIZE", "2"}});
    CHECK(problem_of_environment() == "the variable RANK is 'x', expected a number from 0 to 1");
  }
  {
    const SetVariables set(
        {{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "two"}});
    CHECK_THAT(problem_of_environment(), Contains("SLURM_STEP_TASKS_PER_NODE is 'two'"));
  }
}

TEST_CASE("mpirun's ranks on several machines find rank 0 by MPI, or are told to say where it is") {
  std::vector<std::pair<std::string, std::string>> variables = {
      {"OMPI_COMM_WORLD_RANK", "1"},
      {"OMPI_COMM_WORLD_SIZE", "4"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
      {"SLURM_STEP_NODELIST", "node2"}};  // of what started mpirun's own processes
  {
    const SetVariables set(variables);
    const RankEnvironment environment = rank_environment().value();
    CHECK(environment.address.empty());
    CHECK_FALSE(environment.has_mpi);
    CHECK(carrier_between(environment, Transport::automatic) == Carrier::tcp);
    CHECK_THROWS_WITH(reach_ranks(environment, {}),
                      Contains("mpirun started 4 ranks on several machines: set MASTER_ADDR"));
    CHECK_THROWS_WITH(carrier_between(environment, Transport::mpi),
                      Contains("`mpirun -np 4 trainer run`, and these are started by mpirun; or"));
  }
  variables.emplace_back("PMIX_NAMESPACE", "job1");
  {
    const SetVariables set(variables);
    CHECK(rank_environment()->has_mpi);
    CHECK(carrier_between(*rank_environment(), Transport::tcp) == Carrier::tcp);
  }
  variables.emplace_back("MASTER_ADDR", "node1");
  const SetVariables set(variables);
  CHECK(rank_environment()->address == "node1");
  CHECK(rank_environment()->is_address_given);
}
