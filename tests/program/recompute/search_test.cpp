#include "engine/program/recompute/search.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <limits>
#include <numeric>
#include <string>

#include "tests/program/recompute/search_brute_force.h"
#include "tests/program/recompute/search_problems.h"

using namespace trainer;
using namespace trainer::recompute_problems;

namespace {

constexpr double no_order = std::numeric_limits<double>::infinity();

std::vector<RecomputeOrder> search(const RecomputeProblem& problem) {
  return search_orders(problem, every_node_once(problem));
}

double time_within(const std::vector<RecomputeOrder>& orders, std::int64_t budget) {
  const RecomputeOrder* order = fastest_within(orders, budget);
  return order == nullptr ? no_order : order->recompute_time;
}

double forward_time(const RecomputeProblem& problem) {
  return std::accumulate(problem.nodes.begin(), problem.nodes.begin() + problem.num_forward, 0.0,
                         [](double sum, const RecomputeProblem::Node& node) { return sum + node.time; });
}

/// What must hold of any front.
void require_front(const RecomputeProblem& problem, const std::vector<RecomputeOrder>& orders) {
  const RecomputeOrder start = measure_order(problem, every_node_once(problem));
  REQUIRE(!orders.empty());
  REQUIRE(orders[0].recompute_time == 0);
  REQUIRE(orders[0].peak_bytes <= start.peak_bytes);
  for (std::size_t i = 0; i < orders.size(); ++i) {
    const RecomputeOrder measured = measure_order(problem, orders[i].nodes);
    REQUIRE(measured.peak_bytes == orders[i].peak_bytes);
    REQUIRE(measured.recompute_time == orders[i].recompute_time);
    std::vector<std::int32_t> first_runs;
    std::vector<bool> has_run(problem.nodes.size(), false);
    for (std::int32_t n : orders[i].nodes) {
      if (!has_run[n]) first_runs.push_back(n);
      has_run[n] = true;
    }
    REQUIRE(first_runs == every_node_once(problem));
    if (i == 0) continue;
    REQUIRE(orders[i].peak_bytes < orders[i - 1].peak_bytes);
    REQUIRE(orders[i].recompute_time > orders[i - 1].recompute_time);
  }
}

/// Budgets looked at, and those at which our front is slower than another search's.
struct Comparison {
  int num_budgets = 0, num_slower = 0;
};

Comparison compare_with_every_order(const RecomputeProblem& problem) {
  const std::vector<RecomputeOrder> orders = search(problem);
  require_front(problem, orders);
  Comparison comparison;
  for (std::int64_t budget = orders[0].peak_bytes; budget >= 0; --budget) {
    const double least = least_recompute_time(problem, budget);
    const double found = time_within(orders, budget);
    REQUIRE(found >= least);  // or one of the two is wrong
    if (least == no_order) break;
    ++comparison.num_budgets;
    if (found > least) ++comparison.num_slower;
  }
  return comparison;
}

Comparison compare_with_keep_sets(const RecomputeProblem& problem) {
  const std::vector<RecomputeOrder> orders = search(problem);
  require_front(problem, orders);
  Comparison comparison;
  for (const auto& [budget, least] : front_of_all_keep_sets(problem)) {
    ++comparison.num_budgets;
    if (time_within(orders, budget) > 1.01 * least) ++comparison.num_slower;
  }
  return comparison;
}

}  // namespace

TEST_CASE("On small chains no order within any budget is faster") {
  std::mt19937 random(11);
  for (int i = 0; i < 120; ++i) {
    const RecomputeProblem problem = plain_chain(random, 1 + i % 6, 7);
    CAPTURE(i);
    const Comparison comparison = compare_with_every_order(problem);
    REQUIRE(comparison.num_budgets > 0);
    REQUIRE(comparison.num_slower == 0);
  }
}

TEST_CASE("With in-place nodes, workspaces and pinned values hardly any order is faster") {
  std::mt19937 random(12);
  Comparison all;
  for (int i = 0; i < 120; ++i) {
    const Comparison comparison = compare_with_every_order(random_chain(random, 1 + i % 6, 7));
    all.num_budgets += comparison.num_budgets;
    all.num_slower += comparison.num_slower;
  }
  REQUIRE(all.num_budgets > 300);
  REQUIRE(all.num_slower <= all.num_budgets / 100);
}

