#include <fmt/format.h>

#include <array>

#include "cuda/kernels/class_parts.h"
#include "cuda/kernels/confusion_matrix.h"
#include "cuda/kernels/cross_entropy.h"
#include "cuda/kernels/dice.h"
#include "cuda/kernels/loss_parts.h"
#include "cuda/kernels/loss_scale.h"
#include "cuda/kernels/numeric_loss.h"
#include "cuda/kernels/part_statistics.h"
#include "engine/ops/class_parts.h"
#include "engine/ops/gradient_factor.h"
#include "engine/shape.h"
#include "tests/kernel_cases/kernel_case.h"

namespace trainer::cuda {
namespace {

std::size_t hold_scalars(SizedCase& sized) {
  const StepScalars step{.gradient_scale = 1.0F / 64};
  return sized.holding(OperandRole::input, DType::u8, std::as_bytes(std::span<const StepScalars>(&step, 1)));
}

std::size_t hold_statistics(SizedCase& sized, OperandRole role) {
  constexpr std::array<double, num_loss_statistics> values = {12.5, 8, 3, 5, 8};
  return sized.holding(role, DType::f64, std::as_bytes(std::span<const double>(values)));
}

struct CrossEntropyPlace {
  const char* name;
  std::int64_t samples, classes, least_samples;
  const char* kernel;
};
constexpr CrossEntropyPlace cross_entropy_places[] = {
    {"10", 32768, 10, 300, "cross_entropy_by_lanes_kernel"},
    {"1000", 8192, 1000, 40, "cross_entropy_by_lanes_kernel"},
    {"50000", 8192, 50000, 3, "cross_entropy_by_blocks_kernel"},
    {"50257", 8192, 50257, 3, "cross_entropy_by_blocks_kernel"},  // no whole packs
};

struct CrossEntropyParts {
  const char* name;
  bool loss, gradient, class_weights, mixed = false;
};
constexpr CrossEntropyParts cross_entropy_parts[] = {{"loss", true, false, false},
                                                     {"gradient", false, true, false},
                                                     {"both", true, true, false},
                                                     {"weighted", true, true, true},
                                                     {"mixed", true, true, false, true}};

SizedCase cross_entropy_of(DType type, const CrossEntropyShape& shape, const CrossEntropyParts& parts) {
  const std::int64_t count = shape.samples * shape.classes;
  SizedCase sized{.shape = fmt::format("{}x{}", shape.samples, shape.classes),
                  .bytes = count * static_cast<std::int64_t>(size_of(type)) * (parts.gradient ? 2 : 1)};
  const auto logits = sized.input(type, count, -4, 4);
  const auto targets = sized.input(DType::i32, shape.samples, 0, static_cast<double>(shape.classes));
  // Zeros: every target is the first class.
  const auto mixing = parts.mixed ? sized.input(DType::i32, mixed_samples_type(shape.samples).num_elements(), 0, 1) : 0;
  const auto scalars = hold_scalars(sized);
  const auto workspace = sized.scratch(cross_entropy_workspace_bytes(shape, parts.loss, parts.class_weights));
  const auto statistics = parts.loss ? hold_statistics(sized, OperandRole::modified) : 0;
  const auto gradients = parts.gradient ? sized.output(type, count) : 0;
  std::vector<float> weights;
  if (parts.class_weights)
    for (std::int64_t i = 0; i < shape.classes; ++i) weights.push_back(0.5F + 0.1F * static_cast<float>(i % 10));
  sized.launch = [=](const OperandAddresses& at, Stream stream) {
    cross_entropy(type,
                  {.logits = at[logits],
                   .targets = at.as<const std::int32_t>(targets),
                   .statistics = parts.loss ? at.as<double>(statistics) : nullptr,
                   .mixing = parts.mixed ? at.as<const MixedSample>(mixing) : nullptr,
                   .gradients = parts.gradient ? at[gradients] : nullptr,
                   .scalars = at.as<const StepScalars>(scalars),
                   .workspace = at[workspace]},
                  shape, {.class_weights = weights}, stream);
  };
  return sized;
}

void add_cross_entropy(KernelCases& cases, DType type, const CrossEntropyPlace& place, const CrossEntropyParts& parts) {
  std::vector<std::string> kernels = {place.kernel};
  if (parts.loss) kernels.emplace_back("add_loss_parts_kernel");
  if (parts.class_weights) kernels.emplace_back("store_class_weights_kernel");
  cases.push_back({.name = case_name("cross_entropy", type, fmt::format("{}.{}", place.name, parts.name)),
                   .kernels = std::move(kernels),
                   .units = place.samples,
                   .least_units = place.least_samples,
                   .sized = [=](std::int64_t samples, Library&) {
                     return cross_entropy_of(type, {samples, place.classes}, parts);
                   }});
}

/// The second half of as many words as GPT-2 has, of 1024 tokens of 8 texts.
ClassPartTask class_part_of(std::int64_t rows) {
  return {.rows = rows, .classes = 25128, .first_class = 25129, .all_classes = 50257, .ranks = 2, .place = 1};
}

template <typename Fill>
void add_class_part(KernelCases& cases, const char* name, std::vector<std::string> kernels, std::int64_t least_rows,
                    const Fill& fill) {
  cases.push_back({.name = case_name(name, DType::f32, "25128"),
                   .kernels = std::move(kernels),
                   .units = 8192,
                   .least_units = least_rows,
                   .sized = [fill](std::int64_t rows, Library&) {
                     SizedCase sized{.shape = fmt::format("{}x{}", rows, class_part_of(rows).classes)};
                     fill(sized, class_part_of(rows));
                     return sized;
                   }});
}

std::size_t class_statistics_input(SizedCase& sized, const ClassPartTask& task) {
  return sized.input(DType::f32, task.rows * task.ranks * num_class_statistics, 0.5, 1);
}

void add_class_parts(KernelCases& cases) {
  add_class_part(cases, "class_statistics", {"class_statistics_kernel"}, 3, [](SizedCase& sized, ClassPartTask task) {
    sized.bytes = 4 * task.rows * task.classes;
    const auto logits = sized.input(DType::f32, task.rows * task.classes, -4, 4);
    const auto targets = sized.input(DType::i32, task.rows, 0, static_cast<double>(task.all_classes));
    const auto statistics = sized.output(DType::f32, task.rows * task.ranks * num_class_statistics);
    sized.launch = [=](const OperandAddresses& at, Stream stream) {
      ClassPartTask over = task;
      over.logits = at.as<const float>(logits);
      over.targets = at.as<const std::int32_t>(targets);
      class_statistics(over, at.as<float>(statistics), stream);
    };
  });
  add_class_part(cases, "class_order", {"class_order_kernel"}, 3, [](SizedCase& sized, ClassPartTask task) {
    sized.bytes = 4 * task.rows * task.classes;
    const auto logits = sized.input(DType::f32, task.rows * task.classes, -4, 4);
    const auto targets = sized.input(DType::i32, task.rows, 0, static_cast<double>(task.all_classes));
    const auto statistics = class_statistics_input(sized, task), order = sized.output(DType::f32, task.rows);
    sized.launch = [=](const OperandAddresses& at, Stream stream) {
      ClassPartTask over = task;
      over.logits = at.as<const float>(logits);
      over.targets = at.as<const std::int32_t>(targets);
      class_order(over, at.as<const float>(statistics), at.as<float>(order), stream);
    };
  });
  add_class_part(cases, "cross_entropy_of_parts", {"cross_entropy_of_parts_kernel", "add_loss_parts_kernel"}, 300,
                 [](SizedCase& sized, ClassPartTask task) {
                   sized.bytes = 4 * task.rows * (2 + task.ranks * num_class_statistics);
                   const auto targets = sized.input(DType::i32, task.rows, 0, static_cast<double>(task.all_classes));
                   const auto of_classes = class_statistics_input(sized, task);
                   const auto order = sized.input(DType::f32, task.rows, 0, 9);
                   const auto statistics = hold_statistics(sized, OperandRole::modified);
                   const auto workspace = sized.scratch(class_part_workspace_bytes(task.rows));
                   sized.launch = [=](const OperandAddresses& at, Stream stream) {
                     ClassPartTask over = task;
                     over.targets = at.as<const std::int32_t>(targets);
                     cross_entropy_of_parts(over, at.as<const float>(of_classes), at.as<const float>(order),
                                            at.as<double>(statistics), at[workspace], stream);
                   };
                 });
  add_class_part(cases, "cross_entropy_of_parts_backward", {"cross_entropy_of_parts_backward_kernel"}, 3,
                 [](SizedCase& sized, ClassPartTask task) {
                   sized.bytes = 8 * task.rows * task.classes;
                   const auto logits = sized.input(DType::f32, task.rows * task.classes, -4, 4);
                   const auto targets = sized.input(DType::i32, task.rows, 0, static_cast<double>(task.all_classes));
                   const auto statistics = class_statistics_input(sized, task), scalars = hold_scalars(sized);
                   const auto gradients = sized.output(DType::f32, task.rows * task.classes);
                   sized.launch = [=](const OperandAddresses& at, Stream stream) {
                     ClassPartTask over = task;
                     over.logits = at.as<const float>(logits);
                     over.targets = at.as<const std::int32_t>(targets);
                     cross_entropy_of_parts_backward(over, at.as<const float>(statistics),
                                                     at.as<const StepScalars>(scalars), at.as<float>(gradients),
                                                     stream);
                   };
                 });
}

struct NumericLoss {
  const char* name;
  void (*forward)(DType, const NumericLossOperands&, std::int64_t, Stream);
  void (*backward)(DType, const NumericLossGradientOperands&, std::int64_t, Stream);
};
constexpr NumericLoss numeric_losses[] = {
    {"mse", mse_forward, mse_backward},
    {"bce_with_logits", bce_with_logits_forward, bce_with_logits_backward},
    {"smooth_l1",
     [](DType type, const NumericLossOperands& operands, std::int64_t count, Stream stream) {
       smooth_l1_forward(type, 1, operands, count, stream);
     },
     [](DType type, const NumericLossGradientOperands& operands, std::int64_t count, Stream stream) {
       smooth_l1_backward(type, 1, operands, count, stream);
     }}};

void add_numeric_loss(KernelCases& cases, DType type, const NumericLoss& loss) {
  constexpr std::int64_t numbers = std::int64_t{1} << 24, few_numbers = 9001;
  cases.push_back({.name = case_name(fmt::format("{}_forward", loss.name), type, ""),
                   .kernels = {"numeric_loss_kernel", "add_loss_parts_kernel"},
                   .units = numbers,
                   .least_units = few_numbers,
                   .sized = [=](std::int64_t count, Library&) {
                     SizedCase sized{.shape = fmt::format("{}", count),
                                     .bytes = 2 * count * static_cast<std::int64_t>(size_of(type))};
                     const auto prediction = sized.input(type, count), targets = sized.input(type, count, 0, 1);
                     const auto statistics = hold_statistics(sized, OperandRole::modified);
                     const auto workspace = sized.scratch(numeric_loss_workspace_bytes(count));
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       loss.forward(type,
                                    {.prediction = at[prediction],
                                     .targets = at[targets],
                                     .statistics = at.as<double>(statistics),
                                     .workspace = at[workspace]},
                                    count, stream);
                     };
                     return sized;
                   }});
  cases.push_back({.name = case_name(fmt::format("{}_backward", loss.name), type, ""),
                   .kernels = {"elementwise_kernel"},
                   .units = numbers,
                   .least_units = few_numbers,
                   .sized = [=](std::int64_t count, Library&) {
                     SizedCase sized{.shape = fmt::format("{}", count),
                                     .bytes = 3 * count * static_cast<std::int64_t>(size_of(type))};
                     const auto prediction = sized.input(type, count), targets = sized.input(type, count, 0, 1);
                     const auto gradients = sized.output(type, count);
                     const auto scalars = hold_scalars(sized);
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       loss.backward(type,
                                     {.prediction = at[prediction],
                                      .targets = at[targets],
                                      .gradients = at[gradients],
                                      .scalars = at.as<const StepScalars>(scalars)},
                                     count, stream);
                     };
                     return sized;
                   }});
}

