#include <array>
#include <cmath>
#include <filesystem>
#include <limits>

#include "engine/half.h"
#include "tests/datasets/array_files.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

DataConfig arrays_config(const std::string& train, const std::string& labels = "") {
  DataConfig config;
  config.type = DataType::arrays;
  config.train = train;
  config.train_labels = labels;
  return config;
}

/// Three samples of two features and their classes.
const std::string three_features = npy("<f4", "(3, 2)", bytes_of_values<float>({1, 2, 3, 4, -5, 0.5F}));
const std::string three_labels = npy("<i8", "(3,)", bytes_of_values<std::int64_t>({2, 0, 1}));

DataConfig two_files(const DataFolder& folder, const std::string& samples = three_features,
                     const std::string& labels = three_labels) {
  return arrays_config(folder.write("x.npy", samples), folder.write("y.npy", labels));
}

std::string config_error(const DataConfig& config) {
  return error_of<ConfigError>([&] { load_data(config, 1); });
}

std::vector<std::int32_t> classes_of(const Dataset& dataset, std::int64_t index) {
  std::vector<std::int32_t> classes(static_cast<std::size_t>(dataset.target_type().num_elements()));
  dataset.read_classes(index, classes.data());
  return classes;
}

/// One sample of one number of any type, as it is read.
float number_read(const DataFolder& folder, const std::string& descr, const std::string& element) {
  const DataConfig config = two_files(folder, npy(descr, "(1,)", element), npy("|u1", "(1,)", bytes_of({0})));
  return floats_of(*load_data(config, 1).train, 0).at(0);
}

}  // namespace

TEST_CASE("Two .npy files are samples and their classes") {
  const DataFolder folder;
  const DataConfig config = two_files(folder);
  const LoadedData data = load_data(config, 1);
  REQUIRE(data.train->size() == 3);
  CHECK(data.train->input_types().front() == TensorType{DType::f32, Shape{2}});
  CHECK(data.train->target_type() == TensorType{DType::i32, Shape{}});
  CHECK(floats_of(*data.train, 0) == std::vector<float>{1, 2});
  CHECK(floats_of(*data.train, 2) == std::vector<float>{-5, 0.5F});
  CHECK(data.train->class_of(0) == 2);
  CHECK(data.train->class_of(2) == 1);
  CHECK(data.description.num_outputs == 3);
  CHECK(data.validation == nullptr);
  CHECK(describe_data(config, 1) == data.description);
}

TEST_CASE("Formats 1.0, 2.0 and 3.0 of .npy are the same array") {
  const DataFolder folder;
  const int major = GENERATE(1, 2, 3);
  const std::string elements = bytes_of_values<float>({1, 2, 3, 4, -5, 0.5F});
  const LoadedData data = load_data(two_files(folder, npy("<f4", "(3, 2)", elements, major)), 1);
  CHECK(floats_of(*data.train, 1) == std::vector<float>{3, 4});
}

TEST_CASE("A .npy header is read whatever its order, quotes and spaces") {
  const DataFolder folder;
  const std::string elements = bytes_of_values<float>({1, 2, 3, 4, -5, 0.5F});
  const char* const dict = GENERATE(R"({"shape":(3,2),"fortran_order":False,"descr":"<f4"})",
                                    "{'shape': (3L, 2L), 'descr': '<f4', 'fortran_order': False}",
                                    "{ 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 3 , 2 , ) , }");
  CHECK(floats_of(*load_data(two_files(folder, npy_with_header(dict, elements)), 1).train, 1) ==
        std::vector<float>{3, 4});
}

TEST_CASE("A .npy header that is anything but descr, fortran_order and shape is refused") {
  const DataFolder folder;
  const auto [dict, message] = GENERATE(table<std::string, std::string>({
      {"{'descr': '<f4', 'fortran_order': False}", "its header lacks 'shape'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), 'x': 1}", "has an unexpected 'x'"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)}", "has an unexpected 'descr'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-3, 2)}", "a dimension from 0"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 2)}", "a dimension from 0"},
      {"{'descr': '<f4', 'fortran_order': No, 'shape': (3, 2)}", "True or False was expected"},
      {"{'descr': __import__('os'), 'fortran_order': False, 'shape': (3, 2)}", "a quoted text was expected"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)} 1", "the end of the header"},
      {"{'descr': '<f4", "a closing quote"},
      {"{'descr': [('a', '<f4'", "a closing bracket"},
      {"", "'{' was expected"},
  }));
  CHECK_THAT(load_error(two_files(folder, npy_with_header(dict, std::string(24, '\0')))),
             Contains("x.npy: not a usable .npy array: ") && Contains(message));
}

