#include "engine/config/fields/enum_choices.h"
#include "engine/config/fields/field_groups.h"

namespace trainer {

const EnumRule<Shard>& shard_choices() {
  static const auto all =
      choice<Shard>({{"none", Shard::none, "every rank holds the whole model"},
                     {"optimizer", Shard::optimizer, "a rank holds its part of the optimizer's state"},
                     {"gradients", Shard::gradients, "and of gradients, which are added up in the backward pass"},
                     {"parameters", Shard::parameters, "and of weights, which are gathered for each use of them"}});
  return all;
}

const EnumRule<PipelineOrder>& pipeline_order_choices() {
  static const auto all = choice<PipelineOrder>(
      {{"gpipe", PipelineOrder::gpipe, "forward of all micro-batches, then backward: the most memory"},
       {"1f1b", PipelineOrder::one_forward_one_backward,
        "a backward as soon as there is one: activations of as many micro-batches as there are stages"},
       {"interleaved", PipelineOrder::interleaved,
        "1f1b with `parallel.chunks` parts of the list of layers on each rank: less waiting, more to send"},
       {"zero_bubble", PipelineOrder::zero_bubble,
        "1f1b in which gradients of weights are computed where a stage would wait"}});
  return all;
}

namespace {

ExperimentField cut_of_stages() {
  ExperimentField result;
  result.key = "parallel.cut";
  result.rule = layer_patterns("auto");
  result.help =
      "Layers at which the stages of `parallel.pipeline` behind the first begin, by their paths; auto: where the "
      "slowest stage is as fast as it can be";
  result.set = [](Experiment& experiment, const Value& value) {
    const auto* patterns = std::get_if<std::vector<std::string>>(&value);
    experiment.parallel.cut = patterns == nullptr ? std::vector<std::string>{} : *patterns;
  };
  result.get = [](const Experiment& experiment) {
    const std::vector<std::string>& patterns = experiment.parallel.cut;
    return patterns.empty() ? Value(std::string("auto")) : Value(patterns);
  };
  return std::move(result).also_called({"split_points", "stage_boundaries", "pipeline_cuts", "split_spec"});
}

}  // namespace

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
  fields.add(
      harmless,
      of(parallel, &ParallelConfig::pipeline, "parallel.pipeline", integer(1, most_ranks),
         "Ranks among which the list of layers is cut into stages: each holds its layers alone, and micro-batches "
         "go through all of them")
          .also_called({"pipeline_parallel", "pp", "num_stages", "stages", "pipeline_model_parallel_size",
                        "pipeline_parallel_size", "pipeline_parallel_degree", "pp_size", "pp_degree"}));
  fields.add(
      harmless,
      of(parallel, &ParallelConfig::tensor, "parallel.tensor", integer(1, most_ranks),
         "Ranks among which layers are cut: attention by heads, the linear layers around it and around an activation "
         "by features, embeddings and the last layer by the vocabulary; each rank computes its part of every sample")
          .also_called({"tensor_parallel", "tp", "tensor_model_parallel_size", "tensor_parallel_size",
                        "tensor_parallel_degree", "tp_size", "tp_degree", "model_parallel", "mp", "mp_size"}));
  fields.add(harmless, of(parallel, &ParallelConfig::schedule, "parallel.schedule", pipeline_order_choices(),
                          "In which order the stages of `parallel.pipeline` take micro-batches")
                           .also_called({"pipeline_schedule", "pp_schedule", "pipeline_parallel_schedule"}));
  fields.add(harmless,
             of(parallel, &ParallelConfig::micro_batches, "parallel.micro_batches", integer(0, most_ranks),
                "Micro-batches that a rank's part of a batch is cut into, which go through `parallel.pipeline` one "
                "behind the other: more of them wait less at its ends, and compute smaller pieces; 0: 4 for each stage")
                 .also_called({"microbatches", "num_micro_batches", "num_microbatches", "n_microbatches",
                               "chunks_of_batch", "pipeline_parallel_microbatches"}));
  fields.add(harmless, of(parallel, &ParallelConfig::chunks, "parallel.chunks", integer(2, 64),
                          "With `parallel.schedule: interleaved`, parts of the list of layers that each rank has")
                           .also_called({"virtual_stages", "num_virtual_stages", "model_chunks", "num_model_chunks",
                                         "virtual_pipeline_model_parallel_size", "vpp"}));
  fields.add(harmless, cut_of_stages());
  fields.add(harmless,
             of(parallel, &ParallelConfig::shard, "parallel.shard", shard_choices(),
                "What ranks hold a part of each, instead of all of it (ZeRO 1, 2, 3): the same losses in less memory")
                 .technique(NumbersEffect::same_rounding)
                 .also_called({"zero", "zero_stage", "zero_optimization", "fsdp", "sharding", "sharding_strategy",
                               "reshard_after_forward"}));
  fields.add(
      harmless,
      of(parallel, &ParallelConfig::overlap, "parallel.overlap", boolean(),
         "Gradients are added up over ranks while the backward pass goes on, and weights of "
         "`parallel.shard: parameters` gathered before they are needed: less time, and memory for what is on its "
         "way")
          .technique(NumbersEffect::same_rounding)
          .also_called({"overlap_comm", "overlap_grad_reduce", "overlap_param_gather"}));
  fields.add(harmless,
             of(parallel, &ParallelConfig::prefetch, "parallel.prefetch", integer(1, most_prefetched),
                "With `parallel.shard: parameters`, how many gathers of weights begin ahead of the one that is needed: "
                "more of them wait less for each other, and take memory for as many more layers")
                 .technique(NumbersEffect::same_bits)
                 .also_called({"forward_prefetch", "backward_prefetch", "prefetch_distance", "prefetch_bucket_size",
                               "num_prefetched"}));
  fields.add(harmless, of(parallel, &ParallelConfig::bucket_size, "parallel.bucket_size", size_of_memory(0, "16MiB"),
                          "Gradients that are added up at a time while the backward pass goes on; 0: 4 MiB, of more "
                          "than 8 ranks 4 MiB more each time that they double, and 1 MiB where `parallel.shard` cuts "
                          "them and their memory is free behind the sum")
                           .technique(NumbersEffect::same_rounding)
                           .also_called({"bucket", "bucket_cap_mb", "reduce_bucket_size", "allgather_bucket_size"}));
  fields.add(harmless,
             of(parallel, &ParallelConfig::deterministic, "parallel.deterministic", boolean(),
                "The same losses and weights, bit for bit, on any number of ranks that divides `parallel.parts`: "
                "each batch is cut into as many parts, which are computed one by one and added up in one order")
                 .also_called({"reproducible", "bitwise", "bit_exact"}));
  fields.add(harmless,
             of(parallel, &ParallelConfig::parts, "parallel.parts", integer(1, most_ranks),
                "Parts of a batch with `parallel.deterministic`: a power of two, which the number of ranks divides")
                 .also_called({"logical_shards", "num_parts"}));
  fields.add(harmless,
             of(parallel, &ParallelConfig::sync_batchnorm, "parallel.sync_batchnorm", boolean(),
                "Batch norms in training go by the batch of all ranks, as in one process, instead of each rank's part: "
                "two small sums more for each of them")
                 .also_called({"sync_bn", "sync_batch_norm", "syncbn", "synchronized_batchnorm", "sync_norm",
                               "convert_sync_batchnorm", "use_sync_bn"}));
  fields.add(harmless, of(parallel, &ParallelConfig::ranks_per_node, "parallel.ranks_per_node", integer(0, most_ranks),
                          "Ranks on one machine, for plans: others are reached by the network, and on CPUs those of a "
                          "machine share its memory; 0: 8 GPUs, on CPUs all. A run takes them as they were started")
                           .also_called({"gpus_per_node", "ntasks_per_node", "ranks_per_machine", "gpus_per_machine",
                                         "local_world_size", "procs_per_node"}));
  fields.add(harmless, of(parallel, &ParallelConfig::timeout, "parallel.timeout", integer(1),
                          "Seconds without a word from another rank after which a run ends")
                           .also_called({"time_out", "timeout_seconds"}));
  static const auto transports =
      choice<Transport>({{"auto", Transport::automatic, "mpi where mpirun of Open MPI started the ranks, else tcp"},
                         {"tcp", Transport::tcp, "TCP, whatever started them"},
                         {"mpi", Transport::mpi, "Open MPI's library, which needs its mpirun"}});
  fields.add(harmless, of(parallel, &ParallelConfig::transport, "parallel.transport", transports,
                          "What carries bytes between ranks; those of one machine read each other's memory where the "
                          "system lets them, and sums of GPUs go through NCCL")
                           .also_called({"backend", "dist_backend", "ddp_backend"}));
}

}  // namespace trainer