TEST_CASE("On small graphs no set of kept values is faster by more than one percent", "[exhaustive]") {
  std::mt19937 random(13);
  Comparison all;
  for (int i = 0; i < 60; ++i) {
    const RecomputeProblem problem = random_graph(random, 3 + i % 12, i % 2 == 0 ? 7 : 1000);
    CAPTURE(i);
    const Comparison comparison = compare_with_keep_sets(problem);
    all.num_budgets += comparison.num_budgets;
    REQUIRE(comparison.num_slower == 0);
  }
  REQUIRE(all.num_budgets > 150);
}

TEST_CASE("On a few blocks of networks no set of kept values is faster by more than one percent") {
  for (const RecomputeProblem& problem : {transformer(2), transformer(1), convolutions(6), convolutions(3)}) {
    const Comparison comparison = compare_with_keep_sets(problem);
    CAPTURE(problem.nodes.size());
    REQUIRE(comparison.num_budgets > 2);
    REQUIRE(comparison.num_slower == 0);
  }
}

TEST_CASE("On small graphs whose branches meet no order within any budget is faster") {
  // Between two orders of a front, the largest budget is that at which a faster one would be missed most.
  for (const RecomputeProblem& problem :
       {u_net({.depth = 2}), u_net({.depth = 2, .concatenates = false}), u_net({.depth = 1, .convolutions = 2}),
        u_net({.depth = 1, .norms = true}), squeeze_and_excite(2), dense_block(5)}) {
    CAPTURE(problem.nodes.size());
    const std::vector<RecomputeOrder> orders = search(problem);
    require_front(problem, orders);
    REQUIRE(orders.size() > 3);
    for (std::size_t i = 0; i < orders.size(); ++i) {
      const double least = least_recompute_time(problem, orders[i].peak_bytes - 1);
      const double found = i + 1 < orders.size() ? orders[i + 1].recompute_time : no_order;
      CAPTURE(orders[i].peak_bytes);
      REQUIRE(found >= least);
      REQUIRE((found == least || found <= 1.01 * least));
    }
  }
}

namespace {

/// The most by which a step is slower than it had to be, as a share of the optimum, and likewise what is computed
/// again: for every budget between two orders of the front.
struct Gap {
  double of_step = 0, of_recomputed = 0;
  std::int64_t budget = 0;  ///< where of_recomputed is largest
  std::size_t num_budgets = 0;
};

Gap gap_to_optimum(const RecomputeProblem& problem) {
  double step = 0;
  for (const RecomputeProblem::Node& node : problem.nodes) step += node.time;
  const std::vector<RecomputeOrder> orders = search(problem);
  require_front(problem, orders);
  Gap gap;
  for (std::size_t i = 1; i < orders.size(); ++i) {
    const std::int64_t budget = orders[i - 1].peak_bytes - 1;
    const double found = orders[i].recompute_time;
    const double least = std::min(found, least_recompute_time(problem, budget, found));
    ++gap.num_budgets;
    gap.of_step = std::max(gap.of_step, (found - least) / (step + least));
    if (found / least - 1 <= gap.of_recomputed) continue;
    gap.of_recomputed = found / least - 1;
    gap.budget = budget;
  }
  return gap;
}

}  // namespace

TEST_CASE("On blocks that a U-Net, a ResNet, a MobileNet and a DenseNet are made of no order is faster") {
  for (const RecomputeProblem& problem :
       {u_net({.depth = 1, .convolutions = 2}), residual_blocks(3), inverted_residuals(2), dense_block(6)}) {
    CAPTURE(problem.nodes.size());
    const Gap gap = gap_to_optimum(problem);
    CHECK(gap.num_budgets > 3);
    CHECK(gap.of_recomputed <= 0.01);
  }
}

