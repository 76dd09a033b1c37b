#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "cuda/kernels/cross_entropy.h"
#include "cuda/kernels/numeric_loss.h"
#include "tests/cuda/kernel_tensor.h"

namespace trainer::cuda {
namespace {

using Numbers = std::vector<double>;

constexpr double gradient_scale = 0.125;
constexpr StepScalars step_scalars{.gradient_scale = 0.125F};

/// The statistics start at these, to which a loss adds.
const Numbers earlier = {0.5, 2, 1, 1, 3};

std::size_t loss_index(std::int64_t index) { return static_cast<std::size_t>(index); }

struct LossCase {
  CrossEntropyShape shape;
  double smoothing = 0;
  bool has_weights = false;
  DType type = DType::f32;
  double spread = 3;
  std::int32_t ignored = -100;
};

// A lane, some lanes of a warp and a block for each row, in packs and not; rows at and past what a block takes at once
// and in all; class weights of more than one launch.
constexpr CrossEntropyShape loss_shapes[] = {{1, 1},     {7, 2},    {129, 10}, {257, 4},  {1031, 3}, {65, 33},
                                             {17, 1000}, {3, 1024}, {3, 1025}, {2, 5003}, {2, 4104}};

std::int64_t num_elements(const CrossEntropyShape& shape) { return shape.samples * shape.classes; }

std::vector<float> weights_of(const LossCase& c) {
  if (!c.has_weights) return {};
  std::vector<float> weights;
  for (const double weight : random_numbers(c.shape.classes, 3, 0.25, 2)) weights.push_back(static_cast<float>(weight));
  return weights;
}

std::vector<std::int32_t> targets_of(const LossCase& c) {
  std::vector<std::int32_t> targets;
  for (const double target : random_numbers(c.shape.samples, 2, 0, static_cast<double>(c.shape.classes)))
    targets.push_back(c.ignored >= c.shape.classes && targets.size() % 3 == 1 ? c.ignored
                                                                              : static_cast<std::int32_t>(target));
  return targets;
}

struct LossResult {
  Numbers statistics = earlier;
  Numbers gradients;
};

enum class Wanted { statistics, gradients, both };

/// `in_place`: gradients over the logits. `num_skipped`: elements that take away the alignment.
LossResult computed(const LossCase& c, const Numbers& logits, const std::vector<std::int32_t>& targets, Wanted wanted,
                    bool in_place = false, std::int64_t num_skipped = 0) {
  LossResult result;
  const std::vector<float> weights = weights_of(c);
  const KernelTensor x(c.type, logits, num_skipped);
  const KernelTensor dx(c.type, num_elements(c.shape), num_skipped);
  const KernelTensor workspace(DType::u8,
                               cross_entropy_workspace_bytes(c.shape, wanted != Wanted::gradients, c.has_weights));
  const KernelTensor& gradients = in_place ? x : dx;
  cross_entropy(c.type,
                {.logits = x.data(),
                 .targets = targets.data(),
                 .statistics = wanted == Wanted::gradients ? nullptr : result.statistics.data(),
                 .gradients = wanted == Wanted::statistics ? nullptr : gradients.data(),
                 .scalars = &step_scalars,
                 .workspace = workspace.data()},
                c.shape, {.label_smoothing = c.smoothing, .class_weights = weights, .ignore_index = c.ignored},
                nullptr);
  if (wanted != Wanted::statistics) result.gradients = gradients.values();
  if (!in_place) CHECK(x == KernelTensor(c.type, logits, num_skipped));
  return result;
}

/// By the definition, in double, from the logits as they are stored.
LossResult expected(const LossCase& c, const Numbers& logits, const std::vector<std::int32_t>& targets) {
  LossResult result;
  const Numbers stored = KernelTensor(c.type, logits).values();
  const std::vector<float> weights = weights_of(c);
  const std::int64_t classes = c.shape.classes;
  const auto weight = [&](std::int64_t k) {
    return weights.empty() ? 1.0 : static_cast<double>(weights[loss_index(k)]);
  };
  for (std::int64_t sample = 0; sample < c.shape.samples; ++sample) {
    const double* const row = stored.data() + sample * classes;
    const std::int64_t target = targets[loss_index(sample)];
    if (target == c.ignored) {
      result.gradients.insert(result.gradients.end(), loss_index(classes), 0);
      continue;
    }
    const double shift = *std::max_element(row, row + classes);
    double sum = 0;
    for (std::int64_t k = 0; k < classes; ++k) sum += std::exp(row[k] - shift);
    // How much each class counts as the truth.
    Numbers share(loss_index(classes));
    for (std::int64_t k = 0; k < classes; ++k)
      share[loss_index(k)] = weight(k) * c.smoothing / static_cast<double>(classes);
    share[loss_index(target)] += weight(target) * (1 - c.smoothing);
    double total_share = 0;
    for (std::int64_t k = 0; k < classes; ++k) {
      total_share += share[loss_index(k)];
      result.statistics[loss_sum] -= share[loss_index(k)] * (row[k] - shift - std::log(sum));
    }
    for (std::int64_t k = 0; k < classes; ++k)
      result.gradients.push_back(gradient_scale *
                                 (std::exp(row[k] - shift) / sum * total_share - share[loss_index(k)]));
    std::vector<std::int64_t> order;
    for (std::int64_t k = 0; k < classes; ++k) order.push_back(k);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return row[a] > row[b]; });
    const auto rank = std::find(order.begin(), order.end(), target) - order.begin();
    result.statistics[loss_weight] += weight(target);
    result.statistics[num_correct] += rank == 0 ? 1 : 0;
    result.statistics[num_correct_top5] += rank < 5 ? 1 : 0;
    result.statistics[num_counted] += 1;
  }
  return result;
}

