#include "engine/config/fields/field_groups.h"

namespace trainer {

void add_parallel_fields(Fields& fields) {
  using enum ResumeEffect;
  constexpr auto parallel = &Experiment::parallel;
  fields.add(
      harmless,
      of(parallel, &ParallelConfig::data, "parallel.data", integer(1, most_ranks),
         "Processes that train together, each on its part of every batch: `run --ranks N` starts them, as mpirun, "
         "srun and torchrun do; they add up their gradients before each update")
          .also_called({"data_parallel", "ranks", "world_size", "num_gpus", "gpus", "devices", "ddp", "num_processes",
                        "nproc_per_node", "replicas"}));
  fields.add(harmless, of(parallel, &ParallelConfig::timeout, "parallel.timeout", integer(1),
                          "Seconds without a word from another rank after which a run ends")
                           .also_called({"time_out", "timeout_seconds"}));
}

}  // namespace trainer
