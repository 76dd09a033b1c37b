// Note [Orders in files] in engine/train/files/saved_tensors.h.

#include "engine/train/files/saved_tensors.h"

#include <cmath>
#include <cstring>
#include <random>

#include "engine/half.h"
#include "engine/ops/moment_codes.h"
#include "engine/ops/optimizer_update.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/make_allocator.h"
#include "engine/program/compile.h"
#include "engine/train/files/checkpoint.h"
#include "engine/train/files/weights_loading.h"
#include "engine/train/fresh_state.h"
#include "engine/train/parameter_init.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

namespace {

const std::string older_checkpoints = std::string(TRAINER_SOURCE_DIR) + "/tests/older_checkpoints";

/// Windows of two sides, of one pixel and of one channel each.
constexpr const char* convolutions = R"(
name: convolutions
seed: 5
data: {type: synthetic, shape: [7, 6, 4], classes: 3, samples: 12}
model:
  layers:
    - conv2d: {out: 14, kernel: [3, 2]}
    - conv2d: {out: 10, kernel: 3, padding: 1, groups: 2}
    - conv2d: {out: 6, kernel: 1}
    - conv2d: {out: 6, kernel: 3, padding: 1, groups: 6}
    - flatten
    - linear: {out: 3}
optimizer: {type: adamw, lr: 0.01}
train: {batch_size: 4, steps: 3}
)";

/// A program's tensors on the CPU, as training begins.
struct LoadedProgram {
  Experiment experiment;
  std::unique_ptr<Device> device = make_cpu_device(1);
  Program program;
  std::unique_ptr<MemorySource> source;
  std::unique_ptr<Allocator> allocator;
  std::optional<Executor> executor;

  explicit LoadedProgram(std::vector<std::string> overrides) {
    experiment = parse_experiment(convolutions, "test.yaml", overrides);
    program = compile(experiment, describe_data(experiment.data, experiment.seed), *device);
    source = device->make_memory_source(std::int64_t{1} << 30);
    allocator = make_allocator(program, *source, allocator_options(experiment));
    executor.emplace(program, *device, *allocator);
    load_fresh_state(*executor, experiment);
  }
  ~LoadedProgram() { executor->release_all(); }
  LoadedProgram(const LoadedProgram&) = delete;
  LoadedProgram& operator=(const LoadedProgram&) = delete;

  std::vector<std::byte> on_device(BufferId buffer) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(program.buffers[buffer].type.num_bytes()));
    executor->read(buffer, bytes.data());
    return bytes;
  }
  std::string save(const OutputFolder& folder) {
    PieceMemory memory(largest_saved_piece(program));
    return save_checkpoint(folder.path("saved"), {}, experiment, "test", saved_tensors_of(*executor), memory).path;
  }
};

struct FileTensor {
  Shape shape;
  std::vector<std::byte> bytes;
};

FileTensor read_tensor(const std::string& path, const std::string& name) {
  const SafetensorsFile file(path);
  INFO(name);
  const std::ptrdiff_t position = file.find(name);
  REQUIRE(position >= 0);
  const TensorType& type = file.tensors()[static_cast<std::size_t>(position)].type;
  FileTensor tensor{type.shape, std::vector<std::byte>(static_cast<std::size_t>(type.num_bytes()))};
  file.read(static_cast<std::size_t>(position), tensor.bytes.data());
  return tensor;
}

/// By position in (K, kh, kw, C) that in (K, C, kh, kw); one to one for what has not four axes.
std::vector<std::size_t> file_positions(const Shape& kept) {
  std::vector<std::size_t> positions;
  const bool is_window = kept.rank() == 4;
  for (std::int64_t at = 0; at < kept.num_elements(); ++at) {
    if (!is_window) {
      positions.push_back(static_cast<std::size_t>(at));
      continue;
    }
    const std::int64_t c = at % kept[3], j = at / kept[3] % kept[2], i = at / kept[3] / kept[2] % kept[1];
    const std::int64_t k = at / kept[3] / kept[2] / kept[1];
    positions.push_back(static_cast<std::size_t>(((k * kept[3] + c) * kept[1] + i) * kept[2] + j));
  }
  return positions;
}

/// Elements of `size` bytes in the order of files, brought into that of the device.
std::vector<std::byte> kept_as(const Shape& kept, const std::vector<std::byte>& file, std::size_t size) {
  std::vector<std::byte> device(file.size());
  std::size_t at = 0;
  for (const std::size_t position : file_positions(kept))
    std::memcpy(device.data() + at++ * size, file.data() + position * size, size);
  return device;
}

