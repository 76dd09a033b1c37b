#include "engine/plan/link_rates.h"

#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/errors.h"
#include "engine/ops/op_definition.h"
#include "engine/plan/cost_model.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"

using namespace trainer;

namespace {

GpuProfile profile_of(const std::string& path, std::int64_t nvlink, std::int64_t pcie, std::int64_t network) {
  GpuProfile profile;
  profile.path = path;
  profile.nvlink = nvlink;
  profile.pcie = pcie;
  profile.network = network;
  return profile;
}

/// In GB/s.
RankLinks links_of(double within, double between, std::int64_t ranks_per_node) {
  RankLinks links;
  links.within = {"NVLink", 1e9 * within, 0, 0};
  links.between = {"the network", 1e9 * between, 0, 0};
  links.ranks_per_node = ranks_per_node;
  return links;
}

Op sum_of(std::int64_t num_floats, std::int64_t num_ranks) {
  return all_reduce_op(std::array{TensorType{DType::f32, {num_floats}}}, {num_ranks});
}

}  // namespace

TEST_CASE("a sum of n ranks sends what n - 1 of n slices are, twice; a rank alone sends nothing") {
  for (const std::int64_t num_ranks : {1, 2, 3, 8, 1024}) {
    const std::int64_t each = 17;  // floats of a slice
    const Exchange exchange = exchange_of(sum_of(each * num_ranks, num_ranks));
    CHECK(exchange.ranks == RankGroup{num_ranks});
    // Every other rank's slice to its owner, and the sum of its own to every other rank.
    std::int64_t sent = 0;
    for (std::int64_t other = 1; other < num_ranks; ++other) sent += 2 * each * 4;
    CHECK(exchange.sent_bytes == sent);
  }
  const Exchange shared = exchange_of(broadcast_op(std::array{TensorType{DType::f16, {3, 5}}}, {4}));
  CHECK(shared.sent_bytes == 30);
  CHECK(exchange_of(activation_op({DType::f32, {4}}, {.function = Activation::relu})).sent_bytes == 0);
}

TEST_CASE("of every op that communicates it is known what it sends") {
  for (int kind = 0; kind < num_op_kinds; ++kind) {
    const auto waits = static_cast<OpKind>(kind) == OpKind::finish_exchange;
    if (waits || definition_of(static_cast<OpKind>(kind)).role != Role::communication) continue;
    INFO(name_of(static_cast<OpKind>(kind)));
    const std::array tensors = {TensorType{DType::f32, {640}}};
    const std::map<OpKind, Op> ops = {{OpKind::all_reduce, all_reduce_op(tensors, {2})},
                                      {OpKind::broadcast, broadcast_op(tensors, {2})},
                                      {OpKind::reduce_scatter, reduce_scatter_op(tensors, {2}, 0)},
                                      {OpKind::all_gather, all_gather_op(tensors, {2}, 0)},
                                      {OpKind::send, send_op(tensors[0], peer_attributes(0, 1, 0, false))},
                                      {OpKind::receive, receive_op(tensors[0], peer_attributes(0, 1, 0, false))}};
    REQUIRE(ops.contains(static_cast<OpKind>(kind)));
    const Exchange exchange = exchange_of(ops.at(static_cast<OpKind>(kind)));
    CHECK((exchange.sent_bytes > 0) == (static_cast<OpKind>(kind) != OpKind::receive));
    CHECK((exchange.received_bytes > 0) == (static_cast<OpKind>(kind) == OpKind::receive));
  }
}

TEST_CASE("a loss in chunks of classes that ranks share tells of each row what the whole one does, chunk by chunk") {
  constexpr std::int64_t rows = 10, chunk_rows = 4, num_ranks = 4;
  LinearCrossEntropyAttributes attributes{.loss = {}, .chunk_rows = chunk_rows};
  const TensorType x{DType::bf16, {rows, 6}}, weight{DType::bf16, {7, 6}}, targets{DType::i32, {rows}};
  CHECK(exchange_of(linear_cross_entropy_op(x, weight, targets, attributes)).ranks.count == 1);
  attributes.part = {.ranks = {num_ranks}, .all_classes = 28};
  const Op loss = linear_cross_entropy_with_gradient_op(x, weight, targets, attributes, DType::f32);
  const Exchange exchange = exchange_of(loss);
  CHECK(exchange.ranks == RankGroup{num_ranks});
  // Four floats of each rank and one more are added up of a row.
  CHECK(exchange.sent_bytes == rows * (4 * num_ranks + 1) * 4 * 2 * (num_ranks - 1) / num_ranks);
  CHECK(exchange.num_calls == 3 * 2);
  CHECK(exchange.num_rounds == 3 * 2 * 2);
  attributes.chunk_rows = 5;  // which leaves no smaller one
  CHECK(exchange_of(linear_cross_entropy_op(x, weight, targets, attributes)).num_calls == 2 * 2);
  CHECK(exchange_of(linear_cross_entropy_op(x, weight, targets, attributes)).sent_bytes == exchange.sent_bytes);
  // It computes as well.
  MachineRates rates = assumed_cpu_rates(1);
  const double alone = predicted_seconds(loss, 0, rates);
  rates.links = links_of(100, 0, 0);
  CHECK(computing_seconds(loss, 0, rates) == alone);
  CHECK(predicted_seconds(loss, 0, rates) == Approx(alone + *exchange_seconds(exchange, rates.links)));
}

