#include <catch2/catch.hpp>

#include <algorithm>
#include <string>

#include "engine/config/load_experiment.h"
#include "engine/plan/memory_plan.h"
#include "engine/program/generation.h"
#include "tests/device/described_device.h"
#include "tests/program/live_program.h"

using namespace trainer;
using Catch::Contains;

namespace {

/// A GPT of two blocks without its feed-forward layers, with `more` layers in front of its head.
Experiment writer(const std::string& more = "", const std::vector<std::string>& overrides = {}) {
  return parse_experiment(
      "data: {type: synthetic, shape: [7], classes: 11, samples: 64}\n"
      "model:\n  layers:\n"
      "    - embedding: {num: 11, dim: 8, name: wte}\n"
      "    - position_embedding: {length: 100, name: wpe}\n"
      "    - repeat:\n"
      "        times: 2\n"
      "        name: h\n"
      "        layers:\n"
      "          - layernorm\n"
      "          - linear: {out: 16}\n"
      "          - attention: {heads: 4, kv_heads: 2, causal: true, name: attn}\n"
      "          - linear: {out: 8}\n" +
          more + "    - linear: {out: 11, bias: false, share: wte, name: head}\n",
      "writer.yaml", overrides);
}

const Buffer& buffer_named(const Program& program, const std::string& name) {
  const auto found = std::find_if(program.buffers.begin(), program.buffers.end(),
                                  [&](const Buffer& buffer) { return buffer.name == name; });
  INFO(name);
  REQUIRE(found != program.buffers.end());
  return *found;
}

std::int64_t num_calls(const Program& program, const Routine& routine, OpKind kind) {
  return std::count_if(routine.instructions.begin(), routine.instructions.end(), [&](const Instruction& each) {
    return each.kind == Instruction::Kind::run && program.calls[static_cast<std::size_t>(each.index)].op.kind == kind;
  });
}

std::string refusal(const std::string& more) {
  try {
    compile_generation(writer(more), 10, DescribedDevice());
  } catch (const ConfigError& error) {
    return error.what();
  }
  FAIL("it was taken");
  return "";
}

}  // namespace

TEST_CASE("keys and values of all tokens but the last outlive the routines that read and write them") {
  const Program program = compile_generation(writer(), 80, DescribedDevice());
  REQUIRE(program.generation);
  const TextRoutines& generation = *program.generation;
  REQUIRE(generation.kept.size() == 5);
  for (const std::string layer : {"h.0.attn", "h.1.attn"})
    for (const std::string what : {"keys", "values"})
      CHECK(buffer_named(program, layer + "." + what).type == TensorType{DType::f32, {1, 79, 4}});
  CHECK(program.buffers[generation.logits()].type == TensorType{DType::f32, {1, 1, 11}});
  CHECK(program.buffers[generation.logits()].name == "head.output");

  LiveProgram live(program);
  live.walk(program.load);
  const auto at_rest = live.bytes();
  for (const Routine* routine : {&generation.prompt, &generation.token, &generation.token}) {
    live.walk(*routine);
    CHECK(live.bytes() == at_rest);
  }
  // A tied head is no second table.
  CHECK(at_rest == 4 * (11 * 8 + 100 * 8 + 2 * (8 + 8 + 16 * 8 + 16 + 8 * 8 + 8) + 4 * 79 * 4 + 11));
}

TEST_CASE("a piece of a prompt predicts nothing") {
  const Program program = compile_generation(writer(), 80, DescribedDevice());
  const TextRoutines& generation = *program.generation;
  CHECK(program.buffers[generation.prompt.fields.front()].type == TensorType{DType::i32, {1, 64}});
  CHECK(program.buffers[generation.token.fields.front()].type == TensorType{DType::i32, {1, 1}});
  CHECK(num_calls(program, generation.token, OpKind::cached_attention) == 2);
  CHECK(num_calls(program, generation.prompt, OpKind::cached_attention) == 2);
  // Two in each block, and the head; without the head and what stands behind the last attention.
  CHECK(num_calls(program, generation.token, OpKind::linear) == 5);
  CHECK(num_calls(program, generation.prompt, OpKind::linear) == 3);
}

