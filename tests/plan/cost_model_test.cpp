#include "engine/plan/cost_model.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/config/load_experiment.h"
#include "engine/ops/attention.h"
#include "engine/ops/op_definition.h"
#include "engine/plan/fit_rates.h"
#include "engine/plan/step_flops.h"
#include "engine/plan/step_ops.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"

using namespace trainer;

namespace {

const OpRate rate = {.flops_per_second = 1e9, .bytes_per_second = 1e8, .call_seconds = 1e-5};

TensorType f32(const Shape& shape) { return {DType::f32, shape}; }

Op linear_of(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return linear_op(f32({rows, in}), {.out = out, .bias = false});
}

Op convolution_of(std::int64_t size) {
  return conv2d_op(f32({2, size, size, 32}), {.out = 32, .kernel = {3, 3}, .padding = {1, 1}, .bias = false});
}

/// Different for each kind and way, so that a rate that is taken from the wrong place shows.
MachineRates distinct_rates() {
  MachineRates rates;
  double figure = 1e6;
  for (RateTable* table : {&rates.f32, &rates.half}) {
    for (auto& kinds : *table) {
      for (OpRate& kind : kinds) {
        kind = {figure, figure * 1.5, 1 / figure};
        figure *= 1.07;
      }
    }
  }
  rates.step_seconds = 3e-3;
  return rates;
}

struct Compiled {
  Program program;
  RunSchedule schedule;
};

Compiled compile_text(const std::string& train) {
  const Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [7, 7, 2], classes: 3, samples: 26}\n"
      "model: {layers: [conv2d: {out: 5, kernel: 3}, batchnorm2d, relu, flatten, linear: {out: 11}, gelu, linear: "
      "{out: 3}]}\n"
      "optimizer: adam\n" +
          train,
      "cost_model_test");
  const DataDescription data = described_data({7, 7, 2}, 3, 26);
  return {compile(experiment, data, DescribedDevice()), RunSchedule(experiment, data)};
}

}  // namespace

TEST_CASE("A call takes the longer of its FLOPs and its bytes, and the time of a call") {
  CHECK(predicted_seconds(2e9, 1, rate) == Approx(2 + 1e-5));
  CHECK(predicted_seconds(1, 3e8, rate) == Approx(3 + 1e-5));
  CHECK(predicted_seconds(2e9, 3e8, rate) == Approx(3 + 1e-5));
  CHECK(predicted_seconds(0, 0, rate) == 1e-5);
}

TEST_CASE("More FLOPs or bytes never take less time") {
  for (const double flops : {0.0, 1.0, 1e5, 3e6, 1e10}) {
    for (const double bytes : {0.0, 1.0, 1e4, 3e5, 1e9}) {
      const double seconds = predicted_seconds(flops, bytes, rate);
      CHECK(predicted_seconds(flops * 1.01 + 1, bytes, rate) >= seconds);
      CHECK(predicted_seconds(flops, bytes * 1.01 + 1, rate) >= seconds);
    }
  }
  const MachineRates rates = assumed_cpu_rates(2);
  double before = 0;
  for (const std::int64_t rows : {1, 2, 17, 64, 65, 1009}) {
    const double seconds = predicted_seconds(linear_of(rows, 31, 127), 0, rates);
    CHECK(seconds > before);
    before = seconds;
  }
}

TEST_CASE("Bytes are those of all operands") {
  // x (3, 5), W (7, 5), y (3, 7).
  CHECK(num_operand_bytes(linear_of(3, 5, 7)) == 4 * (15 + 35 + 21));
}

