#include <fmt/format.h>

#include <cstring>
#include <optional>

#include "datasets/arrays/array_field.h"
#include "datasets/arrays/chosen_arrays.h"
#include "datasets/dataset_format.h"

// Arrays of numbers in files: .npy (numpy.lib.format), .npz, which is a ZIP archive of such, and safetensors.

namespace trainer {
namespace {

class ArraysDataset final : public Dataset {
 public:
  ArraysDataset(ArrayField input, ArrayField target)
      : Dataset({input.type()}, target.type()), input_(std::move(input)), target_(std::move(target)) {}

  std::int64_t size() const override { return input_.size(); }
  void read(std::int64_t index, std::span<std::byte* const> fields) const override {
    input_.read(index, fields[0]);
    target_.read(index, fields[1]);
  }
  void read_classes(std::int64_t index, std::int32_t* classes) const override {
    require_internal(categorical(), "classes belong to categorical data");
    target_.read(index, reinterpret_cast<std::byte*>(classes));
  }
  std::optional<std::uint32_t> content_crc32() const override { return input_.crc32(); }

 private:
  ArrayField input_, target_;  ///< loaded: the input behind the target
};

/// Whether the axes of an image, (N, C, H, W) or (N, H, W, C), have the channels first.
bool has_channels_first(const DataConfig& config, const ArraySource& source) {
  if (config.layout != ImageLayout::automatic) return config.layout == ImageLayout::channels_first;
  constexpr std::int64_t most_usual_channels = 4;
  const Shape& shape = source.array().shape;
  const bool first_may_be = shape[1] <= most_usual_channels, last_is_usual = shape[3] <= most_usual_channels;
  const bool is_square = shape[1] == shape[2] && shape[2] != shape[3];
  if (!first_may_be && (last_is_usual || is_square)) return false;
  throw data_config_error(
      config,
      fmt::format("{}: {} are images whose axis of channels is not told by their shape{}", source.name(),
                  source.array().type, first_may_be && !last_is_usual ? "; it seems to be the first" : ""),
      "data.layout: channels_first, which is (N, C, H, W), or channels_last, which is (N, H, W, C)");
}

/// The shape of a sample, for an array of 1 to 5 dimensions: one number is (1), what has two dimensions an image of one
/// channel.
void set_sample_shape(const DataConfig& config, const ArraySource& source, ArrayFieldPlan& plan) {
  const Shape& shape = source.array().shape;
  switch (shape.rank()) {
    case 1:
      plan.of_sample = Shape{1};
      return;
    case 3:
      plan.of_sample = Shape{shape[1], shape[2], 1};
      return;
    case 4:
      plan.channels_first = has_channels_first(config, source);
      plan.of_sample = plan.channels_first ? Shape{shape[2], shape[3], shape[1]} : Shape{shape[1], shape[2], shape[3]};
      // Nothing is to be moved then.
      plan.channels_first = plan.channels_first && shape[1] > 1;
      return;
    default:
      plan.of_sample = Shape(std::span(shape.begin() + 1, shape.end()));
  }
}

ArrayFieldPlan input_plan(const DataConfig& config, const ArraySource& source) {
  ArrayFieldPlan plan;
  const int rank = source.array().shape.rank();
  const bool are_images = rank == 3 || rank == 4;
  if (source.array().element == ArrayElement::u8 && are_images) plan.use = ArrayUse::pixels;
  set_sample_shape(config, source, plan);
  return plan;
}

ArrayFieldPlan class_plan(const DataConfig& config, const ArraySource& source) {
  const StoredArray& array = source.array();
  const Shape& shape = array.shape;
  if (is_float(array.element))
    throw source.error(
        fmt::format("its targets are {}, and classes are whole numbers: np.save(\"y.npy\", "
                    "y.astype(np.int64)), of one-hot ones y.argmax(1); or data.target_type: numeric",
                    array.type));
  const bool is_column = shape.rank() == 2 && shape[1] == 1;
  if (shape.rank() != 1 && shape.rank() != 3 && !is_column)
    throw source.error(
        fmt::format("its targets are {}; expected one class a sample, (N,), or a class for each pixel, "
                    "(N, H, W): of one-hot ones y.argmax(1)",
                    array.type));
  ArrayFieldPlan plan;
  plan.use = ArrayUse::classes;
  plan.of_sample = shape.rank() == 3 ? Shape{shape[1], shape[2]} : Shape{};
  // Of two samples that are mixed none can be left out.
  if (config.batch_transforms.empty()) plan.limits.ignored = config.ignored_target;
  return plan;
}

ArrayFieldPlan target_plan(const DataConfig& config, const ArraySource& source) {
  if (is_categorical(config)) return class_plan(config, source);
  ArrayFieldPlan plan;
  plan.use = config.targets_are_probabilities ? ArrayUse::probabilities : ArrayUse::numbers;
  if (source.array().shape.rank() > 4)
    throw source.error(fmt::format("its targets are {}; expected at most (N, H, W, C)", source.array().type));
  set_sample_shape(config, source, plan);
  return plan;
}

/// Training or validation: which arrays, and what is made of them.
struct PlannedArrays {
  ChosenArrays arrays;
  ArrayFieldPlan input, target;