TEST_CASE("short texts take short pieces, and the shortest none") {
  const auto piece = [](std::int64_t length) {
    const Program program = compile_generation(writer(), length, DescribedDevice());
    const Routine& prompt = program.generation->prompt;
    return prompt.fields.empty() ? 0 : program.buffers[prompt.fields.front()].type.shape[1];
  };
  CHECK(piece(100) == 64);
  CHECK(piece(10) == 8);
  CHECK(piece(3) == 1);
  CHECK(piece(2) == 0);
  CHECK(piece(1) == 0);
}

TEST_CASE("of parameters in 16 bit there is no master, and caches are in 16 bit") {
  const Program program = compile_generation(writer("", {"train.amp=bf16"}), 20, DescribedDevice());
  CHECK(buffer_named(program, "wte.weight").type.dtype == DType::bf16);
  CHECK(buffer_named(program, "wpe.weight").type.dtype == DType::f32);
  CHECK(buffer_named(program, "h.0.attn.keys").type.dtype == DType::bf16);
  CHECK(program.refresh.instructions.empty());
  CHECK(std::count_if(program.buffers.begin(), program.buffers.end(), [](const Buffer& buffer) {
          return buffer.category == Category::parameter && buffer.name.starts_with("wte");
        }) == 1);
}

TEST_CASE("a text is as long as there are places") {
  CHECK(longest_text(writer()) == 100);
  CHECK_THROWS_WITH(compile_generation(writer(), 101, DescribedDevice()), Contains("places for 100 tokens"));
  const Experiment rotary = parse_experiment(
      "data: {type: synthetic, shape: [7], classes: 11, samples: 64}\n"
      "model: {layers: [{embedding: {num: 11, dim: 8}}, {linear: {out: 24}}, "
      "{attention: {heads: 2, causal: true, rotary_base: 100}}, {linear: {out: 11}}]}\n",
      "rotary.yaml");
  CHECK(longest_text(rotary) == 0);
  CHECK(compile_generation(rotary, 100'000, DescribedDevice()).generation->length == 100'000);
}

TEST_CASE("a longer text holds no less, and the plan holds what its buffers add up to") {
  std::int64_t before = 0;
  for (const std::int64_t length : {1, 2, 3, 5, 9, 33, 66, 67, 100}) {
    const MemoryPlan plan =
        make_text_plan(compile_generation(writer(), length, DescribedDevice()), std::int64_t{1} << 30);
    CHECK(plan.fits);
    CHECK(plan.peak_requested >= before);
    before = plan.peak_requested;
    CHECK(plan.find(3, false)->allocated == plan.find(0, false)->allocated);
  }
}

TEST_CASE("a model that does not treat each token by itself writes no text") {
  CHECK_THAT(refusal("    - linear: {out: 24}\n    - attention: {heads: 2, name: both}\n"),
             Contains("layer 'both' (attention) sees tokens that are not written yet") && Contains("causal: true") &&
                 Contains("writer.yaml:15:7"));
  CHECK_THAT(refusal("    - class_token\n"), Contains("does not treat each token by itself"));
  CHECK_THAT(refusal("    - select_token: {index: 0}\n    - linear: {out: 8, name: of_one}\n"),
             Contains("no logits of a next token behind each token"));
  const auto of_all = [](const std::string& layers) {
    return parse_experiment(
        "data: {type: synthetic, shape: [7], classes: 11, samples: 64}\nmodel: {layers: [" + layers + "]}\n",
        "none.yaml");
  };
  CHECK_THROWS_WITH(
      compile_generation(of_all("{embedding: {num: 11, dim: 8}}, {linear: {out: 11}}"), 5, DescribedDevice()),
      Contains("no logits of a next token") || Contains("causal attention"));
  CHECK_THROWS_AS(
      compile_generation(of_all("{conv2d: {out: 8, kernel: 3}}, flatten, {linear: {out: 11}}"), 5, DescribedDevice()),
      ConfigError);
}