TEST_CASE("A convolution with more scratch than operands runs at another rate, whole tiles of 4 pixels counted") {
  const Op op = convolution_of(9);
  const auto flops = static_cast<double>(definition_of(op.kind).flops(op));
  const std::int64_t operands = num_operand_bytes(op);
  CHECK(rate_class_of(op, operands) == RateClass::usual);
  CHECK(rate_class_of(op, operands + 1) == RateClass::other);
  CHECK(executed_flops(op, 0) == flops);
  CHECK(executed_flops(op, operands + 1) == Approx(flops * 12 * 12 / 81));
  CHECK(executed_flops(convolution_of(8), operands + 1) == Approx(executed_flops(convolution_of(8), 0)));
  const Op gradient = conv2d_backward_weight_op(op);
  CHECK(executed_flops(gradient, num_operand_bytes(gradient) + 1) == Approx(flops * 12 * 12 / 81));
  MachineRates rates = assumed_cpu_rates(1);
  rates.f32[static_cast<std::size_t>(RateClass::other)][static_cast<std::size_t>(OpKind::conv2d)].flops_per_second /=
      100;
  CHECK(predicted_seconds(op, operands + 1, rates) > 10 * predicted_seconds(op, 0, rates));
}

TEST_CASE("The rate is that of the kind, the way and the precision") {
  const MachineRates rates = distinct_rates();
  const Op f32_op = linear_of(2, 3, 4);
  Op half_op = f32_op;
  for (TensorType& type : half_op.inputs) type.dtype = DType::bf16;
  CHECK(rates.of(f32_op, 0) == rates.f32[0][static_cast<std::size_t>(OpKind::linear)]);
  CHECK(rates.of(half_op, 0) == rates.half[0][static_cast<std::size_t>(OpKind::linear)]);
  const Op gelu = activation_op(f32({4, 4}), {.function = Activation::gelu});
  const Op relu = activation_op(f32({4, 4}), {.function = Activation::relu});
  CHECK(rates.of(gelu, 0) == rates.f32[1][static_cast<std::size_t>(OpKind::activation)]);
  CHECK(rates.of(relu, 0) == rates.f32[0][static_cast<std::size_t>(OpKind::activation)]);
}

TEST_CASE(
    "A step takes what its phases and the host take, each call once, further micro-batches as often as they run") {
  const MachineRates rates = distinct_rates();
  for (const std::int64_t accumulation : {1, 2, 3, 7}) {  // 7: the last of them is the epoch's odd one
    const Compiled compiled =
        compile_text("train: {batch_size: 4, accumulation_steps: " + std::to_string(accumulation) + "}\n");
    const StepTime time = predict_step_time(compiled.program, compiled.schedule, rates);
    CHECK(time.seconds ==
          Approx(time.forward + time.backward + time.recompute + time.update + rates.step_seconds).epsilon(1e-9));
    CHECK(time.forward > 0);
    CHECK(time.backward > 0);
    CHECK(time.update > 0);
    // Call by call, without the routines' help.
    double sum = rates.step_seconds;
    const Program::MicroBatch& whole = compiled.program.micro_batches.front();
    std::vector<const Routine*> step = {&whole.first, &compiled.program.update};
    for (std::int64_t i = 1; i < accumulation; ++i)
      step.push_back(4 * i + 4 <= 26 ? &whole.next : &compiled.program.micro_batches.back().next);
    for (const Routine* routine : step) {
      for (const Instruction& instruction : routine->instructions) {
        if (instruction.kind != Instruction::Kind::run) continue;
        const Op& op = compiled.program.calls[static_cast<std::size_t>(instruction.index)].op;
        const OpRate& own =
            rates.f32[static_cast<std::size_t>(rate_class_of(op, 0))][static_cast<std::size_t>(op.kind)];
        double bytes = 0;
        for (const auto& type : op.inputs) bytes += static_cast<double>(type.num_bytes());
        for (const auto& type : op.outputs) bytes += static_cast<double>(type.num_bytes());
        const auto flops = static_cast<double>(definition_of(op.kind).flops(op));
        sum += std::max(flops / own.flops_per_second, bytes / own.bytes_per_second) + own.call_seconds;
      }
    }
    CHECK(time.seconds == Approx(sum).epsilon(1e-9));
  }
}

