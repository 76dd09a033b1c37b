#include "tests/whole_runs/text_checks.h"

#include <cmath>
#include <numeric>

#include "datasets/batch_reader.h"
#include "engine/graph/tensor_pieces.h"
#include "engine/half.h"
#include "engine/plan/allocator_options.h"
#include "engine/program/generation.h"
#include "engine/train/files/checkpoint.h"
#include "engine/train/fresh_state.h"
#include "engine/train/session.h"
#include "engine/train/text_model.h"
#include "tests/whole_runs/evaluated_logits.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {
namespace {

constexpr std::int64_t text_length = 71, text_vocabulary = 37;
constexpr std::int64_t text_capacity = std::int64_t{1} << 30;

struct TextNetwork {
  const char* name;
  const char* layers;
  std::vector<std::string> overrides;
  double tolerance;  ///< of logits, against the largest
};

// Packed attention behind learned places, with a tied head; grouped keys, rotated, in a window, of three operands.
constexpr const char* gpt_layers = R"(
    - embedding: {num: 37, dim: 24, init: normal, name: wte}
    - position_embedding: {length: 71, init: normal}
    - layernorm: {name: before}
    - linear: {out: 72}
    - attention: {heads: 3, causal: true, dropout: 0.3}
    - linear: {out: 24, name: attended}
    - add: {from: [attended, before], name: sum}
    - layernorm
    - linear: {out: 48}
    - gelu
    - dropout: {p: 0.1}
    - linear: {out: 24, name: fed}
    - add: {from: [fed, sum]}
    - layernorm
    - linear: {out: 37, bias: false, share: wte}
)";
constexpr const char* llama_layers = R"(
    - embedding: {num: 37, dim: 32, init: normal, name: tokens}
    - token_type_embedding: {num: 2}
    - repeat:
        times: 2
        layers:
          - rmsnorm: {name: norm}
          - linear: {out: 32, bias: false, from: norm}
          - rmsnorm: {heads: 4, name: q}
          - linear: {out: 16, bias: false, from: norm, name: k}
          - linear: {out: 16, bias: false, from: norm, name: v}
          - attention: {heads: 4, kv_heads: 2, causal: true, window: 40, rotary_base: 10000, rotary_factor: 8,
                        rotary_original_length: 64, from: [q, k, v]}
          - linear: {out: 32, bias: false}
          - relu
          - linear: {out: 64, bias: false}
          - swiglu
          - rmsnorm
    - linear: {out: 37}
)";

Experiment text_experiment(const TextNetwork& network, const std::string& output) {
  const std::string yaml =
      std::string(
          "name: text\nseed: 3\n"
          "data: {type: tokens, train: tokens.bin, sequence_length: 71, classes: 37, samples: 2, "
          "validation_samples: 1}\nmemory: {chunked_loss: 0}\ntrain: {batch_size: 1, steps: 1}\nmodel:\n  layers:") +
      network.layers;
  std::vector<std::string> overrides = network.overrides;
  overrides.push_back("output=" + output);
  return parse_experiment(yaml, "text.yaml", overrides);
}

std::vector<TokenId> text_tokens() {
  std::vector<TokenId> tokens;
  for (std::int64_t i = 0; i < text_length; ++i)
    tokens.push_back(static_cast<TokenId>((i * i * 5 + 3 * i + i / 7) % text_vocabulary));
  return tokens;
}

/// Logits of an evaluation of the whole text by weights of the seed, which are saved under the experiment's output.
std::vector<float> evaluate_text(const Experiment& experiment, Device& device) {
  DataDescription description;
  InputDescription& input = description.inputs.emplace_back();
  input.type = {DType::i32, {text_length}};
  input.num_indices = text_vocabulary;
  description.target = {DType::i32, {text_length}};
  description.num_outputs = text_vocabulary;
  description.num_train = 2;
  description.num_validation = 1;
  const CompiledExperiment compiled = compile_experiment(experiment, description, device, text_capacity);
  const LoadedData data{nullptr, nullptr, description, {}, {}};
  Session session(compiled, data, device, text_capacity);
  Executor& executor = session.executor();
  load_fresh_state(executor, experiment);
  PieceMemory memory(most_piece_bytes);
  TrainingState state;
  state.step = state.pass = state.samples = 1;
  save_checkpoint(experiment.output, state, experiment, "test", saved_tensors_of(executor), memory);
  const std::vector<TokenId> tokens = text_tokens();
  const std::vector<std::int32_t> ids(tokens.begin(), tokens.end()), targets(ids.size(), 0);
  const std::array<const std::byte*, 2> fields = {reinterpret_cast<const std::byte*>(ids.data()),
                                                  reinterpret_cast<const std::byte*>(targets.data())};
  const HostBatch batch{fields, 1};
  EvaluatedLogits observer(executor);
  executor.clear(compiled.program.loss_statistics);
  executor.run(compiled.program.evaluations.front(), {}, &batch, &observer);
  executor.release_transient();
  REQUIRE(observer.logits.size() == static_cast<std::size_t>(text_length * text_vocabulary));
  return observer.logits;
}