TEST_CASE("Arrays that cannot be read are refused with the line that converts them") {
  const DataFolder folder;
  const auto [descr, message] = GENERATE(table<std::string, std::string>({
      {"'>f4'", "it is big-endian; convert it: np.save(\"x.npy\", x.astype(x.dtype.newbyteorder(\"<\")))"},
      {"'|O'", "it holds Python objects (a pickle), which are never loaded"},
      {"'<c8'", "it is complex; save its parts"},
      {"'<U5'", "np.unique(y, return_inverse=True)[1]"},
      {"'<M8[D]'", "its dtype is none of bool"},
      {"''", "its dtype is none of bool"},
      {"[('a', '<f4'), ('b', '<i4', (2,))]", "it has a structured dtype"},
  }));
  const std::string dict = "{'descr': " + descr + ", 'fortran_order': False, 'shape': (3, 2)}";
  CHECK_THAT(load_error(two_files(folder, npy_with_header(dict, std::string(24, '\0')))),
             Contains("x.npy: ") && Contains(message));
}

TEST_CASE("Fortran order is refused, but where it is the same") {
  const DataFolder folder;
  const std::string elements = bytes_of_values<float>({1, 2, 3});
  const auto array = [&](const std::string& shape) {
    return npy_with_header("{'descr': '<f4', 'fortran_order': True, 'shape': " + shape + "}", elements);
  };
  CHECK(floats_of(*load_data(two_files(folder, array("(3, 1)")), 1).train, 1) == std::vector<float>{2});
  const std::string square = npy_with_header("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2)}",
                                             bytes_of_values<float>({1, 2, 3, 4, 5, 6}));
  CHECK_THAT(load_error(two_files(folder, square)), Contains("np.save(\"x.npy\", np.ascontiguousarray(x))"));
}

TEST_CASE("Shapes that are none of samples are refused before anything is allocated") {
  const DataFolder folder;
  const auto [shape, message] = GENERATE(table<std::string, std::string>({
      {"()", "it is one number"},
      {"(0, 2)", "it is empty"},
      {"(3, 0)", "it is empty"},
      {"(3, 1, 1, 1, 1, 2)", "it has 6 dimensions, at most 5 are read"},
      {"(4294967296, 4294967296, 4294967296)", "its shape is one that no file can hold"},
      {"(18446744073709551615,)", "its shape is one that no file can hold"},
      {"(1000000000, 2)", "it is cut off"},
      {"(2, 2)", "it goes on"},
  }));
  CHECK_THAT(load_error(two_files(folder, npy("<f4", shape, std::string(24, '\0')))), Contains(message));
}

TEST_CASE("An .npy file cut short is an error that names it") {
  const DataFolder folder;
  for (std::size_t size = 0; size < three_features.size(); size += 2) {
    INFO(size);
    CHECK_THAT(load_error(two_files(folder, three_features.substr(0, size))), Contains("x.npy"));
  }
}

TEST_CASE("Bytes of one, three or four dimensions more than samples are pixels") {
  const DataFolder folder;
  const std::string labels = npy("|u1", "(2,)", bytes_of({0, 1}));
  const std::string pixels = bytes_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  DataConfig config = two_files(folder, npy("|u1", "(2, 2, 3)", pixels), labels);
  LoadedData data = load_data(config, 1);
  CHECK(data.train->input_types().front() == TensorType{DType::u8, Shape{2, 3, 1}});
  CHECK(pixels_of(*data.train, 1) == std::vector<int>{7, 8, 9, 10, 11, 12});
  CHECK(data.description.inputs.front().std == std::vector<float>{1});

  config = two_files(folder, npy("|u1", "(2, 1, 2, 3)", pixels), labels);
  config.layout = ImageLayout::channels_last;
  CHECK(load_data(config, 1).train->input_types().front() == TensorType{DType::u8, Shape{1, 2, 3}});

  config = two_files(folder, npy("|u1", "(2, 6)", pixels), labels);
  data = load_data(config, 1);
  CHECK(data.train->input_types().front() == TensorType{DType::f32, Shape{6}});
  CHECK(floats_of(*data.train, 1) == std::vector<float>{7, 8, 9, 10, 11, 12});
}