/// Logits and targets of places, such as pixels of `images` of 512 × 512 or, the least, of a few.
struct Places {
  std::size_t logits = 0, targets = 0;
};
Places add_places(SizedCase& sized, std::int64_t rows, std::int64_t channels) {
  sized.shape = fmt::format("{}x{}", rows, channels);
  sized.bytes = 4 * rows * (channels + 1);
  return {sized.input(DType::f32, rows * channels, -4, 4),
          sized.input(DType::i32, rows, 0, static_cast<double>(channels))};
}

constexpr std::int64_t pixels_of_batch = std::int64_t{16} * 512 * 512, few_pixels = 3001;

void add_dice(KernelCases& cases, std::int64_t channels) {
  const auto task_of = [channels](std::int64_t rows) {
    return DiceTask{.rows = rows, .channels = channels, .batch = 16, .smooth = 1};
  };
  const auto over = [](DiceTask task, const OperandAddresses& at, const Places& places) {
    task.logits = at.as<const float>(places.logits);
    task.targets = at[places.targets];
    return task;
  };
  cases.push_back({.name = case_name("dice_sums", DType::f32, fmt::format("{}", channels)),
                   .kernels = {"dice_rows_kernel", "dice_sums_kernel", "add_dice_parts_kernel"},
                   .units = pixels_of_batch,
                   .least_units = few_pixels,
                   .sized = [=](std::int64_t rows, Library&) {
                     SizedCase sized;
                     const Places places = add_places(sized, rows, channels);
                     sized.bytes += 4 * rows * channels;  // a second time
                     const auto sums = sized.output(DType::f64, channels * 3);
                     const auto workspace = sized.scratch(dice_sums_workspace_bytes(rows, channels, true));
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       dice_sums(over(task_of(rows), at, places), at.as<double>(sums), at[workspace], stream);
                     };
                     return sized;
                   }});
  cases.push_back({.name = case_name("dice_backward", DType::f32, fmt::format("{}", channels)),
                   .kernels = {"dice_slopes_kernel", "dice_backward_kernel"},
                   .units = pixels_of_batch,
                   .least_units = few_pixels,
                   .sized = [=](std::int64_t rows, Library&) {
                     SizedCase sized;
                     const Places places = add_places(sized, rows, channels);
                     sized.bytes += 4 * rows * channels;
                     const auto sums = sized.input(DType::f64, channels * 3, 1, 2);
                     const auto gradients = sized.output(DType::f32, rows * channels);
                     const auto scalars = hold_scalars(sized);
                     const auto workspace = sized.scratch(dice_backward_workspace_bytes(channels));
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       dice_backward(over(task_of(rows), at, places), at.as<const double>(sums),
                                     at.as<const StepScalars>(scalars), at.as<float>(gradients), at[workspace], stream);
                     };
                     return sized;
                   }});
}