TEST_CASE("On larger blocks what is computed again is the least that minutes of brute force have found") {
  struct Known {
    RecomputeProblem problem;
    std::vector<std::pair<std::int64_t, double>> least;  ///< by budget: least_recompute_time
  };
  // The benchmark below finds them again, and that nothing else in these fronts is slower than it had to be.
  const Known all[] = {
      {u_net({.depth = 2, .convolutions = 2}), {{53, 84}, {51, 86}, {49, 106}, {47, 145}}},
      {u_net({.depth = 1, .convolutions = 2, .norms = true}), {{55, 47}, {51, 67}, {45, 131}, {43, 132}}},
      {dense_block(7), {{67, 4}, {63, 5}, {61, 7}, {53, 61}}}};
  for (const auto& [problem, least] : all) {
    CAPTURE(problem.nodes.size());
    const std::vector<RecomputeOrder> orders = search(problem);
    require_front(problem, orders);
    for (const auto& [budget, time] : least) {
      CAPTURE(budget);
      CHECK(time_within(orders, budget) == time);
    }
  }
}

TEST_CASE("Benchmark: graphs whose branches meet beside their optimum", "[.benchmark]") {
  const auto print = [](const std::string& name, const RecomputeProblem& problem) {
    const Gap gap = gap_to_optimum(problem);
    std::cout << name << ": " << problem.num_forward << " forward nodes, " << gap.num_budgets << " budgets; at most "
              << 100 * gap.of_step << " % of a step above the optimum, and " << 100 * gap.of_recomputed
              << " % of what it computes again (a budget of " << gap.budget << ")" << std::endl;
  };
  print("U-Net of 1 halving, 2 convolutions", u_net({.depth = 1, .convolutions = 2}));
  print("U-Net of 1 halving with norms", u_net({.depth = 1, .norms = true}));
  print("U-Net of 2 halvings", u_net({.depth = 2}));
  print("U-Net of 2 halvings that adds", u_net({.depth = 2, .concatenates = false}));
  print("2 squeezes and excitations", squeeze_and_excite(2));
  print("3 residual blocks", residual_blocks(3));
  print("2 inverted residuals", inverted_residuals(2));
  print("dense block of 6", dense_block(6));
  print("dense block of 7", dense_block(7));
  print("U-Net of 1 halving, 2 convolutions with norms", u_net({.depth = 1, .convolutions = 2, .norms = true}));
  print("4 residual blocks", residual_blocks(4));
  print("U-Net of 2 halvings, 2 convolutions", u_net({.depth = 2, .convolutions = 2}));
}

TEST_CASE("A U-Net halves its memory for a quarter of its forward pass, and a dense block for its copies alone") {
  const RecomputeProblem net = u_net({.depth = 4, .convolutions = 2, .norms = true, .image = 1 << 20});
  const std::vector<RecomputeOrder> orders = search(net);
  require_front(net, orders);
  REQUIRE(time_within(orders, orders[0].peak_bytes / 2) < 0.25 * forward_time(net));
  REQUIRE(time_within(orders, orders[0].peak_bytes * 2 / 5) < 0.5 * forward_time(net));
  const RecomputeProblem block = dense_block(16);
  const std::vector<RecomputeOrder> of_block = search(block);
  require_front(block, of_block);
  REQUIRE(time_within(of_block, of_block[0].peak_bytes * 2 / 5) < 0.1 * forward_time(block));
}

TEST_CASE("A chain of equal layers is recomputed as the known optimum says") {
  // One checkpoint every ten layers, everything once more save the last segment: the least that a hand-made schedule
  // does.
  const RecomputeProblem problem = equal_chain(100);
  const std::vector<RecomputeOrder> orders = search(problem);
  require_front(problem, orders);
  const std::int64_t peak_bytes = orders[0].peak_bytes;
  REQUIRE(peak_bytes == 102);
  std::vector<bool> keep(problem.values.size(), false);
  for (std::int32_t v = 0; v <= 100; v += 10) keep[v] = true;
  for (std::int32_t v = 91; v <= 100; ++v) keep[v] = true;
  const RecomputeOrder by_hand = measure_order(problem, order_of_kept(problem, keep));
  REQUIRE(time_within(orders, by_hand.peak_bytes) <= by_hand.recompute_time);
  REQUIRE(time_within(orders, peak_bytes / 5) < forward_time(problem));
  // With one value held, each backward node has the whole chain before it computed again; nested schemes go that far.
  REQUIRE(orders.back().peak_bytes <= 5);
}

