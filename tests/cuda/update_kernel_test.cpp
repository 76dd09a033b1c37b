#include <array>
#include <catch2/catch.hpp>
#include <limits>

#include "cuda/kernels/gradient_factor.h"
#include "cuda/kernels/optimizer_update.h"
#include "tests/cuda/kernel_tensor.h"

namespace trainer::cuda {
namespace {

using Numbers = std::vector<double>;

/// Tensors of so many elements: 1, primes, below, at and past a chunk.
std::vector<std::int64_t> some_sizes() { return {1, 3, 997, 4095, 4096, 4097, 12289, 2}; }
/// More tensors than a small table holds, and more than a large one.
std::vector<std::int64_t> many_sizes(std::int64_t count) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < count; ++i) sizes.push_back(i % 37 == 36 ? 4099 : 1 + 2 * (i % 61));
  return sizes;
}

/// One role (weight, gradient, moment) of each tensor.
struct Tensors {
  std::vector<KernelTensor> tensors;

  Tensors(DType type, const std::vector<std::int64_t>& sizes, unsigned seed, double low, double high,
          std::int64_t num_skipped = 0) {
    for (const std::int64_t size : sizes)
      tensors.emplace_back(type, random_numbers(size, seed + 10 * static_cast<unsigned>(tensors.size()), low, high),
                           num_skipped);
  }

  Numbers values() const {
    Numbers all;
    for (const KernelTensor& tensor : tensors) {
      const Numbers numbers = tensor.values();
      all.insert(all.end(), numbers.begin(), numbers.end());
    }
    return all;
  }
};

struct Model {
  std::vector<std::int64_t> sizes;
  DType type;
  Tensors weights, gradients, first, second;

  explicit Model(const std::vector<std::int64_t>& tensor_sizes, DType gradient_type = DType::f32,
                 std::int64_t num_skipped = 0)
      : sizes(tensor_sizes),
        type(gradient_type),
        weights(DType::f32, sizes, 1, -1, 1, num_skipped),
        gradients(type, sizes, 2, -1, 1, num_skipped),
        first(DType::f32, sizes, 3, -1, 1, num_skipped),
        second(DType::f32, sizes, 4, 0.1, 1, num_skipped) {}

  UpdateTypes types() const { return {.gradients = type}; }
  std::vector<UpdateTensor> tensors() const {
    std::vector<UpdateTensor> result;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      result.push_back({.weight = weights.tensors[i].data(),
                        .gradient = gradients.tensors[i].data(),
                        .states = {first.tensors[i].data(), second.tensors[i].data()},
                        .count = sizes[i]});
    return result;
  }

  friend bool operator==(const Model& a, const Model& b) {
    return a.weights.tensors == b.weights.tensors && a.gradients.tensors == b.gradients.tensors &&
           a.first.tensors == b.first.tensors && a.second.tensors == b.second.tensors;
  }
};

/// What an update reads beside the tensors.
struct Step {
  Numbers statistics = {12.5, 8, 3, 5, 8};
  std::array<float, num_gradient_factors> factor = {4, 0.25F, 1};
  StepScalars scalars;

  explicit Step(std::int64_t update) {
    scalars.learning_rate = 0.05;
    scalars.update = update;
  }
  UpdateOperands operands(bool clip) {
    return {.statistics = statistics.data(), .factor = clip ? factor.data() : nullptr, .scalars = &scalars};
  }
};

struct SgdVariant {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  bool factored = false;
  SgdRule rule() const { return {momentum, nesterov, weight_decay, {}}; }
};
struct AdamVariant {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;
  bool factored = false;
  AdamRule rule() const { return {beta1, beta2, eps, weight_decay, decoupled, {}}; }
};