TEST_CASE("Recomputation is counted in its own phase and makes a step longer") {
  const MachineRates rates = assumed_cpu_rates(1);
  const Compiled kept = compile_text("train: {batch_size: 4}\n");
  const Compiled recomputed = compile_text("train: {batch_size: 4, checkpointing: {every: 3}}\n");
  const StepTime time = predict_step_time(recomputed.program, recomputed.schedule, rates);
  CHECK(time.recompute > 0);
  CHECK(time.seconds > predict_step_time(kept.program, kept.schedule, rates).seconds);
}

TEST_CASE("A profile's rates are below its peaks, by precision, and fp32's where it has no other units") {
  GpuProfile profile;
  profile.bandwidth = 1'000'000'000'000;
  profile.fp32 = 10;
  profile.tf32 = 40;
  profile.fp16 = 80;
  const Op f32_op = linear_of(2, 3, 4);
  Op half_op = f32_op;
  for (TensorType& type : half_op.inputs) type.dtype = DType::f16;
  const auto flops_of = [](const MachineRates& rates, const Op& op) { return rates.of(op, 0).flops_per_second; };
  const MachineRates exact = profile_rates(profile, false), with_tf32 = profile_rates(profile, true);
  CHECK(flops_of(exact, f32_op) < 10e12);
  CHECK(flops_of(with_tf32, f32_op) == Approx(4 * flops_of(exact, f32_op)));
  CHECK(flops_of(exact, half_op) == Approx(8 * flops_of(exact, f32_op)));
  CHECK(flops_of(with_tf32, half_op) == flops_of(exact, half_op));
  CHECK(exact.of(f32_op, 0).bytes_per_second < 1e12);
  profile.tf32 = profile.fp16 = 0;
  const MachineRates plain = profile_rates(profile, true);
  CHECK(flops_of(plain, f32_op) == flops_of(exact, f32_op));
  CHECK(flops_of(plain, half_op) == flops_of(plain, f32_op));
}

TEST_CASE("A profile's rate of attention is below its products', and in 16 bits higher where tensor cores take it") {
  GpuProfile profile;
  profile.bandwidth = 1'000'000'000'000;
  profile.compute_capability = 80;
  profile.fp32 = 10;
  profile.fp16 = 80;
  const auto rate_of = [&](DType type, bool backward) {
    const Op op = attention_op({type, {2, 5, 24}}, {.heads = 1});
    return profile_rates(profile, false).of(backward ? attention_backward_op(op) : op, 0).flops_per_second;
  };
  for (const bool backward : {false, true}) {
    CHECK(rate_of(DType::f32, backward) < 10e12);
    CHECK(rate_of(DType::bf16, backward) > 2 * rate_of(DType::f32, backward));
    CHECK(rate_of(DType::bf16, backward) < 80e12);
  }
  CHECK(rate_of(DType::f16, true) < rate_of(DType::f16, false));
  profile.compute_capability = 75;
  CHECK(rate_of(DType::f16, false) == rate_of(DType::f32, false));
}

TEST_CASE("An odd last micro-batch takes less time and fewer FLOPs than a whole one, and more than none") {
  const MachineRates rates = distinct_rates();
  const auto compiled_with = [](int accumulation) {
    return compile_text("train: {batch_size: 4, accumulation_steps: " + std::to_string(accumulation) + "}\n");
  };
  const Compiled one = compiled_with(5), whole = compiled_with(6), odd = compiled_with(7);
  const auto seconds_of = [&](const Compiled& of) { return predict_step_time(of.program, of.schedule, rates).seconds; };
  CHECK(seconds_of(odd) > seconds_of(whole));
  CHECK(seconds_of(odd) - seconds_of(whole) < seconds_of(whole) - seconds_of(one));
  const auto flops_of = [](const Compiled& of) { return step_flops(of.program, of.schedule).total; };
  CHECK(flops_of(odd) > flops_of(whole));
  CHECK(flops_of(odd) - flops_of(whole) < flops_of(whole) - flops_of(one));
}