TEST_CASE("Convolutions drop what norms make before what convolutions make") {
  const RecomputeProblem problem = convolutions(20);
  const std::vector<RecomputeOrder> orders = search(problem);
  require_front(problem, orders);
  // Norms are an eleventh of the time and a half of the bytes.
  REQUIRE(time_within(orders, orders[0].peak_bytes * 2 / 3) < 0.06 * forward_time(problem));
}

TEST_CASE("A transformer halves its memory for a tenth of its forward pass") {
  const RecomputeProblem problem = transformer(24);
  const std::vector<RecomputeOrder> orders = search(problem);
  require_front(problem, orders);
  REQUIRE(time_within(orders, orders[0].peak_bytes / 2) < 0.1 * forward_time(problem));
  REQUIRE(time_within(orders, orders[0].peak_bytes / 5) < 0.6 * forward_time(problem));
}

TEST_CASE("Any graph has a front, whatever its nodes read, make and forbid", "[exhaustive]") {
  std::mt19937 random(19);
  for (int i = 0; i < 150; ++i) {
    const RecomputeProblem problem = wild_graph(random, i % 25, i % 7 == 0 ? 0 : i % 25);
    CAPTURE(i);
    require_front(problem, search(problem));
  }
}

TEST_CASE("A graph without anything to compute again has one order") {
  RecomputeProblem problem = equal_chain(3);
  for (RecomputeProblem::Node& node : problem.nodes) node.can_rerun = false;
  const std::vector<RecomputeOrder> orders = search(problem);
  REQUIRE(orders.size() == 1);
  REQUIRE(orders[0].nodes == every_node_once(problem));
}

TEST_CASE("The search goes on from an order that already computes something again") {
  const RecomputeProblem problem = equal_chain(9);
  std::vector<bool> keep(problem.values.size(), true);
  for (std::int32_t v = 1; v <= 4; ++v) keep[v] = false;
  const std::vector<std::int32_t> start = order_of_kept(problem, keep);
  const RecomputeOrder measured = measure_order(problem, start);
  const std::vector<RecomputeOrder> orders = search_orders(problem, start);
  REQUIRE(orders[0].peak_bytes <= measured.peak_bytes);
  REQUIRE(orders[0].recompute_time <= measured.recompute_time);
  REQUIRE(orders.back().peak_bytes < measured.peak_bytes);
}

TEST_CASE("The same problem is answered with the same orders") {
  std::mt19937 random(17);
  const RecomputeProblem problem = random_graph(random, 40, 1000);
  const std::vector<RecomputeOrder> once = search(problem), again = search(problem);
  REQUIRE(once.size() == again.size());
  for (std::size_t i = 0; i < once.size(); ++i) REQUIRE(once[i].nodes == again[i].nodes);
}

TEST_CASE("Benchmark: whole fronts of large graphs", "[.benchmark]") {
  std::mt19937 random(1);
  const auto print = [](const std::string& name, const RecomputeProblem& problem) {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<RecomputeOrder> orders = search(problem);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const double forward = forward_time(problem);
    std::cout << name << ": " << problem.nodes.size() << " nodes, " << orders.size() << " orders, " << seconds.count()
              << " s; forward time computed again at 1/2, 1/5, 1/10 of the peak:";
    for (const int part : {2, 5, 10}) {
      const double time = time_within(orders, orders[0].peak_bytes / part);
      std::cout << ' ' << (time == no_order ? std::string("none") : std::to_string(100 * time / forward) + " %");
    }
    std::cout << '\n';
  };
  print("100 equal layers", equal_chain(100));
  print("50 [convolution, norm]", convolutions(50));
  print("24 transformer blocks", transformer(24));
  print("U-Net of 4 halvings", u_net({.depth = 4, .convolutions = 2, .norms = true, .image = 1 << 20}));
  print("16 blocks of squeeze and excite", squeeze_and_excite(16));
  print("dense block of 16 layers", dense_block(16));
  print("random graph", random_graph(random, 90, 1000));
  print("1,250 equal layers", equal_chain(1250));
  print("625 [convolution, norm]", convolutions(625));
  print("230 transformer blocks", transformer(230));
  print("random graph", random_graph(random, 1100, 1000));
  print("random chain", random_chain(random, 1250, 1000));
}
