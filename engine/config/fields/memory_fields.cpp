#include "engine/config/fields/field_groups.h"

#include <fmt/format.h>

#include "engine/config/fields/enum_choices.h"

namespace trainer {
namespace {

ExperimentField device_type() {
  const auto names = numbered_choice<DeviceType>(
      {{"auto", DeviceType::automatic}, {"cpu", DeviceType::cpu}, {"cuda", DeviceType::cuda, "", {"gpu"}}});
  ExperimentField result;
  result.key = "device.type";
  result.rule = names;
  result.help = "Where to compute: `auto` takes a CUDA device where there is one, else the CPU";
  result.set = [names](Experiment& experiment, const Value& value) {
    const std::string& name = std::get<std::string>(value);
    const std::size_t colon = name.find(':');
    experiment.device.type = names.value_of(name.substr(0, colon));
    experiment.device.is_numbered = colon != std::string::npos;
    experiment.device.index = experiment.device.is_numbered ? std::stoi(name.substr(colon + 1)) : 0;
  };
  result.get = [names](const Experiment& experiment) {
    const DeviceConfig& device = experiment.device;
    const std::string& name = names.name_of(device.type);
    return Value(device.is_numbered ? fmt::format("{}:{}", name, device.index) : name);
  };
  return std::move(result).of_device();
}

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
  return std::move(result)
      .technique(NumbersEffect::same_rounding)
      .also_called({"chunked_cross_entropy", "loss_chunks", "loss_chunk_size"});
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

void add_device_fields(Fields& fields) {
  using enum ResumeEffect;
  fields.add(harmless, device_type());
  fields.add(harmless, of(&Experiment::device, &DeviceConfig::threads, "device.threads", integer(0, 1024),
                          "CPU threads, at most 16 for each that the process may use; 0: as many as it may use")
                           .of_device()
                           .also_called({"num_threads"}));
  fields.add(harmless,
             of(&Experiment::device, &DeviceConfig::tf32, "device.tf32", boolean(),
                "CUDA: let matrix products and convolutions round f32 operands to TF32, faster and less exact")
                 .of_device()
                 .also_called({"allow_tf32"}));
  fields.add(harmless, of(&Experiment::device, &DeviceConfig::autotune, "device.autotune", boolean(),
                          "CUDA: time the kernels that fit each convolution and product once and keep the fastest")
                           .of_device()
                           .also_called({"benchmark", "cudnn_benchmark"}));
  fields.add(harmless, of(&Experiment::device, &DeviceConfig::deterministic, "device.deterministic", boolean(),
                          "CUDA: compute the same bits in every run; false allows cuDNN's backward pass of attention, "
                          "which adds in no fixed order, where its scratch is within memory.workspace_limit")
                           .of_device());
  fields.add(harmless,
             of(&Experiment::device, &DeviceConfig::cuda_graph, "device.cuda_graph", boolean(),
                "CUDA: replay a step that repeats itself as one launch; false shows each layer to a profiler"));
  fields.add(
      harmless,
      of(&Experiment::device, &DeviceConfig::branches, "device.branches", boolean(),
         "CUDA: in a replayed step, compute weights' gradients beside what follows where the plan's memory allows it"));
}

const EnumRule<AllocatorKind>& allocator_choices() {
  static const auto all = choice<AllocatorKind>(
      {{"auto", AllocatorKind::automatic, "caching where the run fits in its segments, else planned"},
       {"caching", AllocatorKind::caching,
        "keeps freed blocks in segments for reuse, as PyTorch's does, and where a step does not fit in them, what it "
        "allocates gets places in one segment from then on (not with memory.expandable_segments)"},
       {"planned", AllocatorKind::planned, "gives every buffer its place in one segment before the run starts"}});
  return all;
}

void add_memory_fields(Fields& fields) {
  using enum ResumeEffect;
  fields.add(harmless, of(&Experiment::memory, &MemoryConfig::limit, "memory.limit", size_of_memory(),
                          "The most that the allocator may reserve")
                           .defaults_to("what the device has free")
                           .also_called({"max", "capacity", "size"}));
  fields.add(changes_numbers,
             of(&Experiment::memory, &MemoryConfig::workspace_limit, "memory.workspace_limit", size_of_memory(0),
                "The most scratch a convolution may ask for, or attention of 16 bits on CUDA, where a kernel with less "
                "serves too")
                 .of_device()
                 .technique(NumbersEffect::same_rounding)
                 .defaults_to("96 MiB")
                 .also_called({"workspace", "scratch"}));
  fields.add(harmless, of(&Experiment::memory, &MemoryConfig::allocator, "memory.allocator", allocator_choices(),
                          "How blocks are placed")
                           .technique(NumbersEffect::same_bits));
  fields.add(harmless,
             of(&Experiment::memory, &MemoryConfig::expandable_segments, "memory.expandable_segments", boolean(),
                "Let segments grow in place, as PyTorch's expandable segments: less is reserved where sizes vary")
                 .of_device()
                 .technique(NumbersEffect::same_bits));
  fields.add(harmless, of(&Experiment::memory, &MemoryConfig::in_place, "memory.in_place", boolean(),
                          "Let an output take over the memory of an input that nothing reads any more")
                           .also_called({"inplace"}));
  fields.add(harmless,
             of(&Experiment::memory, &MemoryConfig::recompute_cheap, "memory.recompute_cheap", boolean(),
                "Compute norms, activations and dropout again in the backward pass where no product has to be")
                 .technique(NumbersEffect::same_bits)
                 .also_called({"recompute"}));
  fields.add(changes_numbers, chunked_loss());
  fields.add(harmless,
             of(&Experiment::memory, &MemoryConfig::update, "memory.update",
                choice<UpdatePlace>(
                    {{"at_end", UpdatePlace::at_end, "after the whole backward pass", {"end", "after_backward"}},
                     {"in_backward",
                      UpdatePlace::in_backward,
                      "as soon as a gradient is complete, which is then released",
                      {"fused", "backward", "fused_backward", "optimizer_in_backward"}}}),
                "When a parameter is updated")
                 .technique(NumbersEffect::same_bits)
                 .also_called({"optimizer_in_backward", "fused_backward", "lomo"}));
  fields.add(
      changes_numbers,
      of(&Experiment::memory, &MemoryConfig::gradients, "memory.gradients",
         choice<GradientStorage>(
             {{"f32", GradientStorage::f32, "4 bytes a parameter", {"fp32", "float32", "32bit", "32"}},
              {"16bit", GradientStorage::half, "2 bytes, in the type of `train.amp`", {"fp16", "bf16", "half", "16"}}}),
         "How gradients are stored")
          .technique(NumbersEffect::other)
          .also_called({"gradient_type", "grad_dtype", "gradient_dtype"}));
  fields.add(
      changes_numbers,
      of(&Experiment::memory, &MemoryConfig::moments, "memory.moments",
         choice<MomentStorage>(
             {{"f32", MomentStorage::f32, "4 bytes each", {"fp32", "float32", "32bit", "32"}},
              {"8bit", MomentStorage::eight_bit, "1 byte each, in blocks with a scale", {"int8", "8", "eight_bit"}}}),
         "How the two moments of adam and adamw are stored")
          .technique(NumbersEffect::other)
          .also_called({"optimizer_bits", "optim_bits", "moment_type", "state_dtype"}));
  fields.add(changes_numbers, of(&Experiment::memory, &MemoryConfig::master_weights, "memory.master_weights", boolean(),
                                 "Keep weights in f32; false keeps only bf16 ones, which updates round stochastically")
                                  .technique(NumbersEffect::other)
                                  .also_called({"fp32_master_weights", "master_params", "keep_master_weights"}));
  fields.add(harmless, offload());
  fields.add(harmless, of(&Experiment::memory, &MemoryConfig::preflight, "memory.preflight", boolean(),
                          "Refuse to start what the plan shows not to fit"));
  fields.add(
      harmless,
      of(&Experiment::memory, &MemoryConfig::on_oom, "memory.on_oom",
         choice<OnOutOfMemory>(
             {{"report", OnOutOfMemory::report, "end with a report of who held the memory and what would fit"},
              {"adapt", OnOutOfMemory::adapt, "go on with settings that fit, with the same samples in each update"}}),
         "What happens when memory runs out"));
}

}  // namespace trainer
