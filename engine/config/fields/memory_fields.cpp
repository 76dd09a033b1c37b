#include "engine/config/fields/field_groups.h"

#include <fmt/format.h>

namespace trainer {

void add_device_fields(Fields& fields) {
  ExperimentField type;
  type.key = "device.type";
  type.rule = device_name();
  type.help = "Where to compute: `auto` takes a CUDA device where there is one, else the CPU";
  type.set = [](Experiment& experiment, const Value& value) {
    const std::string& name = std::get<std::string>(value);
    DeviceConfig& device = experiment.device;
    device.type = name == "auto" ? DeviceType::automatic : name == "cpu" ? DeviceType::cpu : DeviceType::cuda;
    device.index = name.starts_with("cuda:") ? std::stoi(name.substr(5)) : 0;
  };
  type.get = [](const Experiment& experiment) {
    const DeviceConfig& device = experiment.device;
    if (device.type == DeviceType::automatic) return Value(std::string("auto"));
    if (device.type == DeviceType::cpu) return Value(std::string("cpu"));
    return Value(device.index == 0 ? std::string("cuda") : fmt::format("cuda:{}", device.index));
  };
  fields.push_back(std::move(type));
  fields.push_back(of(&Experiment::device, &DeviceConfig::threads, "device.threads", integer(0, 1024),
                      "CPU threads, at most 16 for each that the process may use; 0: as many as it may use")
                       .also_called({"num_threads", "workers", "num_workers"}));
  fields.push_back(of(&Experiment::device, &DeviceConfig::tf32, "device.tf32", boolean(),
                      "CUDA: let matrix products and convolutions round f32 operands to TF32, faster and less exact")
                       .also_called({"allow_tf32"}));
  fields.push_back(of(&Experiment::device, &DeviceConfig::autotune, "device.autotune", boolean(),
                      "CUDA: time the kernels that fit each convolution and product once and keep the fastest")
                       .also_called({"benchmark", "cudnn_benchmark"}));
  fields.push_back(of(&Experiment::device, &DeviceConfig::cuda_graph, "device.cuda_graph", boolean(),
                      "CUDA: replay a step that repeats itself as one launch; false shows each layer to a profiler"));
  fields.push_back(
      of(&Experiment::device, &DeviceConfig::branches, "device.branches", boolean(),
         "CUDA: in a replayed step, compute weights' gradients beside what follows where the plan's memory allows it"));
}

namespace {

ExperimentField chunked_loss() {
  ExperimentField result;
  result.key = "memory.chunked_loss";
  result.rule = integer_or("auto", 0);
  result.help =
      "Samples whose logits are held at a time by a cross_entropy behind a linear layer; 0: all of them; `auto`: few "
      "where there are many classes";
  result.set = [](Experiment& experiment, const Value& value) {
    const auto* rows = std::get_if<std::int64_t>(&value);
    experiment.memory.chunked_loss = rows == nullptr ? -1 : *rows;
  };
  result.get = [](const Experiment& experiment) {
    const std::int64_t rows = experiment.memory.chunked_loss;
    return rows < 0 ? Value(std::string("auto")) : Value(rows);
  };
  return std::move(result).also_called({"chunked_cross_entropy", "loss_chunks", "loss_chunk_size"});
}

ExperimentField offload() {
  ExperimentField result;
  result.key = "memory.offload";
  result.rule = layer_patterns("off");
  result.help =
      "Layers whose kept activations wait in page-locked host memory until the backward pass: paths, kinds, or `*` for "
      "anything";
  result.set = [](Experiment& experiment, const Value& value) {
    const auto* patterns = std::get_if<std::vector<std::string>>(&value);
    experiment.memory.offload = patterns == nullptr ? std::vector<std::string>{} : *patterns;
  };
  result.get = [](const Experiment& experiment) {
    const std::vector<std::string>& patterns = experiment.memory.offload;
    return patterns.empty() ? Value(std::string("off")) : Value(patterns);
  };
  return std::move(result).also_called({"activation_offload", "offload_activations", "cpu_offload", "save_on_cpu"});
}

}  // namespace

void add_memory_fields(Fields& fields) {
  fields.push_back(of(&Experiment::memory, &MemoryConfig::limit, "memory.limit", size_of_memory(),
                      "The most that the allocator may reserve")
                       .defaults_to("what the device has free")
                       .also_called({"max", "capacity", "size"}));
  fields.push_back(of(&Experiment::memory, &MemoryConfig::workspace_limit, "memory.workspace_limit", size_of_memory(0),
                      "The most scratch a convolution may ask for where a kernel with less serves too")
                       .defaults_to("96 MiB")
                       .also_called({"workspace", "scratch"}));
  fields.push_back(of(&Experiment::memory, &MemoryConfig::allocator, "memory.allocator",
                      choice({{"auto", "caching where the run fits in its segments, else planned"},
                              {"caching",
                               "keeps freed blocks in segments for reuse, as PyTorch's does, and where a step does not "
                               "fit in them, what it allocates gets places in one segment from then on (not with "
                               "memory.expandable_segments)"},
                              {"planned", "gives every buffer its place in one segment before the run starts"}}),
                      "How blocks are placed"));
  fields.push_back(
      of(&Experiment::memory, &MemoryConfig::expandable_segments, "memory.expandable_segments", boolean(),
         "Let segments grow in place, as PyTorch's expandable segments: less is reserved where sizes vary"));
  fields.push_back(of(&Experiment::memory, &MemoryConfig::in_place, "memory.in_place", boolean(),
                      "Let an output take over the memory of an input that nothing reads any more")
                       .also_called({"inplace"}));
  fields.push_back(of(&Experiment::memory, &MemoryConfig::recompute_cheap, "memory.recompute_cheap", boolean(),
                      "Compute norms, activations and dropout again in the backward pass where no product has to be")
                       .also_called({"recompute"}));
  fields.push_back(chunked_loss());
  fields.push_back(of(&Experiment::memory, &MemoryConfig::update, "memory.update",
                      choice({{"at_end", "after the whole backward pass", {"end", "after_backward"}},
                              {"in_backward",
                               "as soon as a gradient is complete, which is then released",
                               {"fused", "backward", "fused_backward", "optimizer_in_backward"}}}),
                      "When a parameter is updated")
                       .also_called({"optimizer_in_backward", "fused_backward", "lomo"}));
  fields.push_back(of(&Experiment::memory, &MemoryConfig::gradients, "memory.gradients",
                      choice({{"f32", "4 bytes a parameter", {"fp32", "float32", "32bit", "32"}},
                              {"16bit", "2 bytes, in the type of `train.amp`", {"fp16", "bf16", "half", "16"}}}),
                      "How gradients are stored")
                       .also_called({"gradient_type", "grad_dtype", "gradient_dtype"}));
  fields.push_back(of(&Experiment::memory, &MemoryConfig::moments, "memory.moments",
                      choice({{"f32", "4 bytes each", {"fp32", "float32", "32bit", "32"}},
                              {"8bit", "1 byte each, in blocks with a scale", {"int8", "8", "eight_bit"}}}),
                      "How the two moments of adam and adamw are stored")
                       .also_called({"optimizer_bits", "optim_bits", "moment_type", "state_dtype"}));
  fields.push_back(of(&Experiment::memory, &MemoryConfig::master_weights, "memory.master_weights", boolean(),
                      "Keep weights in f32; false keeps only bf16 ones, which updates round stochastically")
                       .also_called({"fp32_master_weights", "master_params", "keep_master_weights"}));
  fields.push_back(offload());
  fields.push_back(of(&Experiment::memory, &MemoryConfig::preflight, "memory.preflight", boolean(),
                      "Refuse to start what the plan shows not to fit"));
  fields.push_back(of(&Experiment::memory, &MemoryConfig::on_oom, "memory.on_oom",
                      choice({{"report", "end with a report of who held the memory and what would fit"},
                              {"adapt", "go on with settings that fit, with the same samples in each update"}}),
                      "What happens when memory runs out"));
}

}  // namespace trainer