TEST_CASE("what ranks send to share tensors is what their others receive, of parts of any size") {
  const std::array tensors = {TensorType{DType::f16, {5000}}, TensorType{DType::f16, {3}},
                              TensorType{DType::f16, {300}}};
  constexpr std::int64_t num_ranks = 5;
  std::int64_t scattered = 0, gathered = 0;
  for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
    scattered += exchange_of(reduce_scatter_op(tensors, {num_ranks}, rank)).sent_bytes;
    gathered += exchange_of(all_gather_op(tensors, {num_ranks}, rank)).sent_bytes;
  }
  // Each element goes from every rank but its owner to its owner; and from its owner to every other.
  CHECK(scattered == (num_ranks - 1) * 2 * (5000 + 3 + 300));
  CHECK(gathered == scattered);
}

TEST_CASE("ranks on one machine wait for its links, on several for the slower of these and of the network they share") {
  const Exchange gigabyte = {.ranks = {8}, .sent_bytes = 1'000'000'000, .num_rounds = 2};
  // All on one machine, whatever its network.
  CHECK(*exchange_seconds(gigabyte, links_of(100, 0, 0)) == Approx(0.01));
  CHECK(*exchange_seconds(gigabyte, links_of(100, 1, 8)) == Approx(0.01));
  // Two machines of four, which send 4 times 10 GB/s each.
  CHECK(*exchange_seconds(gigabyte, links_of(100, 10, 4)) == Approx(1.0 / 40));
  CHECK(*exchange_seconds(gigabyte, links_of(30, 10, 4)) == Approx(1.0 / 30));
  CHECK(slowest_link({8}, links_of(30, 10, 4))->name == "NVLink");
  CHECK(slowest_link({8}, links_of(100, 10, 4))->name == "the network");
  // Machines of 3, 3 and 2: all wait for the last.
  CHECK(num_nodes({8}, links_of(100, 10, 3)) == 3);
  CHECK(*exchange_seconds(gigabyte, links_of(100, 10, 3)) == Approx(1.0 / 20));
  // One on each: no link within.
  CHECK(*exchange_seconds(gigabyte, links_of(0, 10, 1)) == Approx(1.0 / 10));
  CHECK(exchange_seconds({.ranks = {1}}, links_of(0, 0, 0)) == 0.0);
}

TEST_CASE("where a link that is used is not known, neither is the time") {
  const Exchange exchange = {.ranks = {8}, .sent_bytes = 1000, .num_rounds = 2};
  CHECK_FALSE(exchange_seconds(exchange, {}));
  CHECK_FALSE(exchange_seconds(exchange, links_of(0, 10, 4)));
  CHECK_FALSE(exchange_seconds(exchange, links_of(100, 0, 4)));
  CHECK(exchange_seconds(exchange, links_of(100, 0, 8)));
  CHECK_FALSE(slowest_link({1}, links_of(100, 10, 8)));
  // Predictions leave it out.
  MachineRates rates = assumed_cpu_rates(1);
  CHECK(predicted_seconds(sum_of(1 << 20, 2), 0, rates) == 0);
  rates.links = links_of(1, 1, 0);
  CHECK(predicted_seconds(sum_of(1 << 20, 2), 0, rates) == Approx(4 * 1048576 / 1e9));
}

TEST_CASE("messages wait for one another: one for each further rank of a machine, and one each time machines halve") {
  RankLinks links = links_of(1e6, 1e6, 4);
  links.within.message_seconds = 1e-3;
  links.between.message_seconds = 1;
  links.call_seconds = 1e-6;
  links.quick_call_seconds = 1e3;  // never quicker
  const auto seconds_of = [&](std::int64_t num_ranks, int num_rounds) {
    return *exchange_seconds({.ranks = {num_ranks}, .sent_bytes = 0, .num_rounds = num_rounds}, links);
  };
  CHECK(seconds_of(2, 1) == Approx(1e-6 + 1e-3));
  CHECK(seconds_of(4, 2) == Approx(1e-6 + 6e-3));
  CHECK(seconds_of(5, 1) == Approx(1e-6 + 3e-3 + 1));   // 2 machines
  CHECK(seconds_of(12, 1) == Approx(1e-6 + 3e-3 + 2));  // 3
  CHECK(seconds_of(16, 1) == Approx(1e-6 + 3e-3 + 2));  // 4
  CHECK(seconds_of(17, 2) == Approx(1e-6 + 6e-3 + 6));  // 5
  CHECK(seconds_of(32, 2) == Approx(1e-6 + 6e-3 + 6));  // 8
}

TEST_CASE("short exchanges take the way whose messages are quick, long ones that whose bytes are") {
  RankLinks links = links_of(1, 0, 0);
  links.within.message_seconds = 1e-3;
  const auto seconds_of = [&](std::int64_t num_bytes) {
    return *exchange_seconds({.ranks = {2}, .sent_bytes = num_bytes, .num_rounds = 2}, links);
  };
  CHECK(seconds_of(1000) == Approx(4e-6));  // 4 times a microsecond, no message waits
  CHECK(seconds_of(100'000'000) == Approx(0.1 + 2e-3));
  double before = 0;
  for (std::int64_t num_bytes = 1; num_bytes < std::int64_t{1} << 40; num_bytes *= 3) {
    CHECK(seconds_of(num_bytes) > before);
    before = seconds_of(num_bytes);
  }
}

TEST_CASE("GPUs of a machine that are alike meet by NVLink, unlike ones by PCIe, the slower counts, and 8 are usual") {
  const GpuProfile fast = profile_of("fast", 450, 64, 50), slow = profile_of("slow", 300, 32, 25),
                   bare = profile_of("bare", 0, 16, 0);
  const auto within = [](const std::vector<GpusOfRanks>& gpus, std::int64_t per_node) {
    const RankLinks links = links_between(gpus, per_node);
    return std::pair(links.within.name, links.within.bytes_per_second);
  };
  using Link = std::pair<std::string, double>;
  CHECK(links_between(std::array{GpusOfRanks{&fast, 16}}, 0).ranks_per_node == 8);
  CHECK(links_between(std::array{GpusOfRanks{&fast, 16}}, 4).ranks_per_node == 4);
  CHECK(within({{&fast, 8}}, 0) == Link("NVLink", 0.8 * 450));
  CHECK(within({{&bare, 8}}, 0) == Link("PCIe", 16 * 12 / 15.75));
  // On one machine.
  CHECK(within({{&fast, 4}, {&slow, 4}}, 0) == Link("PCIe", 32 * 12 / 15.75));
  // Each on its own, and where one of them is shared.
  CHECK(within({{&fast, 4}, {&slow, 4}}, 4) == Link("NVLink", 0.8 * 300));
  CHECK(within({{&fast, 8}, {&slow, 8}}, 0) == Link("NVLink", 0.8 * 300));
  CHECK(within({{&fast, 8}, {&slow, 4}, {&fast, 4}}, 0) == Link("PCIe", 32 * 12 / 15.75));
  CHECK(within({{&fast, 3}, {&fast, 5}}, 0) == Link("NVLink", 0.8 * 450));
  CHECK(links_between(std::array{GpusOfRanks{&fast, 8}, GpusOfRanks{&slow, 8}}, 0).between.bytes_per_second ==
        Approx(25 * 0.96));
  CHECK_FALSE(links_between(std::array{GpusOfRanks{&fast, 8}, GpusOfRanks{&bare, 8}}, 0).between.is_known());
}

TEST_CASE("a message to another machine takes what the profile says, the quick way in proportion") {
  GpuProfile gpu = profile_of("gpu", 0, 32, 25);
  const RankLinks usual = links_between(std::array{GpusOfRanks{&gpu, 2}}, 1);
  CHECK(usual.between.message_seconds == Approx(9.6e-6));
  CHECK(usual.between.quick_message_seconds == Approx(2.7e-6));
  gpu.network_latency = 96;
  const RankLinks slow = links_between(std::array{GpusOfRanks{&gpu, 2}}, 1);
  CHECK(slow.between.message_seconds == Approx(96e-6));
  CHECK(slow.between.quick_message_seconds == Approx(27e-6));
}

TEST_CASE("a step of several ranks takes the time of its part and of what they tell each other behind it") {
  for (const std::int64_t accumulation : {1, 3}) {
    const Experiment experiment = parse_experiment(
        "data: {type: synthetic, shape: [6], classes: 3, samples: 60}\n"
        "model: {layers: [linear: {out: 9}, relu, linear: {out: 3}]}\n"
        "parallel: {data: 5}\ntrain: {batch_size: 10, accumulation_steps: " +
            std::to_string(accumulation) + "}\n",
        "link_rates_test");
    const DataDescription data = described_data({6}, 3, 60);
    const Program program = compile(experiment, data, DescribedDevice());
    const RunSchedule schedule(experiment, data);
    MachineRates rates = assumed_cpu_rates(1);
    const StepTime alone = predict_step_time(program, schedule, rates);
    CHECK(alone.communication == 0);
    rates.links = links_of(1e-6, 0, 0);  // 1,000 bytes a second
    const StepTime together = predict_step_time(program, schedule, rates);
    CHECK(together.seconds == Approx(alone.seconds + together.communication));
    // 6·9 + 9 + 9·3 + 3 parameters, and the loss's statistics; once an update, however many micro-batches.
    const double gradients = 4 * (6 * 9 + 9 + 9 * 3 + 3) * 2 * 4 / 5.0;
    CHECK(together.communication > gradients / 1000);
    CHECK(together.communication < (gradients + 8 * 64 * 1.6) / 1000);
    CHECK(together.update == Approx(alone.update + together.communication));
  }
}