TEST_CASE("An unmeasured GPU is assumed to be a GPU: faster than a CPU, faster still in TF32 and 16 bit, and named") {
  const MachineRates gpu = assumed_gpu_rates(false), with_tf32 = assumed_gpu_rates(true);
  CHECK(gpu.origin == MachineRates::Origin::assumed);
  CHECK(gpu.source.find("GPU") != std::string::npos);
  const Op op = linear_of(1009, 1024, 1024);
  Op half_op = op;
  for (TensorType& type : half_op.inputs) type.dtype = DType::f16;
  CHECK(predicted_seconds(op, 0, gpu) < predicted_seconds(op, 0, assumed_cpu_rates(16)));
  CHECK(predicted_seconds(op, 0, with_tf32) < predicted_seconds(op, 0, gpu));
  CHECK(predicted_seconds(half_op, 0, gpu) < predicted_seconds(op, 0, with_tf32));
}

TEST_CASE("More threads are assumed to take less time") {
  const Op op = linear_of(1009, 31, 127);
  CHECK(predicted_seconds(op, 0, assumed_cpu_rates(2)) < predicted_seconds(op, 0, assumed_cpu_rates(1)));
}

TEST_CASE("Steps take a time above 0 and below infinity whatever figures a profile may have") {
  GpuProfile profile;
  profile.bandwidth = 1;
  const Compiled compiled = compile_text("train: {batch_size: 1}\n");
  for (const double peak : {1e-308, 1e-300, 1.0, 1e300, 1e308}) {
    profile.fp32 = peak;
    const double seconds =
        predict_step_time(compiled.program, compiled.schedule, profile_rates(profile, false)).seconds;
    CHECK(seconds > 0);
    CHECK(std::isfinite(seconds));
  }
}

TEST_CASE("Rates are found again from calls that took what they say") {
  const OpRate truth = {.flops_per_second = 130e9, .bytes_per_second = 17e9, .call_seconds = 21e-6};
  std::vector<TimedOp> timed;
  for (const std::int64_t rows : {1, 7, 50, 300, 2000})
    for (const std::int64_t width : {3, 64, 501, 1500})
      for (const std::int64_t out : {2, 90, 1100}) {
        const Op op = linear_of(rows, width, out);
        timed.push_back({op, 0,
                         predicted_seconds(static_cast<double>(definition_of(op.kind).flops(op)),
                                           static_cast<double>(num_operand_bytes(op)), truth)});
      }
  const MachineRates fallback = assumed_cpu_rates(3);
  const OpRate found = fit_rates(timed, fallback).of(timed.front().op, 0);
  CHECK(found.flops_per_second == Approx(truth.flops_per_second).epsilon(0.02));
  CHECK(found.bytes_per_second == Approx(truth.bytes_per_second).epsilon(0.02));
  CHECK(found.call_seconds == Approx(truth.call_seconds).epsilon(0.02));

  SECTION("one call that was disturbed bends nothing much") {
    timed[20].seconds *= 30;
    const OpRate bent = fit_rates(timed, fallback).of(timed.front().op, 0);
    CHECK(bent.flops_per_second == Approx(truth.flops_per_second).epsilon(0.1));
    CHECK(bent.bytes_per_second == Approx(truth.bytes_per_second).epsilon(0.1));
  }
  SECTION("kinds without a call keep the fallback, the other precision takes what was measured") {
    const MachineRates rates = fit_rates(timed, fallback);
    CHECK(rates.f32[0][static_cast<std::size_t>(OpKind::add)] ==
          fallback.f32[0][static_cast<std::size_t>(OpKind::add)]);
    CHECK(rates.half[0][static_cast<std::size_t>(OpKind::linear)] == found);
  }
}