TEST_CASE("Channels that come first are put behind, of pixels and of numbers, whatever the size") {
  const DataFolder folder;
  const int height = GENERATE(1, 7, 37), width = GENERATE(5, 41), channels = GENERATE(1, 3);
  const bool are_pixels = GENERATE(true, false);
  const auto value = [&](int n, int c, int y, int x) { return (n * 97 + c * 71 + y * 13 + x * 3) % 251; };
  std::string elements;
  for (int n = 0; n < 2; ++n) {
    for (int c = 0; c < channels; ++c) {
      for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
          elements += are_pixels ? bytes_of({value(n, c, y, x)})
                                 : bytes_of_values<double>({static_cast<double>(value(n, c, y, x))});
        }
      }
    }
  }
  const std::string shape =
      "(2, " + std::to_string(channels) + ", " + std::to_string(height) + ", " + std::to_string(width) + ")";
  DataConfig config =
      two_files(folder, npy(are_pixels ? "|u1" : "<f8", shape, elements), npy("|u1", "(2,)", bytes_of({0, 1})));
  config.layout = ImageLayout::channels_first;
  const LoadedData data = load_data(config, 1);
  REQUIRE(data.train->input_types().front().shape == Shape{height, width, channels});
  std::vector<float> expected, found;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c) expected.push_back(static_cast<float>(value(1, c, y, x)));
  if (are_pixels) {
    for (const int pixel : pixels_of(*data.train, 1)) found.push_back(static_cast<float>(pixel));
  } else {
    found = floats_of(*data.train, 1);
  }
  CHECK(found == expected);
}

TEST_CASE("Where the axis of channels is open, it is asked for") {
  const DataFolder folder;
  const auto error = [&](const std::string& shape, int num_elements) {
    return config_error(two_files(folder, npy("|u1", shape, std::string(static_cast<std::size_t>(num_elements), '\1')),
                                  npy("|u1", "(2,)", bytes_of({0, 1}))));
  };
  CHECK(error("(2, 6, 7, 3)", 252).empty());
  CHECK(error("(2, 6, 6, 12)", 864).empty());
  CHECK_THAT(error("(2, 3, 6, 7)", 252),
             Contains("it seems to be the first") && Contains("data.layout: channels_first"));
  CHECK_THAT(error("(2, 3, 6, 3)", 108), Contains("is not told by their shape") && Contains("data.layout"));
  CHECK_THAT(error("(2, 12, 6, 6)", 864), Contains("is not told by their shape"));
}

TEST_CASE("Elements of every type become f32") {
  const DataFolder folder;
  CHECK(number_read(folder, "|b1", bytes_of({1})) == 1);
  CHECK(number_read(folder, "|u1", bytes_of({200})) == 200);
  CHECK(number_read(folder, "|i1", bytes_of({200})) == -56);
  CHECK(number_read(folder, "<u2", bytes_of({1, 0xFF})) == 65281);
  CHECK(number_read(folder, "<i2", bytes_of({1, 0xFF})) == -255);
  CHECK(number_read(folder, "<u4", bytes_of({0, 0, 0, 0xFF})) == 4278190080.0F);
  CHECK(number_read(folder, "<i4", bytes_of({0, 0, 0, 0xFF})) == -16777216.0F);
  CHECK(number_read(folder, "<i8", bytes_of_values<std::int64_t>({-(std::int64_t{1} << 40)})) == -0x1p40F);
  CHECK(number_read(folder, "<u8", bytes_of({0, 0, 0, 0, 0, 0, 0, 0x80})) == 0x1p63F);
  CHECK(number_read(folder, "<f2", bytes_of({0x00, 0xC1})) == -2.5F);
  CHECK(number_read(folder, "<f4", bytes_of_values<float>({0.1F})) == 0.1F);
  CHECK(number_read(folder, "<f8", bytes_of_values<double>({0.1})) == 0.1F);
}

