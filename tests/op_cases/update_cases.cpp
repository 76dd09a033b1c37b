#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "engine/ops/exact_sum.h"
#include "tests/op_cases/op_case.h"
#include "tests/op_cases/short_numbers.h"
#include "tests/op_cases/update_formats.h"

namespace trainer {

namespace {

/// Parameters of one update; the last is larger than what one thread takes at a time.
std::vector<TensorType> parameters() {
  const DType f32 = DType::f32;
  return {{f32, {1}}, {f32, {3, 5}}, {f32, {17, 13, 3, 3}}, {f32, {131, 257}}};
}

const Values given_factor = {4, 0.25, 1};
const Values batch_statistics = {12.5, 8, 3, 5, 8};

/// More cases: the last one with a loss that is not finite, after which every tensor is as it was.
void append_refused_cases(std::vector<OpCase>& cases) {
  const OpCase updated = cases.back();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const double loss : {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity}) {
    cases.push_back(updated);
    cases.back().name = "loss " + std::to_string(loss);
    cases.back().inputs[0][loss_sum] = loss;
    cases.back().expected.changed_inputs.clear();
  }
}

}  // namespace

double sgd_step(double w, double g, double& m, const SgdUpdateAttributes& a, double lr, bool first) {
  g += a.weight_decay * w;
  if (a.momentum > 0) {
    m = first ? g : a.momentum * m + g;
    g = a.nesterov ? g + a.momentum * m : m;
  }
  return w - lr * g;
}

double adam_step(double w, double g, double& m, double& v, const AdamUpdateAttributes& a, double lr, double update) {
  if (a.decoupled)
    w -= lr * a.weight_decay * w;
  else
    g += a.weight_decay * w;
  m = a.beta1 * m + (1 - a.beta1) * g;
  v = a.beta2 * v + (1 - a.beta2) * g * g;
  const double m_hat = m / (1 - std::pow(a.beta1, update));
  const double v_hat = v / (1 - std::pow(a.beta2, update));
  return w - lr * m_hat / (std::sqrt(v_hat) + a.eps);
}

std::vector<OpCase> average_weights_cases() {
  std::vector<OpCase> cases;
  for (const double share : {0.0, 0.001, 0.25, 1.0}) {
    const std::vector<TensorType> types = parameters();
    OpCase c{"share " + std::to_string(share), average_weights_op(types), {}, {}};
    c.scalars.average_share = share;
    for (std::size_t i = 0; i < types.size(); ++i) {
      const Values weight = random_values(types[i], static_cast<int>(2 * i));
      Values average = random_values(types[i], static_cast<int>(2 * i + 1));
      c.inputs.push_back(weight);
      c.inputs.push_back(average);
      for (std::size_t k = 0; k < weight.size(); ++k) average[k] = (1 - share) * average[k] + share * weight[k];
      if (share > 0) c.expected.changed_inputs[static_cast<int>(2 * i + 1)] = average;
    }
    // Nothing is added to a copy, whatever was there.
    if (share == 1) c.inputs[3][4] = std::numeric_limits<double>::quiet_NaN();
    c.tolerance = share == 0 || share == 1 ? 0 : 1e-6;
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<OpCase> fill_zero_cases() {
  std::vector<OpCase> cases;
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i64}) {
    std::vector<TensorType> types = parameters();
    for (TensorType& each : types) each.dtype = type;
    OpCase c{std::string(name_of(type)), fill_zero_op(types), {}, {}};
    for (std::size_t i = 0; i < types.size(); ++i) {
      c.inputs.push_back(random_values(types[i], static_cast<int>(i)));
      c.expected.changed_inputs[static_cast<int>(i)] = Values(c.inputs.back().size());
    }
    c.inputs[1][1] = type == DType::i64 ? -1e18 : std::numeric_limits<double>::quiet_NaN();
    c.tolerance = 0;
    cases.push_back(std::move(c));
  }
  return cases;
}

/// Of one rank: tensors stay as they are. Of several: tests/cpu/all_reduce_test.cpp.
std::vector<OpCase> all_reduce_cases() {
  const std::vector<TensorType> types = parameters();
  OpCase c{"one rank", all_reduce_op(types, {1}), {}, {}};
  for (std::size_t i = 0; i < types.size(); ++i) c.inputs.push_back(random_values(types[i], static_cast<int>(i)));
  c.tolerance = 0;
  return {c};
}