void check_case(const LossCase& c) {
  INFO(c.shape.samples << " × " << c.shape.classes << ", smoothing " << c.smoothing << ", weights " << c.has_weights
                       << ", type " << static_cast<int>(c.type));
  const Numbers logits = random_numbers(num_elements(c.shape), 1, -c.spread, c.spread);
  const std::vector<std::int32_t> targets = targets_of(c);
  const LossResult slow = expected(c, logits, targets);
  const LossResult both = computed(c, logits, targets, Wanted::both);
  CHECK(difference(both.statistics, slow.statistics) < 1e-6);
  const double storage = c.type == DType::f32 ? 1e-6 : tolerance_of(c.type) * gradient_scale;
  CHECK(difference(both.gradients, slow.gradients) < storage);

  // One pass or two, apart or in place: the same bits.
  CHECK(computed(c, logits, targets, Wanted::statistics).statistics == both.statistics);
  CHECK(computed(c, logits, targets, Wanted::gradients).gradients == both.gradients);
  const LossResult in_place = computed(c, logits, targets, Wanted::both, true);
  CHECK(in_place.statistics == both.statistics);
  CHECK(in_place.gradients == both.gradients);
}

TEST_CASE("cross-entropy kernels compute loss, counts and gradient of any number of classes") {
  for (const CrossEntropyShape& shape : loss_shapes) check_case({shape});
}

TEST_CASE("cross-entropy kernels smooth labels and weigh classes") {
  for (const CrossEntropyShape& shape : loss_shapes) {
    check_case({.shape = shape, .smoothing = 0.1});
    check_case({.shape = shape, .has_weights = true});
    check_case({.shape = shape, .smoothing = 0.3, .has_weights = true});
  }
}

TEST_CASE("cross-entropy kernels leave out targets that are ignored, classes or not") {
  for (const CrossEntropyShape& shape : loss_shapes) {
    for (const std::int32_t ignored : {0, static_cast<std::int32_t>(shape.classes) + 7}) {
      check_case({.shape = shape, .ignored = ignored});
      check_case({.shape = shape, .smoothing = 0.2, .has_weights = true, .ignored = ignored});
    }
  }
}

TEST_CASE("cross-entropy kernels read and write logits of 16 bits") {
  for (const DType type : {DType::f16, DType::bf16}) {
    for (const CrossEntropyShape& shape : loss_shapes) check_case({.shape = shape, .type = type});
  }
}

// A small batch of few classes is one block; past a thousand blocks a part is more rows.
static_assert(cross_entropy_teams({128, 10}).num_parts == 1);
static_assert(cross_entropy_teams({1024, 5000}).rows_per_part == 1);
static_assert(cross_entropy_teams({1025, 5000}).rows_per_part == 2 &&
              cross_entropy_teams({1025, 5000}).num_parts == 513);