void add_confusion_matrix(KernelCases& cases, std::int64_t channels) {
  cases.push_back({.name = case_name("confusion_matrix", DType::f32, fmt::format("{}", channels)),
                   .kernels = {"confusion_matrix_kernel"},
                   .units = pixels_of_batch,
                   .least_units = few_pixels,
                   .sized = [=](std::int64_t rows, Library&) {
                     SizedCase sized;
                     const Places places = add_places(sized, rows, channels);
                     const std::vector<std::int64_t> none(static_cast<std::size_t>(channels * channels));
                     const auto counts = sized.holding(OperandRole::modified, DType::i64,
                                                       std::as_bytes(std::span<const std::int64_t>(none)));
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       confusion_matrix({.logits = at.as<const float>(places.logits),
                                         .targets = at[places.targets],
                                         .counts = at.as<std::int64_t>(counts),
                                         .rows = rows,
                                         .channels = channels,
                                         .num_classes = channels},
                                        stream);
                     };
                     return sized;
                   }});
}

void add_error_statistics(KernelCases& cases, DType type) {
  cases.push_back({.name = case_name("error_statistics", type, ""),
                   .kernels = {"numeric_loss_kernel", "add_loss_parts_kernel"},
                   .units = std::int64_t{1} << 24,
                   .least_units = 9001,
                   .sized = [=](std::int64_t count, Library&) {
                     SizedCase sized{.shape = fmt::format("{}", count),
                                     .bytes = 2 * count * static_cast<std::int64_t>(size_of(type))};
                     const auto prediction = sized.input(type, count), targets = sized.input(type, count, 0, 1);
                     const auto sums = hold_statistics(sized, OperandRole::modified);
                     const auto workspace = sized.scratch(numeric_loss_workspace_bytes(count));
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       error_statistics(type,
                                        {.prediction = at[prediction],
                                         .targets = at[targets],
                                         .statistics = at.as<double>(sums),
                                         .workspace = at[workspace]},
                                        count, stream);
                     };
                     return sized;
                   }});
}