TEST_CASE("What f32 does not hold is refused with its index") {
  const DataFolder folder;
  const auto error = [&](const std::string& descr, const std::string& elements) {
    return load_error(two_files(folder, npy(descr, "(3, 2)", elements)));
  };
  CHECK_THAT(error("<f8", bytes_of_values<double>({1, 2, 3, -1e39, 5, 6})), Contains("x.npy: -1e+39 at index (1, 1)"));
  CHECK_THAT(error("<f8", bytes_of_values<double>({1, 2, 3, 4, 5, std::nan("")})), Contains("nan at index (2, 1)"));
  CHECK_THAT(error("<f4", bytes_of_values<float>({std::numeric_limits<float>::infinity(), 2, 3, 4, 5, 6})),
             Contains("inf at index (0, 0)"));
  CHECK_THAT(error("<f2", bytes_of({0, 0, 0, 0, 0, 0x7C, 0, 0, 0, 0, 0, 0})), Contains("inf at index (1, 0)"));
  const double largest = std::numeric_limits<float>::max();
  CHECK(error("<f8", bytes_of_values<double>({largest, -largest, 1e-300, 0, 0, 0})).empty());
}

TEST_CASE("Classes are whole numbers of any type, one a sample or a pixel") {
  const DataFolder folder;
  const auto loaded = [&](const std::string& labels) {
    return load_data(two_files(folder, three_features, labels), 1);
  };
  CHECK(loaded(npy("<i4", "(3, 1)", bytes_of_values<std::int32_t>({1, 0, 4}))).train->class_of(2) == 4);
  CHECK(loaded(npy("|b1", "(3,)", bytes_of({0, 1, 0}))).description.num_outputs == 2);
  CHECK(loaded(npy("<u8", "(3,)", bytes_of_values<std::uint64_t>({1, 2, 3}))).train->class_of(1) == 2);
  const LoadedData masks = loaded(npy("<i2", "(3, 1, 2)", bytes_of_values<std::int16_t>({0, 1, 2, 3, 4, 5})));
  CHECK(masks.train->target_type() == TensorType{DType::i32, Shape{1, 2}});
  CHECK(classes_of(*masks.train, 1) == std::vector<std::int32_t>{2, 3});
}

TEST_CASE("A label beyond the classes is refused with its file and index, but the one that a loss ignores") {
  const DataFolder folder;
  DataConfig config = two_files(folder, three_features, npy("<i8", "(3,)", bytes_of_values<std::int64_t>({2, 0, 7})));
  config.classes = 3;
  CHECK_THAT(load_error(config), Contains("y.npy: label 7 at index 2, expected 0 to 2 (data.classes is 3)"));
  config.ignored_target = 7;
  CHECK(load_data(config, 1).train->class_of(2) == 7);
  config = two_files(folder, three_features, npy("<i8", "(3,)", bytes_of_values<std::int64_t>({2, -1, 0})));
  CHECK_THAT(load_error(config), Contains("label -1 at index 1, expected 0 to 2 (") && Contains("y.npy has 3 classes"));
  config.ignored_target = -1;
  CHECK(load_data(config, 1).description.num_outputs == 3);
  config = two_files(folder, three_features, npy("|u1", "(3, 1, 2)", bytes_of({0, 1, 1, 255, 0, 0})));
  config.classes = 2;
  CHECK_THAT(load_error(config), Contains("label 255 at index (1, 0, 1)") && Contains("loss.ignore_index=255"));
  config = two_files(folder, three_features, npy("<i8", "(3,)", bytes_of_values<std::int64_t>({2, 0, 1LL << 40})));
  CHECK_THAT(load_error(config), Contains("which is no class"));
  config.classes = 3;
  CHECK_THAT(load_error(config), Contains("label 1099511627776 at index 2"));
}

