#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trainer {

/// Which rank this process is and where rank 0 waits for it, as what started it says.
struct RankEnvironment {
  int rank = 0, size = 1;
  int num_local = 1;                  ///< of them, on this machine
  int local_rank = 0;                 ///< which of these it is
  std::string address = "127.0.0.1";  ///< of rank 0; empty: not known
  bool is_address_given = false;      ///< by MASTER_ADDR
  int port = 0;                       ///< of rank 0
  bool has_mpi = false;               ///< whether the starter is mpirun of Open MPI, in fact
  std::string starter;                ///< "mpirun", "srun", "torchrun", "trainer run --ranks"
};

/// Of the variables that mpirun (OMPI_COMM_WORLD_RANK, …_SIZE, …_LOCAL_SIZE, …_LOCAL_RANK), srun (SLURM_PROCID,
/// SLURM_STEP_NUM_TASKS, SLURM_STEP_TASKS_PER_NODE, SLURM_LOCALID) and torchrun (RANK, WORLD_SIZE, LOCAL_WORLD_SIZE,
/// LOCAL_RANK) set, in this order, where they speak of several ranks. Rank 0 is found at MASTER_ADDR and MASTER_PORT;
/// without them at this machine, or at the first of SLURM_STEP_NODELIST, and at a port that the number of the job
/// decides; of mpirun on several machines the address is not known. Nothing where none of them is set. ConfigError for
/// values that are no such numbers. What Slurm sets for a batch script, which srun has not started, speaks of no ranks.
/// torchrun itself waits at the MASTER_PORT that it sets (TORCHELASTIC_USE_AGENT_STORE): that decides the port as the
/// number of a job does.
std::optional<RankEnvironment> rank_environment();

}  // namespace trainer