/// Note [8-bit moments], in double.
std::vector<double> decoded(const std::vector<std::byte>& bytes, std::int64_t count, bool is_second) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    float largest = 0;
    std::memcpy(&largest, bytes.data() + moment_code_bytes(count) + 4 * (i / moment_block_elements), 4);
    const auto code = static_cast<std::uint8_t>(bytes[static_cast<std::size_t>(i)]);
    const double first = static_cast<std::int8_t>(code);
    values.push_back(is_second ? std::pow(code / 255.0, 4) * static_cast<double>(largest)
                               : std::copysign(std::pow(first / 127, 2), first) * static_cast<double>(largest));
  }
  return values;
}

}  // namespace

TEST_CASE("Weights of convolutions have channels last on the device, and start and are saved as PyTorch's") {
  const bool has_masters = GENERATE(true, false);
  std::vector<std::string> overrides;
  if (!has_masters) overrides = {"train.amp=bf16", "memory.master_weights=false"};
  const OutputFolder folder;
  LoadedProgram loaded(overrides);
  const std::string checkpoint = loaded.save(folder);
  int num_permuted = 0;
  for (std::size_t p = 0; p < loaded.program.parameters.size(); ++p) {
    const Parameter& parameter = loaded.program.parameters[p];
    INFO(parameter.name);
    const std::int64_t count = parameter.type.num_elements();
    std::vector<float> drawn(static_cast<std::size_t>(count));
    fill_initial(parameter, 5, static_cast<std::uint32_t>(p), drawn);
    const std::size_t size = size_of(parameter.type.dtype);
    std::vector<std::byte> pytorch(drawn.size() * size);
    if (parameter.type.dtype == DType::f32)
      std::memcpy(pytorch.data(), drawn.data(), pytorch.size());
    else
      narrow(parameter.type.dtype, drawn.data(), pytorch.data(), count);

    const std::vector<std::byte> device = loaded.on_device(loaded.program.parameter_buffers[p]);
    CHECK((device == kept_as(parameter.type.shape, pytorch, size)));
    const FileTensor file = read_tensor(checkpoint + "/model.safetensors", parameter.name);
    CHECK((file.bytes == pytorch));
    if (device != pytorch) ++num_permuted;
  }
  CHECK(num_permuted == 2);
  CHECK(read_tensor(checkpoint + "/model.safetensors", "0.weight").shape == Shape{14, 4, 3, 2});
  CHECK(read_tensor(checkpoint + "/model.safetensors", "1.weight").shape == Shape{10, 7, 3, 3});
  CHECK(read_tensor(checkpoint + "/model.safetensors", "3.weight").shape == Shape{6, 1, 3, 3});

  // Another seed's weights, replaced by the file's.
  overrides.push_back("seed=6");
  LoadedProgram other(overrides);
  const WeightFiles weights(checkpoint + "/model.safetensors");
  PieceMemory memory(1);  // too little, so that it takes its own
  load_weights(match_weights({}, weights, other.executor->program()), weights, *other.executor, memory);
  for (const BufferId buffer : loaded.program.parameter_buffers)
    CHECK((other.on_device(buffer) == loaded.on_device(buffer)));
}

TEST_CASE("What the optimizer keeps is in files in its weight's order, but for 8-bit moments, whose name says so") {
  const std::string moments = GENERATE("f32", "8bit");
  const OutputFolder folder;
  LoadedProgram loaded({"memory.moments=" + moments});
  std::mt19937 random(3);
  for (const OptimizerBuffers& state : loaded.program.optimizer_buffers) {
    for (const BufferId buffer : {state.first, state.second}) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(loaded.program.buffers[buffer].type.num_bytes()));
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
      loaded.executor->write(buffer, bytes.data());
    }
  }
  const std::string checkpoint = loaded.save(folder);
  for (std::size_t p = 0; p < loaded.program.parameters.size(); ++p) {
    const Parameter& parameter = loaded.program.parameters[p];
    const OptimizerBuffers& state = loaded.program.optimizer_buffers[p];
    const bool is_permuted = parameter.name == "0.weight" || parameter.name == "1.weight";
    for (const auto& [role, buffer] : {std::pair{".first_moment", state.first}, {".second_moment", state.second}}) {
      const std::vector<std::byte> device = loaded.on_device(buffer);
      if (moments == "f32") {
        const FileTensor file = read_tensor(checkpoint + "/optimizer.safetensors", parameter.name + role);
        CHECK(file.shape == file_shape(parameter.file_order, parameter.type.shape));
        CHECK((device == kept_as(parameter.type.shape, file.bytes, sizeof(float))));
      } else {
        const FileTensor file = read_tensor(checkpoint + "/optimizer.safetensors",
                                            parameter.name + role + (is_permuted ? ".channels_last" : ""));
        CHECK((device == file.bytes));
      }
    }
  }
  LoadedProgram other({"memory.moments=" + moments, "seed=6"});
  restore_checkpoint(read_checkpoint(checkpoint), *other.executor);
  for (const OptimizerBuffers& state : loaded.program.optimizer_buffers)
    for (const BufferId buffer : {state.first, state.second})
      CHECK((other.on_device(buffer) == loaded.on_device(buffer)));
}