TEST_CASE("Targets that are no classes are told from those that may be numbers") {
  const DataFolder folder;
  CHECK_THAT(load_error(two_files(folder, three_features, npy("<f4", "(3,)", std::string(12, '\0')))),
             Contains("y.npy: its targets are float32 (3,), and classes are whole numbers") &&
                 Contains("data.target_type: numeric"));
  CHECK_THAT(load_error(two_files(folder, three_features, npy("|u1", "(3, 4)", std::string(12, '\0')))),
             Contains("y.argmax(1)"));
}

TEST_CASE("Numeric targets are numbers of any shape that a sample's may have") {
  const DataFolder folder;
  DataConfig config = two_files(folder, three_features, npy("<f8", "(3,)", bytes_of_values<double>({0.25, 2, 3})));
  config.target_type = TaskTarget::numeric;
  LoadedData data = load_data(config, 1);
  CHECK(data.train->target_type() == TensorType{DType::f32, Shape{1}});
  CHECK(floats_of(*data.train, 0, true) == std::vector<float>{0.25});
  config.targets_are_probabilities = true;
  CHECK_THAT(load_error(config), Contains("target 2 at index 1 is no probability"));
  config.targets_are_probabilities = false;

  folder.write("y.npy", npy("<i4", "(3, 2)", bytes_of_values<std::int32_t>({1, 2, 3, 4, 5, 6})));
  data = load_data(config, 1);
  CHECK(data.description.num_outputs == 2);
  CHECK(floats_of(*data.train, 2, true) == std::vector<float>{5, 6});

  folder.write("y.npy", npy("<f4", "(3, 2, 1, 2)", bytes_of_values<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})));
  config.layout = ImageLayout::channels_first;
  data = load_data(config, 1);
  CHECK(data.train->target_type() == TensorType{DType::f32, Shape{1, 2, 2}});
  CHECK(floats_of(*data.train, 1, true) == std::vector<float>{5, 7, 6, 8});
  CHECK(describe_data(config, 1) == data.description);
}

TEST_CASE("A .npz file holds both, stored or deflated, with or without ZIP64 sizes") {
  const DataFolder folder;
  const ZipStyle style{GENERATE(true, false), GENERATE(true, false)};
  const DataConfig config = arrays_config(
      folder.write("train.npz", zip({{"images.npy", three_features}, {"labels.npy", three_labels}}, style)));
  const LoadedData data = load_data(config, 1);
  CHECK(floats_of(*data.train, 2) == std::vector<float>{-5, 0.5F});
  CHECK(data.train->class_of(0) == 2);
  // The labels, converted; of deflated samples also these.
  CHECK(data.description.held_bytes == 3 * 4 + (style.deflated ? 3 * 2 * 4 : 0));
  CHECK(describe_data(config, 1) == data.description);
}

TEST_CASE("A safetensors file holds both") {
  const DataFolder folder;
  const std::string f16 = bytes_of({0x00, 0x3C, 0x00, 0xC0, 0x00, 0x00, 0x00, 0x38});
  const DataConfig config = arrays_config(
      folder.write("train.safetensors",
                   safetensors({{"X_train", "F16", "[2,2]", f16}, {"y_train", "I16", "[2]", bytes_of({1, 0, 0, 0})}})));
  const LoadedData data = load_data(config, 1);
  CHECK(floats_of(*data.train, 0) == std::vector<float>{1, -2});
  CHECK(floats_of(*data.train, 1) == std::vector<float>{0, 0.5F});
  CHECK(data.train->class_of(0) == 1);
  const DataConfig bf16 = arrays_config(
      folder.write("b.safetensors", safetensors({{"x", "BF16", "[2,1]", bytes_of({0x80, 0x3F, 0x00, 0xC0})},
                                                 {"y", "BOOL", "[2]", bytes_of({1, 0})}})));
  CHECK(floats_of(*load_data(bf16, 1).train, 1) == std::vector<float>{-2});
}

