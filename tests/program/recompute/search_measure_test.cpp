#include <catch2/catch.hpp>

#include <algorithm>
#include <limits>

#include "engine/errors.h"
#include "engine/program/recompute/search.h"
#include "tests/program/recompute/search_problems.h"

using namespace trainer;
using namespace trainer::recompute_problems;

namespace {

using Node = RecomputeProblem::Node;

RecomputeProblem::Value bytes(std::int64_t num_bytes) {
  RecomputeProblem::Value value;
  value.num_bytes = num_bytes;
  return value;
}

Node node(std::vector<std::int32_t> inputs, std::vector<std::int32_t> outputs, double time = 1) {
  Node made;
  made.inputs = std::move(inputs);
  made.outputs = std::move(outputs);
  made.time = time;
  made.can_rerun = true;
  return made;
}

/// x(1) -> a(10) -> b(100) -> c(1000), then a backward node that reads a and c.
RecomputeProblem line() {
  RecomputeProblem problem;
  problem.values = {bytes(1), bytes(10), bytes(100), bytes(1000), bytes(5)};
  problem.nodes = {node({0}, {1}), node({1}, {2}, 2), node({2}, {3}, 4), node({1, 3}, {4})};
  problem.nodes[3].can_rerun = false;
  problem.num_forward = 3;
  return problem;
}

/// Peak by the definition: the lifetime of each copy is searched for by itself, then all are summed at each position.
std::int64_t peak_by_lifetimes(const RecomputeProblem& problem, const std::vector<std::int32_t>& order) {
  const auto num_positions = static_cast<std::int64_t>(order.size());
  auto is_rerun = [&](std::int64_t p) {
    return std::find(order.begin(), order.begin() + p, order[p]) - order.begin() < p;
  };
  auto reads = [&](std::int64_t p, std::int32_t value) {
    const Node& n = problem.nodes[order[p]];
    const auto& list = is_rerun(p) && !n.rerun_inputs.empty() ? n.rerun_inputs : n.inputs;
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  auto makes = [&](std::int64_t p, std::int32_t value) {
    const auto& list = problem.nodes[order[p]].outputs;
    return std::find(list.begin(), list.end(), value) != list.end() &&
           !(is_rerun(p) && problem.values[value].is_pinned);
  };
  auto last_read_of = [&](std::int64_t made_at, std::int32_t value) {
    std::int64_t last = -1;
    for (std::int64_t p = made_at + 1; p < num_positions; ++p) {
      if (reads(p, value)) last = p;
      if (makes(p, value)) break;
    }
    return last;
  };
  std::vector<std::int64_t> held(order.size(), problem.base_bytes);
  std::int64_t at_start = problem.base_bytes;
  auto hold = [&](std::int32_t value, std::int64_t from, std::int64_t to) {
    for (std::int64_t p = from; p <= to; ++p) held[p] += problem.values[value].num_bytes;
  };
  for (std::int32_t v = 0; v < static_cast<std::int32_t>(problem.values.size()); ++v) {
    bool is_source = !problem.values[v].is_given;
    for (const Node& n : problem.nodes)
      is_source = is_source && std::find(n.outputs.begin(), n.outputs.end(), v) == n.outputs.end();
    if (!is_source) continue;
    const std::int64_t last = last_read_of(-1, v);
    hold(v, 0, last < 0 ? num_positions - 1 : last);
    at_start += problem.values[v].num_bytes;
  }
  for (std::int64_t p = 0; p < num_positions; ++p) {
    std::vector<std::int32_t> taken;
    held[p] += problem.nodes[order[p]].workspace_bytes;
    for (std::int32_t output : problem.nodes[order[p]].outputs) {
      if (!makes(p, output)) continue;
      const bool stays = problem.values[output].is_result;
      const std::int64_t last = stays ? num_positions - 1 : std::max(p, last_read_of(p, output));
      std::int64_t from = p;
      for (const Node::TakeOver& rule : problem.nodes[order[p]].take_overs) {
        if (rule.output != output || stays || !reads(p, rule.input)) continue;
        std::int64_t made_at = p - 1;
        while (made_at >= 0 && !makes(made_at, rule.input)) --made_at;
        const bool is_free = made_at >= 0 && last_read_of(made_at, rule.input) == p &&
                             !problem.values[rule.input].is_result &&
                             std::find(taken.begin(), taken.end(), rule.input) == taken.end();
        if (!is_free) continue;
        taken.push_back(rule.input);
        from = p + 1;  // at p its memory is counted as the input's
        break;
      }
      hold(output, from, last);
    }
  }
  return std::max(at_start, *std::max_element(held.begin(), held.end()));
}

/// Some legal order: the backward nodes in theirs, what they need computed again now and then.
std::vector<std::int32_t> random_order(std::mt19937& random, const RecomputeProblem& problem) {
  std::vector<std::int32_t> order;
  for (std::int32_t n = 0; n < static_cast<std::int32_t>(problem.nodes.size()); ++n) {
    order.push_back(n);
    for (int extra = static_cast<int>(random() % 3); extra > 0; --extra)
      order.push_back(static_cast<std::int32_t>(random() % std::min<unsigned>(n + 1, problem.num_forward)));
  }
  return order;
}

}  // namespace

TEST_CASE("An order without reruns holds each value from its node to its last read") {
  const RecomputeOrder order = measure_order(line(), {0, 1, 2, 3});
  // a, b, c while c is computed; a, c and the gradient at last.
  REQUIRE(order.peak_bytes == 1110);
  REQUIRE(order.recompute_time == 0);
  REQUIRE(order.nodes == std::vector<std::int32_t>{0, 1, 2, 3});
}

TEST_CASE("What is computed again is released in between and its time is counted") {
  RecomputeProblem problem = line();
  problem.base_bytes = 10000;
  // x lives until a is computed again: x, b, c.
  const RecomputeOrder order = measure_order(problem, {0, 1, 2, 0, 3});
  REQUIRE(order.peak_bytes == 10000 + 1 + 100 + 1000);
  REQUIRE(order.recompute_time == 1);
  problem.nodes[0].rerun_time = 0.25;
  REQUIRE(measure_order(problem, {0, 1, 2, 0, 3}).recompute_time == 0.25);
}

TEST_CASE("The workspace is held beside the outputs of its node") {
  RecomputeProblem problem = line();
  problem.nodes[1].workspace_bytes = 5000;
  REQUIRE(measure_order(problem, {0, 1, 2, 3}).peak_bytes == 10 + 100 + 5000);
}

TEST_CASE("An output takes over an input only where nothing reads the input later") {
  RecomputeProblem problem = line();
  problem.values[2].num_bytes = 10;
  problem.values[3].num_bytes = 10;
  problem.nodes[1].take_overs = {{2, 1}};
  problem.nodes[2].take_overs = {{3, 2}};
  // a is read by the backward node, so b does not take it over; c takes over b.
  REQUIRE(measure_order(problem, {0, 1, 2, 3}).peak_bytes == 25);
  // The first a is not read again, so b takes it over: x, one memory for a, b and c, then the new a and the gradient.
  REQUIRE(measure_order(problem, {0, 1, 2, 0, 3}).peak_bytes == 25);
  problem.values[4].num_bytes = 0;
  REQUIRE(measure_order(problem, {0, 1, 2, 0, 3}).peak_bytes == 21);
}

TEST_CASE("An input is taken over once, a result, the batch and what is given never") {
  RecomputeProblem problem;
  problem.values = {bytes(10), bytes(10), bytes(10), bytes(10)};
  problem.nodes = {node({0}, {1}), node({1}, {2, 3}), node({2, 3}, {})};
  problem.nodes[0].take_overs = {{1, 0}};
  problem.nodes[1].take_overs = {{2, 1}, {3, 1}};
  problem.num_forward = 3;
  REQUIRE(measure_order(problem, {0, 1, 2}).peak_bytes == 20);
  problem.values[2].is_result = true;  // so the other output takes it over, and this one stays
  REQUIRE(measure_order(problem, {0, 1, 2}).peak_bytes == 20);
  problem.values[3].is_result = true;
  REQUIRE(measure_order(problem, {0, 1, 2}).peak_bytes == 30);
  problem.values[0].is_given = true;
  problem.values[1].is_given = true;
  REQUIRE(measure_order(problem, {0, 1, 2}).peak_bytes == 20);
}

TEST_CASE("What is pinned is not made again and lives from its first run to its last read") {
  RecomputeProblem problem = line();
  problem.values.push_back(bytes(7));
  problem.values[5].is_pinned = true;
  problem.nodes[0].outputs.push_back(5);
  problem.nodes[0].rerun_inputs = {0, 5};
  REQUIRE(measure_order(problem, {0, 1, 2, 0, 3}).peak_bytes == 1 + 7 + 100 + 1000);
  // Without a rerun nothing reads it and it is gone at once.
  REQUIRE(measure_order(problem, {0, 1, 2, 3}).peak_bytes == 1110);
}

TEST_CASE("An order that reads what is not there, or runs a backward node twice, is refused") {
  REQUIRE_THROWS_AS(measure_order(line(), {1, 0, 2, 3}), InternalError);
  REQUIRE_THROWS_AS(measure_order(line(), {0, 1, 2, 3, 3}), InternalError);
  REQUIRE_THROWS_AS(measure_order(line(), {0, 1, 2, 4}), InternalError);
}

TEST_CASE("The measured peak is the largest sum of lifetimes for any order") {
  std::mt19937 random(7);
  for (int i = 0; i < 400; ++i) {
    const int length = 1 + i % 17;
    const RecomputeProblem problem = i % 2 == 0 ? random_chain(random, length, 8) : random_graph(random, length, 3);
    const std::vector<std::int32_t> order = random_order(random, problem);
    CAPTURE(i);
    REQUIRE(measure_order(problem, order).peak_bytes == peak_by_lifetimes(problem, order));
  }
}

TEST_CASE("Keeping everything computes nothing again") {
  std::mt19937 random(3);
  const RecomputeProblem problem = random_graph(random, 13, 9);
  REQUIRE(order_of_kept(problem, std::vector<bool>(problem.values.size(), true)) == every_node_once(problem));
}

TEST_CASE("What is not kept is computed again once, right before it is first read") {
  const RecomputeProblem problem = line();
  REQUIRE(order_of_kept(problem, {true, false, true, true, true}) == std::vector<std::int32_t>{0, 1, 2, 0, 3});
  // c needs b and b needs a: all in the order of the nodes.
  REQUIRE(order_of_kept(problem, {false, false, false, false, false}) ==
          std::vector<std::int32_t>{0, 1, 2, 0, 1, 2, 3});
  // b is not kept and the backward pass does not need it.
  REQUIRE(order_of_kept(problem, {true, true, false, true, true}) == std::vector<std::int32_t>{0, 1, 2, 3});
}

TEST_CASE("What cannot be computed again is kept in any case") {
  RecomputeProblem problem = line();
  problem.nodes[0].can_rerun = false;
  REQUIRE(order_of_kept(problem, {false, false, false, false, false}) == std::vector<std::int32_t>{0, 1, 2, 1, 2, 3});
  problem.values[2].is_pinned = true;
  REQUIRE(order_of_kept(problem, {false, false, false, false, false}) == std::vector<std::int32_t>{0, 1, 2, 2, 3});
}

TEST_CASE("Every set of kept values is a legal order in which no node runs more than twice") {
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    const RecomputeProblem problem = random_graph(random, 1 + i % 23, 9);
    std::vector<bool> keep(problem.values.size());
    for (std::size_t v = 0; v < keep.size(); ++v) keep[v] = random() % 2 == 0;
    const std::vector<std::int32_t> order = order_of_kept(problem, keep);
    CAPTURE(i);
    REQUIRE_NOTHROW(measure_order(problem, order));
    for (std::int32_t n = 0; n < static_cast<std::int32_t>(problem.nodes.size()); ++n) {
      const auto runs = std::count(order.begin(), order.end(), n);
      REQUIRE(runs >= 1);
      REQUIRE(runs <= (n < problem.num_forward ? 2 : 1));
    }
  }
}

TEST_CASE("The fastest order within a budget is found, or none") {
  std::vector<RecomputeOrder> orders(3);
  orders[0] = {{0}, 100, 0};
  orders[1] = {{1}, 50, 1};
  orders[2] = {{2}, 20, 5};
  REQUIRE(fastest_within(orders, 1000) == &orders[0]);
  REQUIRE(fastest_within(orders, 100) == &orders[0]);
  REQUIRE(fastest_within(orders, 99) == &orders[1]);
  REQUIRE(fastest_within(orders, 20) == &orders[2]);
  REQUIRE(fastest_within(orders, 19) == nullptr);
  REQUIRE(fastest_within({}, 19) == nullptr);
}