/// Holds the logits behind token `position` against those of the whole text.
void check_logits(std::span<const float> found, const std::vector<float>& whole, std::size_t position,
                  double tolerance) {
  REQUIRE(found.size() == static_cast<std::size_t>(text_vocabulary));
  double largest = 0, farthest = 0;
  for (const float logit : whole) largest = std::max(largest, std::abs(static_cast<double>(logit)));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double distance =
        std::abs(static_cast<double>(found[i]) - static_cast<double>(whole[position * found.size() + i]));
    farthest = std::isnan(distance) ? INFINITY : std::max(farthest, distance);
  }
  INFO("behind token " << position << ", of logits up to " << largest);
  CHECK(largest > 0.1);
  CHECK(farthest <= tolerance * largest);
}

void check_memory(const MemoryPlan& plan, std::int64_t step, const StepMemory& memory) {
  const StepMemory* const planned = plan.find(step, false);
  REQUIRE(planned != nullptr);
  CHECK(memory == *planned);
}

void check_text(Device& device, const TextNetwork& network) {
  INFO(network.name);
  const OutputFolder folder;
  const Experiment experiment = text_experiment(network, folder.path("run"));
  const std::vector<float> whole = evaluate_text(experiment, device);
  const Program program = compile_generation(experiment, text_length, device);
  const MemoryPlan plan = make_text_plan(program, text_capacity, allocator_options(experiment));
  REQUIRE(plan.fits);
  const WeightFiles files(folder.path("run/step-00000001/model.safetensors"));
  const WeightsMatch match = match_weights(experiment.weights, files, program);
  TextModel model(program, experiment, device, text_capacity);
  model.load(match, files);
  check_memory(plan, 0, model.executor().memory());

  // A piece of 64 that is full, one of 4, and one token each.
  const std::vector<TokenId> tokens = text_tokens();
  const std::span<const TokenId> text(tokens);
  check_logits(model.append(text.first(69)), whole, 68, network.tolerance);
  check_memory(plan, 3, model.executor().memory());
  check_logits(model.append(text.subspan(69, 1)), whole, 69, network.tolerance);
  check_memory(plan, 3, model.executor().memory());
  CHECK(model.num_tokens() == 70);

  // Another text in the same caches, from its begin.
  model.cut(0);
  std::vector<float> of_last;
  for (std::size_t i = 0; i < 70; ++i) {
    const std::span<const float> logits = model.append(text.subspan(i, 1));
    check_logits(logits, whole, i, network.tolerance);
    of_last.assign(logits.begin(), logits.end());
  }
  // A part of it again: the same bits.
  model.cut(55);
  for (std::size_t i = 55; i < 69; ++i) model.append(text.subspan(i, 1));
  const std::span<const float> again = model.append(text.subspan(69, 1));
  CHECK(std::equal(again.begin(), again.end(), of_last.begin(), of_last.end()));
  CHECK(model.executor().run_peak().peak_reserved == plan.peak_reserved);
  CHECK(model.executor().run_peak().peak_allocated == plan.peak_allocated);
}

}  // namespace

void check_texts(Device& device) {
  check_text(device, {"gpt", gpt_layers, {}, 1e-5});
  check_text(device, {"gpt in fp16", gpt_layers, {"train.amp=fp16"}, 0.01});
  check_text(device, {"gpt, planned", gpt_layers, {"memory.allocator=planned"}, 1e-5});
  check_text(device, {"llama", llama_layers, {}, 1e-5});
  check_text(device, {"llama in bf16", llama_layers, {"train.amp=bf16"}, 0.05});
  check_text(device, {"llama, out of place", llama_layers, {"memory.in_place=false"}, 1e-5});
}

}  // namespace trainer