std::vector<OpCase> broadcast_cases() {
  std::vector<OpCase> cases = all_reduce_cases();
  cases.front().op = broadcast_op(parameters(), {1});
  return cases;
}

/// Nothing was started. Of several ranks: tests/ranks/overlap_test.cpp.
std::vector<OpCase> finish_exchange_cases() {
  std::vector<OpCase> cases = all_reduce_cases();
  cases.front().op = finish_exchange_op(parameters());
  return cases;
}

/// To nobody, and from nobody. Of two ranks: tests/ranks/send_receive_test.cpp.
std::vector<OpCase> send_cases() {
  const TensorType type{DType::f32, {3, 5}};
  OpCase c{"to nobody", send_op(type, {.ranks = {1}}), {random_values(type, 1)}, {}};
  c.tolerance = 0;
  return {c};
}

std::vector<OpCase> receive_cases() {
  const TensorType type{DType::f32, {3, 5}};
  OpCase c{"from nobody", receive_op(type, {.ranks = {1}}), {}, {}};
  c.expected.outputs = {std::vector<double>(15, 0)};
  c.tolerance = 0;
  return {c};
}

/// Of one rank, whose part is all. Of several: tests/ranks/rank_parts_test.cpp.
std::vector<OpCase> reduce_scatter_cases() {
  const std::vector<TensorType> types = parameters();
  OpCase c{"one rank", reduce_scatter_op(types, {1}, 0), {}, {}};
  for (std::size_t i = 0; i < types.size(); ++i) {
    c.inputs.push_back(random_values(types[i], static_cast<int>(i)));
    c.expected.changed_inputs[static_cast<int>(types.size() + i)] = c.inputs.back();
  }
  for (std::size_t i = 0; i < types.size(); ++i) c.inputs.emplace_back(c.inputs[i].size(), 7);
  c.tolerance = 0;
  return {c};
}

std::vector<OpCase> all_gather_cases() {
  const std::vector<TensorType> types = parameters();
  OpCase c{"one rank", all_gather_op(types, {1}, 0), {}, {}};
  for (std::size_t i = 0; i < types.size(); ++i) c.inputs.push_back(random_values(types[i], static_cast<int>(i)));
  c.expected.outputs = c.inputs;
  c.tolerance = 0;
  return {c};
}

/// More inputs of a case; the sum of their squares.
double draw_gradients(const std::vector<TensorType>& types, OpCase& c) {
  double sum = 0;
  for (const TensorType& type : types) {
    c.inputs.push_back(random_values(type, static_cast<int>(c.inputs.size())));
    for (double& g : c.inputs.back()) {
      if (type.dtype != DType::f32) g = round_to(type.dtype, g);
      sum += g * g;
    }
  }
  return sum;
}