  std::int64_t size() const { return arrays.input.array().shape[0]; }
  std::int64_t held_bytes() const {
    return input.held_bytes(arrays.input.array()) + target.held_bytes(arrays.target.array());
  }
};

PlannedArrays planned(const DataConfig& config, ChosenArrays arrays) {
  const ArraySource &input = arrays.input, &target = arrays.target;
  if (input.array().shape[0] != target.array().shape[0])
    throw DataError(fmt::format("{} has {} samples, but {} has {} targets", input.name(), input.array().shape[0],
                                target.name(), target.array().shape[0]));
  ArrayFieldPlan of_input = input_plan(config, input), of_target = target_plan(config, target);
  return {std::move(arrays), std::move(of_input), std::move(of_target)};
}

void check_alike(const ArrayFieldPlan& train, const ArraySource& of_train, const ArrayFieldPlan& validation,
                 const ArraySource& of_validation) {
  if (train.type() == validation.type()) return;
  throw DataError(fmt::format("{} is {}, but {} is {}: samples of training and validation must be alike",
                              of_validation.name(), of_validation.array().type, of_train.name(),
                              of_train.array().type));
}

struct PlannedData {
  PlannedArrays train;
  std::optional<PlannedArrays> validation;
};

PlannedData planned_data(const DataConfig& config) {
  PlannedData data{planned(config, choose_train_arrays(config)), std::nullopt};
  if (const auto paths = validation_array_paths(config)) {
    const PlannedArrays& validation =
        data.validation.emplace(planned(config, choose_validation_arrays(config, *paths)));
    check_alike(data.train.input, data.train.arrays.input, validation.input, validation.arrays.input);
    check_alike(data.train.target, data.train.arrays.target, validation.target, validation.arrays.target);
  }
  return data;
}

std::int64_t num_array_classes(const DataConfig& config, const PlannedData& data) {
  return config.classes > 0 ? config.classes : count_classes(data.train.arrays.target, config.ignored_target);
}

std::vector<std::string> array_files(const DataConfig& config) {
  const ArrayPaths train = train_array_paths(config);
  std::vector<std::string> files = {train.input, train.target};
  if (const auto validation = validation_array_paths(config)) {
    files.push_back(validation->input);
    files.push_back(validation->target);
  }
  return files;
}

DatasetHeader inspect_arrays(const DataConfig& config) {
  const PlannedData data = planned_data(config);
  DatasetHeader header;
  header.source = data.train.arrays.input.name();
  header.sample = data.train.input.type();
  header.categorical = is_categorical(config);
  header.num_train = data.train.size();
  header.held_bytes = data.train.held_bytes();
  if (data.validation) {
    header.num_validation = data.validation->size();
    *header.held_bytes += data.validation->held_bytes();
  }
  const Shape& of_target = data.train.target.of_sample;
  if (header.categorical) {
    header.target_shape = of_target;
    header.num_outputs = num_array_classes(config, data);
  } else {
    // (N) and (N, 1) are alike.
    if (of_target != Shape{1}) header.target_shape = of_target;
    header.num_outputs = of_target.num_elements();
  }
  return header;
}

std::shared_ptr<const Dataset> load_arrays_of(PlannedArrays planned) {
  ArrayField input(std::move(planned.arrays.input), planned.input);
  ArrayField target(std::move(planned.arrays.target), planned.target);
  // The targets' mistakes are told first: they are found sooner.
  target.load(0);
  input.load(target.crc32());
  return std::make_shared<ArraysDataset>(std::move(input), std::move(target));
}

DatasetContents load_arrays(const DataConfig& config, std::uint64_t /*seed*/, const DatasetHeader& /*header*/) {
  PlannedData data = planned_data(config);
  if (is_categorical(config)) {
    const std::int64_t num_classes = num_array_classes(config, data);
    const std::string from = config.classes > 0
                                 ? fmt::format("data.classes is {}", num_classes)
                                 : fmt::format("{} has {} classes", data.train.arrays.target.name(), num_classes);
    for (PlannedArrays* part : {&data.train, data.validation ? &*data.validation : nullptr}) {
      if (part == nullptr) continue;
      part->target.limits.num_classes = num_classes;
      part->target.limits_from = from;
    }
  }
  DatasetContents contents;
  contents.train = load_arrays_of(std::move(data.train));
  if (data.validation) contents.validation = load_arrays_of(std::move(*data.validation));
  return contents;
}

/// Of data that is only declared: its samples stay in files, as they do but for deflated ones.
std::int64_t held_bytes_of_declared(const DatasetHeader& header) {
  const TensorType target = target_of(header);
  return target.num_elements() == 1 ? (header.num_train + header.num_validation) * target.num_bytes() : 0;
}

}  // namespace

DatasetFormat arrays_format() {
  DatasetFormat format;
  format.numeric_targets = true;
  format.required_files = array_files;
  format.inspect = inspect_arrays;
  format.load = load_arrays;
  format.held_bytes = held_bytes_of_declared;
  return format;
}

}  // namespace trainer
