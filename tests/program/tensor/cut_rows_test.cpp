#include "engine/program/tensor/cut_rows.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>

#include "engine/config/load_experiment.h"
#include "engine/program/compile.h"
#include "engine/program/routine_walk.h"
#include "tests/device/described_device.h"

// Which rows ranks that share layers have of what lies between these. That they train as one process does is
// tests/ranks/tensor_runs_test.cpp.

using namespace trainer;

namespace {

constexpr const char* blocks =
    "{embedding: {num: 25, dim: 16}},"
    "{residual: {layers: [layernorm, {linear: {out: 32}}, gelu, {linear: {out: 16}}, {dropout: {p: 0.1}}]}},"
    "{residual: {layers: [rmsnorm, {linear: {out: 48}}, {attention: {heads: 4, causal: true}}, {linear: {out: 16}}]}},"
    "layernorm, {linear: {out: 25}}";

Program program_of_texts(const std::string& layers, std::int64_t length, std::int64_t rank = 0,
                         std::int64_t num_ranks = 2) {
  DataDescription data = described_data({length}, 25, 64);
  data.inputs[0].type = {DType::i32, {length}};
  data.inputs[0].num_indices = 25;
  data.target = {DType::i32, {length}};
  Experiment experiment = parse_experiment(
      "data: {type: tokens, train: a.bin, classes: 25, sequence_length: " + std::to_string(length) +
          "}\nmodel: {layers: [" + layers + "]}\ntrain: {batch_size: 5}\nmemory: {recompute_cheap: false}\n",
      "rows.yaml", {"parallel.tensor=" + std::to_string(num_ranks)});
  experiment.parallel.rank = rank;
  return compile(experiment, data, DescribedDevice());
}

/// How often each op is run in a training step's routine.
std::map<OpKind, int> ops_of(const Program& program) {
  std::map<OpKind, int> counts;
  for_each_call(program, program.micro_batches.front().first, [&](const OpCall& call) { ++counts[call.op.kind]; });
  return counts;
}

/// Rows that norms of a step compute.
std::set<std::int64_t> rows_of_norms(const Program& program) {
  std::set<std::int64_t> rows;
  for_each_call(program, program.micro_batches.front().first, [&](const OpCall& call) {
    if (call.op.kind == OpKind::layernorm) rows.insert(call.op.inputs[0].num_elements() / call.op.inputs[0].shape[-1]);
  });
  return rows;
}

}  // namespace

TEST_CASE("ranks that share layers have as many rows each between them, where they divide a text's length") {
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    const Program program = program_of_texts(blocks, 6, rank);
    std::map<OpKind, int> ops = ops_of(program);
    // Of what two pairs and the embedding add up, and of the gradients of what two pairs read.
    CHECK(ops[OpKind::reduce_scatter] == 5);
    // In front of two pairs and the head, which is not cut; of gradients behind two pairs and the embedding.
    CHECK(ops[OpKind::all_gather] == 6);
    CHECK(ops[OpKind::all_reduce] == 0);
    CHECK(rows_of_norms(program) == std::set<std::int64_t>{5 * 6 / 2});
  }
  const Program whole = program_of_texts(blocks, 7);
  std::map<OpKind, int> ops = ops_of(whole);
  CHECK(ops[OpKind::reduce_scatter] == 0);
  CHECK(ops[OpKind::all_gather] == 0);
  CHECK(ops[OpKind::all_reduce] == 5);
  CHECK(rows_of_norms(whole) == std::set<std::int64_t>{5 * 7});
}

TEST_CASE("gradients of the weights of norms of rows are terms, and no others") {
  const Program program = program_of_texts(blocks, 6);
  std::set<std::string> terms;
  for (std::size_t p = 0; p < program.parameters.size(); ++p)
    if (program.gradient_terms[p]) terms.insert(program.parameters[p].name);
  CHECK(terms ==
        std::set<std::string>{"1.layers.0.weight", "1.layers.0.bias", "2.layers.0.weight", "3.weight", "3.bias"});
  int num_sums = 0;
  for_each_call(program, program.update, [&](const OpCall& call) {
    if (call.op.kind != OpKind::all_reduce || call.op.inputs.size() != terms.size()) return;
    ++num_sums;
    CHECK(attributes_of<AllReduceAttributes>(call.op).ranks == RankGroup{2});
  });
  CHECK(num_sums == 1);
}

TEST_CASE("a norm whose weights another shares computes all rows") {
  const Program program = program_of_texts(
      "{embedding: {num: 25, dim: 16}}, {layernorm: {name: one}},"
      "{residual: {layers: [{linear: {out: 32}}, gelu, {linear: {out: 16}}]}},"
      "{layernorm: {share: one}}, {linear: {out: 25}}",
      6);
  CHECK(rows_of_norms(program) == std::set<std::int64_t>{5 * 6});
  REQUIRE(program.gradient_terms.size() == program.parameters.size());
  for (const bool is_term : program.gradient_terms) CHECK_FALSE(is_term);
}