/// A few numbers once a step: what counts is the time of the launch.
template <typename Fill>
void add_small(KernelCases& cases, std::string name, std::string kernel, const Fill& fill) {
  cases.push_back({.name = std::move(name),
                   .kernels = {std::move(kernel)},
                   .grows = false,
                   .sized = [fill](std::int64_t, Library&) {
                     SizedCase sized{.shape = "1"};
                     fill(sized);
                     for (const CaseOperand& operand : sized.operands) sized.bytes += operand.num_bytes();
                     return sized;
                   }});
}

void add_small_kernels(KernelCases& cases) {
  add_small(cases, "start_loss_statistics", "start_loss_statistics_kernel", [](SizedCase& sized) {
    const auto statistics = hold_statistics(sized, OperandRole::modified);
    sized.launch = [=](const OperandAddresses& at, Stream stream) {
      start_loss_statistics(at.as<double>(statistics), 1, true, stream);
    };
  });
  add_small(cases, "keep_part_statistics", "keep_part_statistics_kernel", [](SizedCase& sized) {
    const auto statistics = hold_statistics(sized, OperandRole::modified);
    const auto kept = sized.modified(DType::f64, 8 * num_loss_statistics, 0, 1);
    sized.launch = [=](const OperandAddresses& at, Stream stream) {
      keep_part_statistics(at.as<double>(statistics), at.as<double>(kept), 1, 5, stream);
    };
  });
  add_small(cases, "sum_part_statistics", "sum_part_statistics_kernel", [](SizedCase& sized) {
    const auto statistics = hold_statistics(sized, OperandRole::modified);
    const auto kept = sized.modified(DType::f64, 8 * num_loss_statistics, 0, 1);
    sized.launch = [=](const OperandAddresses& at, Stream stream) {
      sum_part_statistics(at.as<double>(statistics), at.as<double>(kept), 1, 8, stream);
    };
  });
  add_small(cases, "add_loss_parts", "add_loss_parts_kernel", [](SizedCase& sized) {
    constexpr std::int64_t num_parts = 1000;
    const auto parts = sized.input(DType::f64, num_parts * num_loss_statistics, 0, 1);
    const auto statistics = hold_statistics(sized, OperandRole::modified);
    sized.launch = [=](const OperandAddresses& at, Stream stream) {
      add_loss_parts(at.as<const LossPart>(parts), num_parts, at.as<double>(statistics), 0, stream);
    };
  });
  add_small(cases, "dice_loss", "dice_loss_kernel", [](SizedCase& sized) {
    const DiceTask task{.rows = 64, .channels = 21, .batch = 8, .smooth = 1};
    const auto sums = sized.input(DType::f64, task.channels * 3, 0, 1);
    const auto statistics = hold_statistics(sized, OperandRole::modified);
    sized.launch = [=](const OperandAddresses& at, Stream stream) {
      dice_loss(task, at.as<const double>(sums), at.as<double>(statistics), stream);
    };
  });
  add_small(cases, "update_loss_scale", "update_loss_scale_kernel", [](SizedCase& sized) {
    constexpr std::array<float, num_gradient_factors> factor_values = {4, 0.25F, 1};
    constexpr LossScaleState state_values = {1024, 3, 0};
    const auto statistics = hold_statistics(sized, OperandRole::input);
    const auto factor =
        sized.holding(OperandRole::input, DType::f32, std::as_bytes(std::span<const float>(factor_values)));
    const auto state =
        sized.holding(OperandRole::modified, DType::f64, std::as_bytes(std::span<const double>(state_values)));
    sized.launch = [=](const OperandAddresses& at, Stream stream) {
      update_loss_scale(at.as<const double>(statistics), at.as<const float>(factor), {}, at.as<double>(state), stream);
    };
  });
}

}  // namespace

void add_loss_cases(KernelCases& cases) {
  for (const DType type : case_types) {
    for (const CrossEntropyPlace& place : cross_entropy_places)
      for (const CrossEntropyParts& parts : cross_entropy_parts) add_cross_entropy(cases, type, place, parts);
    for (const NumericLoss& loss : numeric_losses) add_numeric_loss(cases, type, loss);
    add_error_statistics(cases, type);
  }
  for (const std::int64_t channels : {3, 21}) {
    add_dice(cases, channels);
    add_confusion_matrix(cases, channels);
  }
  add_class_parts(cases);
  add_small_kernels(cases);
}

}  // namespace trainer::cuda