std::vector<OpCase> gradient_squares_cases() {
  std::vector<OpCase> cases;
  for (const bool is_mixed : {false, true}) {
    auto types = parameters();
    if (is_mixed) {
      types[1].dtype = DType::f16;
      types[3].dtype = DType::bf16;
    }
    OpCase c{is_mixed ? "mixed types" : "f32", gradient_squares_op(types), {}, {}};
    const double sum = draw_gradients(types, c);
    c.expected.outputs = {{sum}};
    c.tolerance = 1e-12;
    cases.push_back(std::move(c));
  }
  // Of small whole numbers every sum is exact, so that its digits are known.
  for (const double value : {1.0, 3.0, std::numeric_limits<double>::infinity()}) {
    const std::vector<TensorType> types = {{DType::f32, {5000}}, {DType::f32, {3, 100}}};
    OpCase c{"exact, of " + std::to_string(value), gradient_squares_op(types, {.exact = true}), {}, {}};
    c.inputs = {Values(5000, value), Values(300, value)};
    std::array<std::int64_t, num_exact_sum> digits{};
    for (const std::int64_t count : {5000, 300})
      for (std::int64_t begin = 0; begin < count; begin += exact_block_elements)
        add_exactly(static_cast<double>(std::min(exact_block_elements, count - begin)) * value * value, digits.data());
    c.expected.outputs = {Values(digits.begin(), digits.end())};
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<OpCase> exact_factor_cases() {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<OpCase> cases;
  struct Sum {
    const char* name;
    Values added;
  };
  for (const Sum& sum : {Sum{"3, 4 and 0", {9, 0, 16}}, Sum{"of far apart numbers", {0x1p250, 0x1p-298, 0x1p200}},
                         Sum{"the least", {0x1p-298}}, Sum{"nothing", {}}, Sum{"infinite", {1, infinity}},
                         Sum{"not a number", {1, infinity, std::nan("")}}}) {
    OpCase c{std::string("exact sum, ") + sum.name,
             gradient_factor_op(std::array{TensorType{DType::i64, {num_exact_sum}}}, {.clip_norm = 0.5}),
             {},
             {}};
    std::array<std::int64_t, num_exact_sum> digits{};
    double total = 0;
    for (const double each : sum.added) {
      add_exactly(each, digits.data());
      total += each;
    }
    c.inputs = {Values(digits.begin(), digits.end())};
    const double norm = std::sqrt(total), clip = 0.5 / (norm + 1e-6);
    c.expected.outputs = {{norm, clip > 1 ? 1 : clip, std::isfinite(total) ? 1.0 : 0.0}};
    c.tolerance = 1e-6;
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<OpCase> gradient_factor_cases() {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<OpCase> cases = exact_factor_cases();
  for (const double scale : {0.0, 1024.0, 1000.0}) {  // 0: not scaled
    for (const double clip_norm : {0.0, 0.5, 1e6}) {
      auto types = parameters();
      if (scale > 0) {
        types[1].dtype = DType::f16;
        types[3].dtype = DType::bf16;
      }
      OpCase c{"clip " + std::to_string(clip_norm) + ", scale " + std::to_string(scale),
               gradient_factor_op(types, {.clip_norm = clip_norm, .scaled = scale > 0}),
               {},
               {}};
      if (scale > 0) c.inputs.push_back({scale, 7, 2});
      const double sum = draw_gradients(types, c);
      const double unscale = scale > 0 ? 1 / scale : 1;
      const double norm = std::sqrt(sum) * unscale;
      const double clip = clip_norm > 0 ? std::min(1.0, clip_norm / (norm + 1e-6)) : 1;
      c.expected.outputs = {{norm, clip * unscale, 1}};
      c.tolerance = 1e-7;
      cases.push_back(c);
      for (const double number : {infinity, std::numeric_limits<double>::quiet_NaN()}) {
        for (std::size_t input = scale > 0 ? 1 : 0; input < c.inputs.size(); ++input) {
          OpCase overflowed = c;
          overflowed.name += ", not finite";
          overflowed.inputs[input].back() = number;
          constexpr double not_compared = std::numeric_limits<double>::quiet_NaN();
          overflowed.expected.outputs = {{not_compared, not_compared, 0}};
          cases.push_back(overflowed);
        }
      }
    }
  }
  for (const bool scaled : {false, true}) {  // of squares that were summed before
    const TensorType squares{DType::f64, {1}};
    OpCase c{scaled ? "squares, scaled" : "squares",
             gradient_factor_op({&squares, 1}, {.clip_norm = 2, .scaled = scaled}),
             {},
             {}};
    if (scaled) c.inputs.push_back({0.5, 7, 2});
    c.inputs.push_back({36});
    const double norm = scaled ? 12 : 6, unscale = scaled ? 2 : 1;
    c.expected.outputs = {{norm, 2 / (norm + 1e-6) * unscale, 1}};
    c.tolerance = 1e-7;
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<OpCase> sgd_update_cases() {
  const std::vector<std::pair<std::string, SgdUpdateAttributes>> all = {
      {"plain", {}},
      {"weight decay", {.weight_decay = 0.1}},
      {"momentum", {.momentum = 0.9}},
      {"momentum and weight decay, clipped", {.momentum = 0.9, .weight_decay = 0.1, .format = {.factored = true}}},
      {"nesterov", {.momentum = 0.8, .nesterov = true, .weight_decay = 0.01}},
      {"clipped", {.format = {.factored = true}}},
      {"of a slower group", {.weight_decay = 0.1, .pace = {.rate_factor = 0.125}}},
      {"begun late, cycled momentum",
       {.momentum = 0.9, .pace = {.rate_factor = 2, .updates_before = 40, .cycles_momentum = true}}},
  };
  std::vector<OpCase> cases;
  for (const auto& [name, given] : all) {
    for (const std::int64_t update : {1, 2}) {
      const auto types = parameters();
      OpCase c{name + ", update " + std::to_string(update), sgd_update_op(types, given), {}, {}};
      c.scalars.learning_rate = 0.05;
      c.scalars.update = given.pace.updates_before + update;
      c.scalars.momentum = 0.7;
      SgdUpdateAttributes a = given;
      if (a.pace.cycles_momentum) a.momentum = c.scalars.momentum;
      const double rate = 0.05 * a.pace.rate_factor;
      c.tolerance = 1e-6;
      c.inputs.push_back(batch_statistics);
      if (a.format.factored) c.inputs.push_back(given_factor);
      for (const TensorType& type : types) {
        const auto at = static_cast<int>(c.inputs.size());
        Values w = random_values(type, 10 * at + 1);
        const Values g = random_values(type, 10 * at + 2);
        Values m = random_values(type, 10 * at + 3);
        c.inputs.insert(c.inputs.end(), {w, g});
        if (a.momentum > 0) c.inputs.push_back(m);
        for (std::size_t i = 0; i < w.size(); ++i)
          w[i] = sgd_step(w[i], g[i] * (a.format.factored ? given_factor[1] : 1), m[i], a, rate, update == 1);
        c.expected.changed_inputs[at] = w;
        if (a.momentum > 0) c.expected.changed_inputs[at + 2] = m;
      }
      cases.push_back(c);
    }
  }
  append_refused_cases(cases);
  const std::vector<OpCase> of_formats = sgd_format_cases();
  cases.insert(cases.end(), of_formats.begin(), of_formats.end());
  return cases;
}

std::vector<OpCase> adam_update_cases() {
  const std::vector<std::pair<std::string, AdamUpdateAttributes>> all = {
      {"Adam", {}},
      {"Adam, weight decay", {.weight_decay = 0.1}},
      {"AdamW", {.beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.1, .decoupled = true}},
      {"AdamW, clipped", {.weight_decay = 0.01, .decoupled = true, .format = {.factored = true}}},
      {"large eps", {.eps = 0.1}},
      {"AdamW, of a slower group", {.weight_decay = 0.1, .decoupled = true, .pace = {.rate_factor = 0.125}}},
      {"Adam, begun late, cycled momentum",
       {.beta1 = 0.9, .pace = {.rate_factor = 2, .updates_before = 40, .cycles_momentum = true}}},
  };
  std::vector<OpCase> cases;
  for (const auto& [name, given] : all) {
    for (const std::int64_t update : {1, 7}) {
      const auto types = parameters();
      OpCase c{name + ", update " + std::to_string(update), adam_update_op(types, given), {}, {}};
      c.scalars.learning_rate = 0.05;
      c.scalars.update = given.pace.updates_before + update;
      c.scalars.momentum = 0.7;
      AdamUpdateAttributes a = given;
      if (a.pace.cycles_momentum) a.beta1 = c.scalars.momentum;
      const double rate = 0.05 * a.pace.rate_factor;
      c.tolerance = 2e-6;
      c.inputs.push_back(batch_statistics);
      if (a.format.factored) c.inputs.push_back(given_factor);
      for (const TensorType& type : types) {
        const auto at = static_cast<int>(c.inputs.size());
        Values w = random_values(type, 10 * at + 1);
        const Values g = random_values(type, 10 * at + 2);
        Values m = random_values(type, 10 * at + 3);
        Values v = random_values(type, 10 * at + 4, 0.1, 1);
        if (update == 1) m = v = Values(w.size());
        c.inputs.insert(c.inputs.end(), {w, g, m, v});
        for (std::size_t i = 0; i < w.size(); ++i)
          w[i] = adam_step(w[i], g[i] * (a.format.factored ? given_factor[1] : 1), m[i], v[i], a, rate,
                           static_cast<double>(update));
        c.expected.changed_inputs[at] = w;
        c.expected.changed_inputs[at + 2] = m;
        c.expected.changed_inputs[at + 3] = v;
      }
      cases.push_back(c);
    }
  }
  append_refused_cases(cases);
  const std::vector<OpCase> of_formats = adam_format_cases();
  cases.insert(cases.end(), of_formats.begin(), of_formats.end());
  return cases;
}

}  // namespace trainer