/// torch.optim.SGD with dampening 0, in double.
void check_sgd(const Model& model, const SgdVariant& a, std::int64_t update) {
  INFO("momentum " << a.momentum << ", nesterov " << a.nesterov << ", decay " << a.weight_decay << ", clip "
                   << a.factored << ", update " << update << ", " << model.sizes.size() << " tensors");
  Numbers w = model.weights.values(), m = model.first.values();
  const Numbers g = model.gradients.values();
  for (std::size_t i = 0; i < w.size(); ++i) {
    double slope = g[i] * (a.factored ? 0.25 : 1) + a.weight_decay * w[i];
    if (a.momentum > 0) {
      m[i] = update == 1 ? slope : a.momentum * m[i] + slope;
      slope = a.nesterov ? slope + a.momentum * m[i] : m[i];
    }
    w[i] -= 0.05 * slope;
  }
  sgd_update(model.types(), Step(update).operands(a.factored), model.tensors(), a.rule(), nullptr);
  CHECK(difference(model.weights.values(), w) < 1e-6);
  CHECK(difference(model.first.values(), m) < 1e-6);
  CHECK(model.gradients.values() == g);
}

/// torch.optim.Adam and AdamW, in double.
void check_adam(const Model& model, const AdamVariant& a, std::int64_t update) {
  INFO("decay " << a.weight_decay << ", decoupled " << a.decoupled << ", clip " << a.factored << ", update " << update
                << ", " << model.sizes.size() << " tensors");
  Numbers w = model.weights.values(), m = model.first.values(), v = model.second.values();
  const Numbers g = model.gradients.values();
  for (std::size_t i = 0; i < w.size(); ++i) {
    double slope = g[i] * (a.factored ? 0.25 : 1);
    if (a.decoupled)
      w[i] -= 0.05 * a.weight_decay * w[i];
    else
      slope += a.weight_decay * w[i];
    m[i] = a.beta1 * m[i] + (1 - a.beta1) * slope;
    v[i] = a.beta2 * v[i] + (1 - a.beta2) * slope * slope;
    const double m_hat = m[i] / (1 - std::pow(a.beta1, static_cast<double>(update)));
    const double v_hat = v[i] / (1 - std::pow(a.beta2, static_cast<double>(update)));
    w[i] -= 0.05 * m_hat / (std::sqrt(v_hat) + a.eps);
  }
  adam_update(model.types(), Step(update).operands(a.factored), model.tensors(), a.rule(), nullptr);
  CHECK(difference(model.weights.values(), w) < 2e-6);
  CHECK(difference(model.first.values(), m) < 1e-6);
  CHECK(difference(model.second.values(), v) < 1e-6);
  CHECK(model.gradients.values() == g);
}

const SgdVariant sgd_variants[] = {
    {},
    {.weight_decay = 0.1},
    {.factored = true},
    {.momentum = 0.9},
    {.momentum = 0.9, .weight_decay = 0.1, .factored = true},
    {.momentum = 0.8, .nesterov = true, .weight_decay = 0.01},
};
const AdamVariant adam_variants[] = {
    {},
    {.weight_decay = 0.1},
    {.beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.1, .decoupled = true},
    {.weight_decay = 0.01, .decoupled = true, .factored = true},
    {.eps = 0.1},
};

TEST_CASE("the SGD kernel updates tensors of any size as torch.optim does") {
  for (const SgdVariant& attributes : sgd_variants)
    for (const std::int64_t update : {1, 2}) check_sgd(Model(some_sizes()), attributes, update);
}

TEST_CASE("the Adam kernel updates tensors of any size as torch.optim does") {
  for (const AdamVariant& attributes : adam_variants)
    for (const std::int64_t update : {1, 7, 100000}) check_adam(Model(some_sizes()), attributes, update);
}

TEST_CASE("an update takes as many tensors as there are") {
  for (const std::int64_t count : {64, 65, 300, 641}) {
    check_sgd(Model(many_sizes(count)), {}, 2);
    check_sgd(Model(many_sizes(count)), {.momentum = 0.9}, 2);
    check_adam(Model(many_sizes(count)), {}, 3);
  }
  const Model none({});
  sgd_update(UpdateTypes{}, Step(1).operands(false), none.tensors(), {}, nullptr);
  adam_update(UpdateTypes{}, Step(1).operands(false), none.tensors(), {}, nullptr);
}

