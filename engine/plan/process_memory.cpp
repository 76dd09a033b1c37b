#include "engine/plan/process_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "engine/bytes.h"
#include "engine/config/diagnostic.h"
#include "engine/graph/tensor_pieces.h"
#include "engine/ops/mixed_sample.h"
#include "engine/plan/target_reading.h"
#include "engine/program/offload.h"
#include "engine/program/run_schedule.h"

namespace trainer {
namespace {

/// What the libraries' code, kernels compiled at run time and threads take, once a few steps have run, beyond what the
/// process has when the device is made. Measured: 6 to 9 MiB over networks of all kinds
/// (tests/runs/process_memory_test.cpp).
constexpr std::int64_t kernel_bytes = std::int64_t{8} << 20;

/// What is read gives way to what is kept piece by piece, so the most of both is the larger of them.
std::int64_t reading_bytes(const DataDescription& data) {
  std::int64_t num_bytes = 0;
  if (__builtin_mul_overflow(data.num_held, data.reading_bytes, &num_bytes)) return std::int64_t{1} << 60;
  return num_bytes;
}

/// With the order of the samples, four bytes each.
std::int64_t staged_bytes(const Experiment& experiment, const DataDescription& data, const DeviceModel& device) {
  const std::int64_t wanted = experiment.train.batch_size.number().value_or(data.num_train);
  const std::int64_t whole = std::min(wanted, data.num_train);
  const std::int64_t asked = experiment.train.eval_batch_size;
  const BatchParts parts = parts_of(experiment.parallel);
  const auto own = [&](std::int64_t samples) { return parts.own(samples).count; };
  const std::int64_t batch = own(whole), eval_batch = own(std::min(asked > 0 ? asked : whole, data.num_validation));
  const auto order_bytes = static_cast<std::int64_t>(sizeof(std::uint32_t));
  // More than any machine holds, which the model's first layer tells of.
  constexpr std::int64_t most = std::int64_t{1} << 60;
  std::int64_t batches = 0;
  if (__builtin_mul_overflow(num_staged_batches(device) * (batch + eval_batch), data.sample_bytes(), &batches))
    batches = most;
  if (data.mixes_batches && batches < most)
    batches += num_staged_batches(device) * mixed_samples_type(batch).num_bytes();
  return std::min(batches, most) + (data.num_train + data.num_validation) * order_bytes;
}

std::int64_t times(std::int64_t count, std::int64_t num_bytes) {
  std::int64_t product = 0;
  constexpr std::int64_t most = std::int64_t{1} << 60;
  return __builtin_mul_overflow(count, num_bytes, &product) ? most : std::min(product, most);
}

/// The most of what a library takes at once: it gives it back behind each op.
std::int64_t packed_bytes(const Program& program, const DeviceModel& device) {
  std::int64_t most = 0;
  for (const OpCall& call : program.calls) most = std::max(most, device.library_bytes(call.op));
  return most;
}

bool shares_memory(const DeviceModel& device) { return device.kind() == "cpu"; }

}  // namespace

std::int64_t ProcessMemory::beside_allocator() const {
  return std::accumulate(parts.begin(), parts.end(), std::int64_t{0},
                         [](std::int64_t sum, const NamedBytes& part) { return sum + part.num_bytes; });
}

int num_readers(const Experiment& experiment, const DataDescription& data, const DeviceModel& device) {
  const std::int64_t bound = experiment.data.memory;
  const std::int64_t of_reader = data.most_reader_bytes();
  if (bound == 0 || of_reader == 0) return static_cast<int>(data.num_readers);
  const std::int64_t left = bound - data.held_bytes - data.cache_bytes - staged_bytes(experiment, data, device) -
                            times(num_target_readers(experiment, data), of_reader);
  return static_cast<int>(std::clamp<std::int64_t>(left / of_reader, 1, data.num_readers));
}

void check_input_memory(const Experiment& experiment, const DataDescription& data, const DeviceModel& device) {
  const std::int64_t bound = experiment.data.memory;
  if (bound == 0) return;
  const std::int64_t staged = staged_bytes(experiment, data, device);
  const int readers = 1 + num_target_readers(experiment, data);
  const std::int64_t of_readers = times(readers, data.most_reader_bytes());
  const std::int64_t least = data.held_bytes + data.cache_bytes + staged + of_readers;
  if (least <= bound) return;
  throw located_error(
      experiment.data.memory_location,
      fmt::format("data.memory is {}, but reading the data takes {}: dataset {}, staged batches {}, {} {}{}",
                  format_bytes(bound), format_bytes(least), format_bytes(data.held_bytes), format_bytes(staged),
                  readers == 1 ? "a thread that reads" : "a thread that reads and the targets' reader",
                  format_bytes(of_readers),
                  data.cache_bytes > 0 ? ", image cache " + format_bytes(data.cache_bytes) : ""),
      fmt::format("at least {}, {}or a smaller batch", format_bytes(least),
                  experiment.data.cache == ImageCaching::ram ? "data.cache: disk, " : ""));
}

std::int64_t largest_saved_piece(const Program& program) {
  std::int64_t largest = 0;
  const auto raise = [&](FileOrder order, const TensorType& kept) {
    largest = std::max(largest, largest_piece_bytes(kept.dtype == DType::u8 ? FileOrder::same : order, kept));
  };
  for (const Parameter& parameter : program.parameters) raise(parameter.file_order, parameter.type);
  for (std::size_t i = 0; i < program.optimizer_buffers.size(); ++i) {
    for (const BufferId buffer : {program.optimizer_buffers[i].first, program.optimizer_buffers[i].second})
      if (buffer >= 0) raise(program.parameters[i].file_order, whole_type(program.buffers[buffer]));
  }
  if (program.loss_scale >= 0) raise(FileOrder::same, program.buffers[program.loss_scale].type);
  return largest;
}

std::int64_t checkpoint_writing_bytes(const Experiment& experiment, const Program& program) {
  return (experiment.checkpoint.sharded && has_parts(program) ? 2 : 1) * largest_saved_piece(program);
}

namespace {

/// Parameters and the optimizer's state.
std::int64_t handed_bytes(const Program& program) {
  std::int64_t num_bytes = 0;
  for (const Instruction& instruction : program.load.instructions) {
    const Buffer& buffer = program.buffers[instruction.index];
    if (buffer.category == Category::parameter || buffer.category == Category::optimizer_state)
      num_bytes += whole_type(buffer).num_bytes();
  }
  return num_bytes;
}

}  // namespace

ProcessMemory process_memory(const Experiment& experiment, const Program& program, const DataDescription& data,
                             const DeviceModel& device) {
  ProcessMemory memory;
  memory.includes_allocator = shares_memory(device);
  const auto add = [&](std::string name, std::int64_t num_bytes) {
    if (num_bytes > 0) memory.parts.push_back({std::move(name), num_bytes});
  };
  std::int64_t outside_bytes = 0;
  if (memory.includes_allocator) {
    memory.parts = device.outside_allocator();
    outside_bytes = memory.beside_allocator();
    add("kernels (estimated)", kernel_bytes);
  }
  add("dataset", data.held_bytes);
  memory.peak_while_reading = outside_bytes + reading_bytes(data);
  add(experiment.data.cache == ImageCaching::ram ? "image cache" : "index of the image cache", data.cache_bytes);
  add("staged batches", staged_bytes(experiment, data, device));
  const int readers = num_readers(experiment, data, device);
  const std::string reduced =
      readers < data.num_readers ? fmt::format(", {} of {} workers", readers, data.num_readers) : std::string();
  const int all_readers = readers + num_target_readers(experiment, data);
  add("image readers" + reduced + (data.estimates_readers ? " (estimated)" : ""),
      times(all_readers, data.reader_bytes));
  add("libwebp in image readers (estimated)", times(all_readers, data.reader_library_bytes));
  add("offloaded activations", offload_bytes(program));
  add("packed operands in oneDNN (estimated)", packed_bytes(program, device));
  // The last evaluation's, which events share, and the one that is read.
  if (program.metric_counts >= 0)
    add("confusion matrices", 2 * program.buffers[program.metric_counts].type.num_bytes());
  add("checkpoint writing", checkpoint_writing_bytes(experiment, program));
  // Where the allocator's memory is the host's they are there when activations are not, which are more.
  if (!experiment.stage.empty() && !memory.includes_allocator) add("tensors between stages", handed_bytes(program));
  return memory;
}

ProcessMemory text_process_memory(const Program& program, const DeviceModel& device) {
  ProcessMemory memory;
  memory.includes_allocator = shares_memory(device);
  const auto add = [&](std::string name, std::int64_t num_bytes) {
    if (num_bytes > 0) memory.parts.push_back({std::move(name), num_bytes});
  };
  if (memory.includes_allocator) {
    memory.parts = device.outside_allocator();
    add("kernels (estimated)", kernel_bytes);
  }
  add("packed operands in oneDNN (estimated)", packed_bytes(program, device));
  // As they come, in f32, and, where a token is drawn, with their numbers and weights.
  constexpr std::int64_t bytes_of_logit = 4 + 8 + 8;
  const TensorType& logits = program.buffers[program.generation->logits()].type;
  add("logits", logits.num_bytes() + bytes_of_logit * logits.num_elements());
  add("weights reading", largest_saved_piece(program));
  return memory;
}

ProcessMemory prediction_process_memory(const Program& program, const DataDescription& data,
                                        const DeviceModel& device) {
  ProcessMemory memory;
  memory.includes_allocator = shares_memory(device);
  const auto add = [&](std::string name, std::int64_t num_bytes) {
    if (num_bytes > 0) memory.parts.push_back({std::move(name), num_bytes});
  };
  if (memory.includes_allocator) {
    memory.parts = device.outside_allocator();
    add("kernels (estimated)", kernel_bytes);
  }
  const PredictionRoutines::Batch& batch = program.prediction->batches.front();
  std::int64_t of_input = 0;
  for (const InputDescription& input : data.inputs) of_input += input.type.num_bytes();
  add("staged batches", num_staged_batches(device) * batch.batch_size * of_input);
  add("input readers (estimated)", times(data.num_readers, data.most_reader_bytes()));
  add("packed operands in oneDNN (estimated)", packed_bytes(program, device));
  // As they come, where that is not in f32, and in f32.
  const auto wide = static_cast<std::int64_t>(sizeof(float));
  add("predictions", batch.type.num_elements() * wide + (batch.type.dtype == DType::f32 ? 0 : batch.type.num_bytes()));
  add("weights reading", largest_saved_piece(program));
  return memory;
}

std::int64_t host_reserve(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                          bool dataset_is_loaded) {
  if (!shares_memory(device)) return 0;
  Experiment counted = experiment;
  if (counted.train.batch_size.is_automatic()) counted.train.batch_size = 1;
  const ParallelConfig& parallel = experiment.parallel;
  const bool have_parts =
      parallel.pipeline > 1 || parallel.tensor > 1 || (parallel.data > 1 && parallel.shard != Shard::none);
  const bool gives_pieces = experiment.checkpoint.sharded && have_parts;
  return kernel_bytes + staged_bytes(counted, data, device) +
         times(num_readers(counted, data, device) + num_target_readers(counted, data), data.most_reader_bytes()) +
         data.cache_bytes + (gives_pieces ? 2 : 1) * most_piece_bytes + (dataset_is_loaded ? 0 : data.held_bytes);
}

}  // namespace trainer