TEST_CASE("cross-entropy kernels keep large logits") {
  check_case({.shape = {9, 7}, .spread = 300});
  check_case({.shape = {2, 1500}, .spread = 300});
}

TEST_CASE("cross-entropy kernels take logits that no pack may start at") {
  const LossCase c{.shape = {3, 4104}, .smoothing = 0.1};
  const Numbers logits = random_numbers(num_elements(c.shape), 1, -3, 3);
  const std::vector<std::int32_t> targets = targets_of(c);
  const LossResult slow = expected(c, logits, targets);
  const LossResult result = computed(c, logits, targets, Wanted::both, false, 1);
  CHECK(difference(result.statistics, slow.statistics) < 1e-6);
  CHECK(difference(result.gradients, slow.gradients) < 1e-6);
}

TEST_CASE("of equal logits the first class comes first, in every lane") {
  for (const std::int64_t classes : {7, 40, 1100}) {
    const std::vector<std::int32_t> targets = {0, 1, 4, 5, 6, static_cast<std::int32_t>(classes - 1)};
    const LossCase c{{static_cast<std::int64_t>(targets.size()), classes}};
    const LossResult result = computed(c, Numbers(loss_index(num_elements(c.shape))), targets, Wanted::statistics);
    CHECK(result.statistics[num_correct] == earlier[num_correct] + 1);
    CHECK(result.statistics[num_correct_top5] == earlier[num_correct_top5] + 3);
  }
}

TEST_CASE("logits of minus infinity have no probability; a NaN, an infinity or nothing else make the loss NaN") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::int64_t classes : {3, 60, 1300}) {
    const LossCase c{{1, classes}};
    const auto loss = [&](double first, double second, double others, std::int32_t target) {
      Numbers logits(loss_index(classes), others);
      logits[0] = first;
      logits[1] = second;
      return computed(c, logits, {target}, Wanted::both);
    };
    const LossResult sure = loss(0, 0, -infinity, 1);
    CHECK(sure.statistics[loss_sum] == Approx(earlier[loss_sum] + std::log(2.0)));
    CHECK(sure.gradients[0] == Approx(gradient_scale / 2));
    CHECK(sure.gradients[2] == 0);
    CHECK(loss(-infinity, 0, -infinity, 0).statistics[loss_sum] == infinity);
    for (const LossResult& result : {loss(nan, 0, 0, 1), loss(0, infinity, 0, 1), loss(0, infinity, 0, 0),
                                     loss(-infinity, -infinity, -infinity, 0)}) {
      CHECK(std::isnan(result.statistics[loss_sum]));
      CHECK(std::isnan(result.gradients[0]));
    }
    CHECK(loss(nan, 0, -1, 1).statistics[num_correct] == earlier[num_correct]);
  }
}

TEST_CASE("a target that is no class makes the loss NaN and its row of gradients, no other") {
  for (const std::int64_t classes : {5, 1200}) {
    for (const bool has_weights : {false, true}) {
      const LossCase c{.shape = {3, classes}, .smoothing = 0.1, .has_weights = has_weights};
      const Numbers logits = random_numbers(num_elements(c.shape), 1);
      for (const std::int64_t target : {std::int64_t{-1}, classes, std::int64_t{1} << 30}) {
        const LossResult result = computed(c, logits, {0, static_cast<std::int32_t>(target), 1}, Wanted::both);
        CHECK(std::isnan(result.statistics[loss_sum]));
        CHECK(result.statistics[num_counted] == earlier[num_counted] + 3);
        for (std::int64_t i = 0; i < num_elements(c.shape); ++i) {
          const bool is_nan = std::isnan(result.gradients[loss_index(i)]);
          REQUIRE(is_nan == (i / classes == 1));
        }
      }
    }
  }
}

// ---- Losses over numbers --------------------------------------------------------------------------------------------

struct NumericLoss {
  void (*forward)(DType, const NumericLossOperands&, std::int64_t, Stream);
  void (*backward)(DType, const NumericLossGradientOperands&, std::int64_t, Stream);
  double (*cost)(double prediction, double target);
  double (*slope)(double prediction, double target);
  bool counts_correct;
};