TEST_CASE("an update takes tensors that no pack may start at, and gradients of 16 bits") {
  check_sgd(Model(some_sizes(), DType::f32, 1), {.momentum = 0.9}, 2);
  check_sgd(Model(some_sizes(), DType::f32, 3), {}, 2);
  check_adam(Model(some_sizes(), DType::f32, 2), {}, 2);
  for (const DType type : {DType::f16, DType::bf16}) {
    for (const std::int64_t num_skipped : {0, 1}) {
      check_sgd(Model(some_sizes(), type, num_skipped), {}, 2);
      check_sgd(Model(some_sizes(), type, num_skipped), {.momentum = 0.9}, 2);
      check_adam(Model(some_sizes(), type, num_skipped), {}, 2);
    }
  }
}

/// Tensors of other types than f32, which start as the same numbers for equal sizes.
struct MixedModel {
  UpdateTypes types;
  std::vector<KernelTensor> weights, gradients, copies, first, second;
  std::vector<UpdateTensor> tensors;

  MixedModel(const std::vector<std::int64_t>& sizes, const UpdateTypes& update_types, std::int64_t num_skipped = 0)
      : types(update_types) {
    const DType copy_type = types.copies == DType::f32 ? DType::bf16 : types.copies;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto seed = static_cast<unsigned>(10 * i);
      const auto draw = [&](DType type, unsigned role) {
        return KernelTensor(type, random_numbers(sizes[i], seed + role), num_skipped);
      };
      const auto state = [&](unsigned role) {
        if (!types.eight_bit)
          return KernelTensor(DType::f32, random_numbers(sizes[i], seed + role, 0.1, 1), num_skipped);
        // Codes and the largest magnitudes alike: any bytes but those of an f32 that is not finite.
        return KernelTensor(DType::u8, random_numbers(moment_type(sizes[i]).num_elements(), seed + role, 0, 60),
                            4 * num_skipped);
      };
      weights.push_back(draw(types.rounds_weights ? DType::bf16 : DType::f32, 1));
      gradients.push_back(draw(types.gradients, 2));
      copies.push_back(draw(copy_type, 3));
      first.push_back(state(4));
      second.push_back(state(5));
      tensors.push_back({.weight = weights[i].data(),
                         .gradient = gradients[i].data(),
                         .copy = copies[i].data(),
                         .states = {first[i].data(), second[i].data()},
                         .count = sizes[i],
                         .random_stream = seed});
    }
  }

  friend bool operator==(const MixedModel& a, const MixedModel& b) {
    return a.weights == b.weights && a.gradients == b.gradients && a.copies == b.copies && a.first == b.first &&
           a.second == b.second;
  }
};

const UpdateTypes mixed_types[] = {
    {.gradients = DType::f16, .copies = DType::f16},
    {.rounds_weights = true, .gradients = DType::bf16},
    {.eight_bit = true},
    {.rounds_weights = true, .gradients = DType::bf16, .eight_bit = true},
};

void update_mixed(const MixedModel& model, std::span<const UpdateTensor> tensors) {
  Step step(3);
  adam_update(model.types, step.operands(true), tensors, {}, nullptr);
  if (model.types.eight_bit) return;
  sgd_update(model.types, step.operands(true), tensors, {}, nullptr);
  sgd_update(model.types, step.operands(true), tensors, {.momentum = 0.9}, nullptr);
}

TEST_CASE("an update of mixed types gives each of many tensors the bits that it gets alone") {
  for (const UpdateTypes& types : mixed_types) {
    for (const std::int64_t count : {65, 513}) {
      const MixedModel together(many_sizes(count), types), alone(many_sizes(count), types);
      update_mixed(together, together.tensors);
      for (const UpdateTensor& tensor : alone.tensors) update_mixed(alone, {&tensor, 1});
      CHECK(together == alone);
    }
  }
}

TEST_CASE("an update of mixed types gives tensors that no pack may start at the same bits") {
  for (const UpdateTypes& types : mixed_types) {
    const MixedModel aligned(some_sizes(), types), skipped(some_sizes(), types, 1), before(some_sizes(), types);
    update_mixed(aligned, aligned.tensors);
    update_mixed(skipped, skipped.tensors);
    CHECK(skipped == aligned);
    CHECK_FALSE(aligned == before);
  }
}