TEST_CASE("Which array is which is taken from names that are usual, or asked for with a list of them") {
  const DataFolder folder;
  const auto write = [&](std::vector<std::string> names) {
    std::vector<std::pair<std::string, std::string>> members;
    for (std::string& name : names) {
      const bool are_labels = name.find_first_of("yY") != std::string::npos || name == "labels";
      members.emplace_back(name + ".npy", are_labels ? three_labels : three_features);
    }
    return arrays_config(folder.write("a.npz", zip(members)));
  };
  for (const auto& names : std::vector<std::vector<std::string>>{
           {"y", "x"}, {"X", "Y"}, {"X_train", "y_train"}, {"train_images", "labels"}, {"features", "labels"}})
    CHECK(load_data(write(names), 1).train->size() == 3);

  DataConfig config = write({"arr_0", "labels"});
  CHECK_THAT(config_error(config), Contains("which arrays of") && Contains("arr_0 float32 (3, 2), labels int64 (3,)") &&
                                       Contains("data.fields: {input: NAME, target: NAME}"));
  config.train_target = "labels";
  CHECK(load_data(config, 1).train->size() == 3);
  config = write({"x_train", "y_train", "x_test", "y_test"});
  CHECK_THAT(config_error(config), Contains("x_test float32 (3, 2)"));
  config.train_input = "x_tain";
  CHECK_THAT(config_error(config), Contains("has no array 'x_tain'") && Contains("'x_train'?"));
  config.train_input = "x_train";
  config.train_target = "x_train";
  CHECK_THAT(config_error(config), Contains("is samples and targets at once"));
  config.train_target = "y_train";
  config.validation_input = "x_test";
  config.validation_target = "y_test";
  const LoadedData data = load_data(config, 1);
  REQUIRE(data.validation != nullptr);
  CHECK(data.validation->size() == 3);
}

TEST_CASE("Validation has files and names of its own, or the names of training") {
  const DataFolder folder;
  const std::string two = npy("<f4", "(2, 2)", bytes_of_values<float>({1, 2, 3, 4}));
  DataConfig config = two_files(folder);
  config.validation = folder.write("v.npz", zip({{"a.npy", two}, {"b.npy", npy("|u1", "(2,)", bytes_of({1, 2}))}}));
  CHECK_THAT(config_error(config), Contains("data.fields: {validation_input: NAME, validation_target: NAME}"));
  config.validation_input = "a";
  CHECK(load_data(config, 1).validation->class_of(1) == 2);
  config.validation = folder.write("vx.npy", two);
  config.validation_input.clear();
  CHECK_THAT(config_error(config), Contains("is one array, and data.validation_labels is missing"));
  config.validation_labels = folder.write("vy.npy", npy("|u1", "(2,)", bytes_of({1, 3})));
  CHECK_THAT(load_error(config),
             Contains("vy.npy: label 3 at index 1, expected 0 to 2") && Contains("y.npy has 3 classes"));
  folder.write("vx.npy", npy("<f4", "(2, 3)", bytes_of_values<float>({1, 2, 3, 4, 5, 6})));
  CHECK_THAT(load_error(config), Contains("samples of training and validation must be alike"));
}

TEST_CASE("Samples and targets that are not as many are refused") {
  const DataFolder folder;
  CHECK_THAT(load_error(two_files(folder, three_features, npy("|u1", "(2,)", bytes_of({0, 1})))),
             Contains("x.npy has 3 samples, but") && Contains("y.npy has 2 targets"));
}

TEST_CASE("An archive cut short, or changed in a byte, is read or refused") {
  const DataFolder folder;
  const bool packs = GENERATE(true, false);
  const std::string whole = zip({{"x.npy", three_features}, {"y.npy", three_labels}}, {packs, true});
  for (std::size_t size = 0; size < whole.size(); size += 5)
    CHECK_THAT(load_error(arrays_config(folder.write("a.npz", whole.substr(0, size)))), Contains("a.npz"));
  int num_refused = 0;
  for (std::size_t at = 0; at < whole.size(); at += 3) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    try {
      load_data(arrays_config(folder.write("a.npz", changed)), 1);
    } catch (const Error& error) {
      ++num_refused;
      CHECK((error.exit_code() == ExitCode::data || error.exit_code() == ExitCode::config));
    }
  }
  // All but times, versions and the like.
  CHECK(num_refused > static_cast<int>(whole.size() / 6));
}