template <int beta_tenths>
NumericLoss smooth_l1_loss() {
  constexpr double beta = beta_tenths / 10.0;
  return {[](DType type, const NumericLossOperands& operands, std::int64_t count, Stream stream) {
            smooth_l1_forward(type, beta, operands, count, stream);
          },
          [](DType type, const NumericLossGradientOperands& operands, std::int64_t count, Stream stream) {
            smooth_l1_backward(type, beta, operands, count, stream);
          },
          [](double p, double t) {
            const double error = std::fabs(p - t);
            return error < beta ? error * error / (2 * beta) : error - beta / 2;
          },
          [](double p, double t) {
            const double error = p - t, sign = error > 0 ? 1 : -1;
            return std::fabs(error) < beta ? error / beta : error == 0 ? 0 : sign;
          },
          false};
}

const NumericLoss numeric_losses[] = {
    smooth_l1_loss<0>(),
    smooth_l1_loss<10>(),
    smooth_l1_loss<25>(),
    {mse_forward, mse_backward, [](double p, double t) { return (p - t) * (p - t); },
     [](double p, double t) { return 2 * (p - t); }, false},
    {bce_with_logits_forward, bce_with_logits_backward,
     [](double x, double t) {
       const double p = 1 / (1 + std::exp(-x));
       return -(t * std::log(p) + (1 - t) * std::log(1 - p));
     },
     [](double x, double t) { return 1 / (1 + std::exp(-x)) - t; }, true},
};

// Past a thousand blocks a part is more than one loop over 4096.
static_assert(numeric_loss_parts(1024 * 4096).part_elements == 4096);
static_assert(numeric_loss_parts(1024 * 4096 + 1).part_elements == 8192);
static_assert(numeric_loss_parts(1024 * 4096 + 1).num_parts == 513);

TEST_CASE("mse, bce and smooth l1 kernels compute loss, counts and gradient of any count, the same bits again") {
  // One part, its end and past it.
  for (const std::int64_t count : {1, 3, 257, 4096, 4097, 12289}) {
    for (const NumericLoss& loss : numeric_losses) {
      for (const DType type : element_types) {
        for (const std::int64_t num_skipped : {0, 1}) {
          INFO(count << " numbers of type " << static_cast<int>(type) << ", " << num_skipped << " skipped");
          const KernelTensor x(type, random_numbers(count, 1, -4, 4), num_skipped);
          Numbers wanted = random_numbers(count, 2, 0, 1);
          for (std::size_t i = 0; i < wanted.size(); i += 2) wanted[i] = std::round(wanted[i]);
          const KernelTensor targets(type, wanted, num_skipped);
          const Numbers prediction = x.values(), target = targets.values();
          Numbers statistics = earlier, slopes;
          for (std::size_t i = 0; i < prediction.size(); ++i) {
            statistics[loss_sum] += loss.cost(prediction[i], target[i]);
            statistics[loss_weight] += 1;
            slopes.push_back(gradient_scale * loss.slope(prediction[i], target[i]));
            if (!loss.counts_correct) continue;
            statistics[num_correct] += (prediction[i] > 0) == (target[i] > 0.5) ? 1 : 0;
            statistics[num_counted] += 1;
          }
          Numbers results[2] = {earlier, earlier};
          for (Numbers& result : results) {
            const KernelTensor workspace(DType::u8, numeric_loss_workspace_bytes(count));
            loss.forward(type, {x.data(), targets.data(), result.data(), workspace.data()}, count, nullptr);
          }
          CHECK(difference(results[0], statistics) < 1e-6);
          CHECK(results[0] == results[1]);
          const KernelTensor gradients(type, count, num_skipped);
          loss.backward(type, {x.data(), targets.data(), gradients.data(), &step_scalars}, count, nullptr);
          CHECK(difference(gradients.values(), slopes) < tolerance_of(type));
          loss.backward(type, {x.data(), targets.data(), x.data(), &step_scalars}, count, nullptr);
          CHECK(x == gradients);
        }
      }
    }
  }
}

TEST_CASE("bce kernels neither overflow nor lose small losses") {
  const KernelTensor x(DType::f32, {200, -200, 200, -200});
  const KernelTensor targets(DType::f32, {1, 0, 0, 1});
  Numbers statistics(num_loss_statistics);
  bce_with_logits_forward(DType::f32, {x.data(), targets.data(), statistics.data(), nullptr}, 4, nullptr);
  CHECK(statistics == Numbers{400, 4, 2, 0, 4});
}

}  // namespace
}  // namespace trainer::cuda