TEST_CASE("the first update of momentum does not read what the momentum held") {
  const Model model({5});
  std::fill_n(model.first.tensors[0].data<float>(), 5, std::numeric_limits<float>::quiet_NaN());
  sgd_update(UpdateTypes{}, Step(1).operands(false), model.tensors(), {.momentum = 0.9}, nullptr);
  CHECK(model.first.values() == model.gradients.values());
}

TEST_CASE("where the loss is not finite an update leaves every bit") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const double loss : {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity}) {
    const Model before(some_sizes()), model(some_sizes());
    Step step(1);
    step.statistics[loss_sum] = loss;
    for (const bool clip : {false, true}) {
      sgd_update(UpdateTypes{}, step.operands(clip), model.tensors(), {}, nullptr);
      sgd_update(UpdateTypes{}, step.operands(clip), model.tensors(), {.momentum = 0.9}, nullptr);
      adam_update(UpdateTypes{}, step.operands(clip), model.tensors(), {}, nullptr);
    }
    CHECK(model == before);
  }
  const Model before(some_sizes()), model(some_sizes());
  Step step(1);
  step.statistics[loss_sum] = std::numeric_limits<double>::max();
  sgd_update(UpdateTypes{}, step.operands(false), model.tensors(), {}, nullptr);
  CHECK_FALSE(model == before);
}

// ---- The norm -------------------------------------------------------------------------------------------------------

using Factor = std::array<float, num_gradient_factors>;

Factor computed_factor(const Tensors& gradients, DType type, const std::vector<std::int64_t>& sizes, double clip_norm) {
  std::vector<GradientView> views;
  std::int64_t num_chunks = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    views.push_back({gradients.tensors[i].data(), sizes[i], type});
    num_chunks += gradient_factor_chunks(sizes[i]);
  }
  const std::unique_ptr<double[]> workspace(new double[static_cast<std::size_t>(num_chunks)]);
  Factor factor = {-1, -1, -1};
  gradient_factor(views, {.clip_norm = clip_norm}, nullptr, factor.data(), workspace.get(), nullptr);
  return factor;
}

void check_factor(const std::vector<std::int64_t>& sizes, DType type, std::int64_t num_skipped) {
  INFO(sizes.size() << " gradients of type " << static_cast<int>(type) << ", " << num_skipped << " skipped");
  const Tensors gradients(type, sizes, 1, -1, 1, num_skipped);
  double sum = 0;
  for (const double g : gradients.values()) sum += g * g;
  const double norm = std::sqrt(sum);
  const auto result = computed_factor(gradients, type, sizes, 0.5 * norm);
  CHECK(static_cast<double>(result[0]) == Approx(norm).epsilon(1e-7));
  CHECK(static_cast<double>(result[1]) == Approx(0.5 * norm / (norm + 1e-6)).epsilon(1e-7));
  CHECK(result[2] == 1);
  CHECK(computed_factor(gradients, type, sizes, 1e6) == Factor{result[0], 1, 1});
  CHECK(computed_factor(gradients, type, sizes, 0) == Factor{result[0], 1, 1});
}

TEST_CASE("the norm of all gradients and the factor that clips it are PyTorch's, the same bits again") {
  for (const DType type : element_types)
    for (const std::int64_t num_skipped : {0, 1}) check_factor(some_sizes(), type, num_skipped);
  for (const std::int64_t count : {1, 300, 641}) check_factor(many_sizes(count), DType::f32, 0);
}

TEST_CASE("a gradient that is not finite makes the norm and the factor so that nothing hides it") {
  const std::vector<std::int64_t> sizes = {3, 5000};
  const Tensors gradients(DType::f32, sizes, 1, -1, 1);
  gradients.tensors[1].data<float>()[4999] = std::numeric_limits<float>::quiet_NaN();
  const Factor factor = computed_factor(gradients, DType::f32, sizes, 1);
  CHECK(std::isnan(factor[gradient_norm_value]));
  CHECK(std::isnan(factor[gradient_multiplier]));
  CHECK(factor[gradients_finite] == 0);
  gradients.tensors[1].data<float>()[4999] = std::numeric_limits<float>::infinity();
  CHECK(computed_factor(gradients, DType::f32, sizes, 1) == Factor{std::numeric_limits<float>::infinity(), 0, 0});
}

}  // namespace
}  // namespace trainer::cuda