TEST_CASE("The ops of a step are its calls, alike ones together, and add up to its FLOPs, bytes and time") {
  const MachineRates rates = distinct_rates();
  // 26 samples in batches of 16 by micro-batches of 8: the step has two, and an update.
  const Compiled compiled = compile_text("train: {batch_size: 8, accumulation_steps: 2}");
  const std::vector<StepOp> ops = step_ops(compiled.program, compiled.schedule, rates);
  double flops = 0, seconds = 0, num_calls = 0, num_updates = 0, num_convolutions = 0;
  for (const StepOp& op : ops) {
    flops += op.num_calls * op.flops;
    seconds += op.num_calls * op.predicted_seconds;
    num_calls += op.num_calls;
    if (op.kind == OpKind::adam_update) num_updates += op.num_calls;
    if (op.kind != OpKind::conv2d) continue;
    num_convolutions += op.num_calls;
    // x, weight and bias; y
    CHECK(op.input_bytes == 4 * (8 * 7 * 7 * 2 + 5 * 2 * 3 * 3 + 5));
    CHECK(op.output_bytes == 4 * 8 * 5 * 5 * 5);
  }
  CHECK(num_updates == 1);
  CHECK(num_convolutions == 2);
  CHECK(static_cast<double>(ops.size()) < num_calls);
  CHECK(flops == Approx(step_flops(compiled.program, compiled.schedule).total));
  CHECK(seconds + rates.step_seconds == Approx(predict_step_time(compiled.program, compiled.schedule, rates).seconds));
}

TEST_CASE("What ranks tell each other beside other work costs what is waited for") {
  MachineRates rates = assumed_cpu_rates(1);
  for (auto& of_class : rates.f32)
    for (OpRate& each : of_class) each = rate;
  rates.step_seconds = 1e-3;
  const Op work = activation_op(f32({100'000}), {.function = Activation::tanh});
  const double second = predicted_seconds(work, 0, rates);  // the unit of what follows
  const Op sum = all_reduce_op(std::array{f32({64'000})}, {2});
  // A sum takes 1.75 of it.
  rates.links.within = {"a wire", static_cast<double>(exchange_of(sum).sent_bytes) / (1.75 * second), 0, 0};
  REQUIRE(*exchange_seconds(exchange_of(sum), rates.links) == Approx(1.75 * second));

  Compiled compiled = compile_text("train: {batch_size: 26}\n");
  Program& program = compiled.program;
  const auto routine_of = [&](const std::vector<Op>& ops) {
    Routine routine;
    BufferId num_started = 0, num_finished = 0;
    for (const Op& op : ops) {
      program.calls.push_back({op, {}, {}, -1, no_layer, Phase::backward});
      if (is_started(op)) program.calls.back().inputs = {num_started++};
      if (op.kind == OpKind::finish_exchange) program.calls.back().inputs = {num_finished++};
      routine.instructions.push_back({Instruction::Kind::run, static_cast<std::int32_t>(program.calls.size()) - 1});
    }
    return routine;
  };
  const Op finish = finish_exchange_op(sum.inputs);
  // Sums run from 1 to 2.75 and from there to 4.5, what computes from 0 to 4: 0.5 are waited for, then a whole sum.
  program.micro_batches.front().first =
      routine_of({work, started(sum), work, started(sum), work, finish, work, finish});
  program.update = routine_of({sum});
  StepTime time = predict_step_time(program, compiled.schedule, rates);
  CHECK(time.communication == Approx(2.25 * second));
  CHECK(time.seconds == Approx(6.25 * second + 1e-3));
  CHECK(time.backward == Approx(6.25 * second));
  // One that is not started waits for those that were: 2 are done at 2.75, and a sum behind that.
  program.micro_batches.front().first = routine_of({work, started(sum), work, sum, finish});
  program.update = routine_of({});
  time = predict_step_time(program, compiled.schedule, rates);
  CHECK(time.communication == Approx(2.5 * second));
  CHECK(time.seconds == Approx(4.5 * second + 1e-3));
  // Without a link that is known nothing is waited for.
  rates.links = {};
  CHECK(predict_step_time(program, compiled.schedule, rates).communication == 0);
}