TEST_CASE("Damaged elements of an archive are told by its checksum") {
  const DataFolder folder;
  std::string file = zip({{"x.npy", three_features}, {"y.npy", three_labels}});
  const std::string elements = bytes_of_values<float>({-5, 0.5F});
  file[file.find(elements)] ^= 1;
  CHECK_THAT(load_error(arrays_config(folder.write("a.npz", file))),
             Contains("a.npz, 'x': it is damaged: its CRC-32 is"));
}

TEST_CASE("Archives with what is not read are refused") {
  const DataFolder folder;
  const auto error = [&](const std::string& file) { return load_error(arrays_config(folder.write("a.npz", file))); };
  CHECK_THAT(error(zip({{"x.npy", three_features}, {"x.npy", three_features}})), Contains("'x.npy' occurs twice"));
  CHECK_THAT(error(zip({{"readme.txt", "hello"}})), Contains("a ZIP archive without an array"));
  CHECK_THAT(error(zip({{"archive/data.pkl", "hello"}})), Contains("safetensors.torch.save_file"));
  CHECK_THAT(error(gzipped(three_features)), Contains("gunzip it"));
  CHECK_THAT(error("\x80\x04 whatever that is"), Contains("it is a pickle"));
  CHECK_THAT(error("short"), Contains("it has only 5 bytes"));
  std::string file = zip({{"x.npy", three_features}, {"y.npy", three_labels}});
  const std::size_t directory = file.find("PK\x01\x02");
  file[directory + 10] = 12;
  CHECK_THAT(error(file), Contains("'x.npy' is packed by method 12, not by deflate"));
  file[directory + 10] = 0;
  file[directory + 8] = 1;
  CHECK_THAT(error(file), Contains("'x.npy' is encrypted"));
  file[directory + 8] = 0;
  file[directory + 10] = 8;
  // Four gibibytes out of two hundred bytes.
  file.replace(directory + 24, 4, "\xFE\xFF\xFF\xFF");
  CHECK_THAT(error(file), Contains("more than 152 packed ones can hold"));
}

TEST_CASE("An array that is not used may be one that cannot be read") {
  const DataFolder folder;
  const std::string objects = npy("|O", "(2,)", "a pickle");
  DataConfig config = arrays_config(
      folder.write("a.npz", zip({{"x.npy", three_features}, {"meta.npy", objects}, {"y.npy", three_labels}})));
  CHECK_THAT(config_error(config), Contains("meta dtype '|O' (2,)"));
  config.train_input = "x";
  config.train_target = "y";
  CHECK(load_data(config, 1).train->size() == 3);
  config.train_target = "meta";
  CHECK_THAT(load_error(config), Contains("a.npz, 'meta': ") && Contains("a pickle"));
}

TEST_CASE("A split and declared counts take parts of arrays as of other data") {
  const DataFolder folder;
  DataConfig config = two_files(folder);
  config.split = 0.34;
  const LoadedData data = load_data(config, 1);
  CHECK(data.train->size() == 2);
  CHECK(data.validation->size() == 1);
  config.split = 0;
  config.samples = 2;
  CHECK(load_data(config, 1).train->size() == 2);
  config.shape = {3};
  CHECK_THAT(load_error(config), Contains("data.shape declares 3, but the data has 2"));
}

TEST_CASE("Arrays that are declared need no files") {
  DataConfig config = arrays_config("nowhere.npz");
  CHECK_THAT(error_of([&] { describe_data(config, 1); }), Contains("no data file 'nowhere.npz'"));
  config.shape = {28, 28, 1};
  config.classes = 10;
  config.samples = 60000;
  const DataDescription description = describe_data(config, 1);
  CHECK(description.inputs.front().type == TensorType{DType::u8, Shape{28, 28, 1}});
  CHECK(description.held_bytes == 60000 * 4);
}

TEST_CASE("A file that is cut off while it is read is an error, not a signal") {
  const DataFolder folder;
  const LoadedData data = load_data(two_files(folder), 1);
  std::filesystem::resize_file(folder.path("x.npy"), three_features.size() - 4);
  CHECK(floats_of(*data.train, 1) == std::vector<float>{3, 4});
  CHECK_THAT(error_of([&] { floats_of(*data.train, 2); }), Contains("x.npy: ends at offset"));
}