TEST_CASE("8-bit moments coded in the order of files are coded anew in the device's, rounded once more") {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  const Shape shape = GENERATE(Shape{11, 3, 2, 7}, Shape{64, 3, 3, 5}, Shape{1, 2, 1, 3});
  const TensorType weight{DType::f32, shape};
  const std::int64_t count = shape.num_elements();
  for (const bool is_second : {false, true}) {
    // Some numbers are large, so that the largest of a block differs from block to block.
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(normal(random) * (i % 97 == 0 ? 40.0F : 1.0F));
    if (is_second)
      for (float& value : values) value *= value;
    std::vector<std::byte> bytes(static_cast<std::size_t>(moment_type(count).num_bytes()));
    (is_second ? write_second_moment : write_first_moment)(
        values.data(), reinterpret_cast<std::uint8_t*>(bytes.data()),
        reinterpret_cast<float*>(bytes.data() + moment_code_bytes(count)), count);
    const std::vector<double> before = decoded(bytes, count, is_second);
    to_device_order(FormerMoment{"", is_second, weight, FileOrder::channels_second}, bytes.data());
    const std::vector<double> after = decoded(bytes, count, is_second);

    const std::vector<std::size_t> positions = file_positions(shape);
    for (std::int64_t begin = 0; begin < count; begin += moment_block_elements) {
      const std::int64_t end = std::min(count, begin + moment_block_elements);
      double largest = 0;
      for (std::int64_t i = begin; i < end; ++i)
        largest = std::max(largest, std::abs(before[positions[static_cast<std::size_t>(i)]]));
      for (std::int64_t i = begin; i < end; ++i) {
        const double wanted = before[positions[static_cast<std::size_t>(i)]];
        const double found = after[static_cast<std::size_t>(i)];
        const double root = is_second ? std::pow(wanted / largest, 0.25) : std::sqrt(std::abs(wanted) / largest);
        const double bound = is_second ? (std::pow(root + 0.5 / 255, 4) - std::pow(root, 4) + std::pow(1 / 255.0, 4))
                                       : (root / 127 + 1.0 / (254 * 254));
        INFO("element " << i << " of " << shape.to_string() << ": " << wanted << " became " << found);
        REQUIRE(std::abs(found - wanted) <= 1.001 * bound * largest);
      }
    }
  }
}

TEST_CASE("A run that an older trainer began goes on as it did there") {
  const std::string moments = GENERATE("f32", "8bit");
  const std::string older = older_checkpoints + "/" + moments + "_moments";
  const OutputFolder folder;
  TestRun run(file_bytes(older_checkpoints + "/config.yaml"), folder.path("run"), {"memory.moments=" + moments});
  run.options.resume_from = older + "/step-00000004";
  REQUIRE(run() == RunStatus::done);
  REQUIRE(run.events.steps.size() == 4);
  const std::string newer = checkpoint_file(folder.path("run"), 8, "model.safetensors");
  const SafetensorsFile final_weights(older + "/final.safetensors");
  double largest = 0;
  for (const NamedTensor& tensor : final_weights.tensors()) {
    INFO(tensor.name);
    const FileTensor wanted = read_tensor(final_weights.path(), tensor.name);
    const FileTensor found = read_tensor(newer, tensor.name);
    REQUIRE(found.shape == wanted.shape);
    for (std::size_t at = 0; at < wanted.bytes.size(); at += sizeof(float)) {
      float a = 0, b = 0;
      std::memcpy(&a, wanted.bytes.data() + at, sizeof(float));
      std::memcpy(&b, found.bytes.data() + at, sizeof(float));
      largest = std::max(largest, std::abs(static_cast<double>(a) - static_cast<double>(b)));
    }
  }
  CHECK(largest < (moments == "f32" ? 1e-5 : 1e-3));
}