TEST_CASE("The checksum of arrays changes with any element, type or shape, and not with the archive around them") {
  const DataFolder folder;
  const auto checksum = [&](const DataConfig& config) { return load_data(config, 1).train->content_crc32(); };
  const auto stored = checksum(two_files(folder));
  REQUIRE(stored);
  const auto archive = [&](bool packs) {
    return arrays_config(folder.write("a.npz", zip({{"x.npy", three_features}, {"y.npy", three_labels}}, {packs})));
  };
  CHECK(checksum(archive(true)) == stored);
  CHECK(checksum(archive(false)) == stored);
  CHECK(checksum(two_files(folder, npy("<f4", "(3, 2)", bytes_of_values<float>({1, 2, 3, 4, -5, 0.25F})))) != stored);
  CHECK(checksum(two_files(folder, npy("<i4", "(3, 2)", three_features.substr(three_features.size() - 24)))) != stored);
  CHECK(checksum(two_files(folder, three_features, npy("<i8", "(3,)", bytes_of_values<std::int64_t>({2, 1, 0})))) !=
        stored);
}

TEST_CASE("An array above 1 GiB is known by places of it, and its values are checked when they are read") {
  const DataFolder folder;
  constexpr std::uint64_t num_samples = 1100, sample_bytes = std::uint64_t{1} << 20;
  const std::string header = npy("<f4", "(1100, 262144)", "");
  const DataConfig config = two_files(folder, header, npy("|u1", "(1100,)", std::string(num_samples, '\1')));
  // Of holes, so that it takes no disk.
  std::filesystem::resize_file(folder.path("x.npy"), header.size() + num_samples * sample_bytes);
  const auto write = [&](std::uint64_t offset, float value) {
    std::fstream file(folder.path("x.npy"), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(header.size() + offset));
    file << bytes_of_values<float>({value});
  };
  const std::uint64_t wrong = 550 * sample_bytes + 600'000;
  write(wrong, std::numeric_limits<float>::infinity());
  const LoadedData data = load_data(config, 1);
  CHECK(data.description.held_bytes == num_samples * 4);
  CHECK(floats_of(*data.train, 1099).back() == 0);
  CHECK_THAT(error_of([&] { floats_of(*data.train, 550); }), Contains("x.npy: inf at index (550, 150000)"));
  write(num_samples * sample_bytes - 4, 1);
  const LoadedData changed = load_data(config, 1);
  CHECK(floats_of(*changed.train, 1099).back() == 1);
  CHECK(changed.train->content_crc32() != data.train->content_crc32());
}

TEST_CASE("Transforms are done to arrays of pixels with classes, and refused of others") {
  const DataFolder folder;
  const std::string pixels = bytes_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  DataConfig config =
      two_files(folder, npy("|u1", "(2, 2, 3)", pixels), npy("|u1", "(2, 2, 3)", std::string(11, '\0') + '\1'));
  config.train_transforms = {{"flip", FlipSpec{FlipDirection::horizontal, 1.0}}};
  const LoadedData data = load_data(config, 1);
  CHECK(pixels_of(*data.train, 1) == std::vector<int>{9, 8, 7, 12, 11, 10});
  std::array<std::byte, 6> sample{};
  std::array<std::int32_t, 6> mask{};
  data.train->read(1, std::array{sample.data(), reinterpret_cast<std::byte*>(mask.data())});
  CHECK(mask == std::array<std::int32_t, 6>{0, 0, 0, 1, 0, 0});
  config.target_type = TaskTarget::numeric;
  CHECK_THAT(config_error(config), Contains("data.transforms are for images with classes"));
  config.target_type = TaskTarget::categorical;
  config.train_labels = folder.write("y.npy", npy("|u1", "(3,)", bytes_of({0, 1, 1})));
  config.train = folder.write("x.npy", three_features);
  CHECK_THAT(config_error(config), Contains("x.npy: data.transforms are for images of bytes; its samples are f32"));
}
