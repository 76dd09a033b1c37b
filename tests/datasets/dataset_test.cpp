#include "datasets/dataset.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "datasets/split.h"
#include "tests/datasets/data_files.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

DataConfig synthetic_config(std::vector<std::int64_t> shape) {
  DataConfig config;
  config.type = DataType::synthetic;
  config.shape = std::move(shape);
  config.classes = 4;
  config.samples = 400;
  config.validation_samples = 100;
  return config;
}

template <typename Value>
double squared_distance(const std::vector<Value>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

std::vector<double> values_of(const Dataset& dataset, std::int64_t index) {
  if (dataset.input_types().front().dtype == DType::u8) {
    const auto pixels = pixels_of(dataset, index);
    return {pixels.begin(), pixels.end()};
  }
  const auto floats = floats_of(dataset, index);
  return {floats.begin(), floats.end()};
}

}  // namespace

TEST_CASE("The digits are the 1,797 of the repository, scaled to bytes") {
  const LoadedData data = load_data(DataConfig{}, 1);
  CHECK(data.description.num_train == 1437);
  CHECK(data.description.num_validation == 360);
  CHECK(data.description.inputs.front().type == TensorType{DType::u8, Shape{8, 8, 1}});
  CHECK(data.description.num_outputs == 10);
  std::map<int, int> counts;
  long sum = 0;
  for (const auto& part : {data.train, data.validation}) {
    for (std::int64_t i = 0; i < part->size(); ++i) {
      ++counts[part->class_of(i)];
      for (const int pixel : pixels_of(*part, i)) sum += (pixel * 16 + 127) / 255;
    }
  }
  // The class counts that the UCI page lists for the test set, and the sum of all its values.
  CHECK(counts ==
        std::map<int, int>{
            {0, 178}, {1, 182}, {2, 177}, {3, 183}, {4, 181}, {5, 182}, {6, 181}, {7, 179}, {8, 174}, {9, 180}});
  CHECK(sum == 561718);
}

TEST_CASE("Describing the data and loading it say the same") {
  DataConfig config;
  for (const double split : {0.0, 0.1, 0.5}) {
    config.split = split;
    const DataDescription described = describe_data(config, 3);
    const DataDescription loaded = load_data(config, 3).description;
    CHECK(described.num_train == loaded.num_train);
    CHECK(described.num_validation == loaded.num_validation);
    CHECK(described.inputs.front().type == loaded.inputs.front().type);
  }
}

TEST_CASE("A split is disjoint, complete, and a function of the seed") {
  const Split split = split_samples(1000, 137, 7);
  CHECK(split.validation.size() == 137);
  std::set<std::uint32_t> all(split.train.begin(), split.train.end());
  all.insert(split.validation.begin(), split.validation.end());
  CHECK(split.train.size() == 863);
  CHECK(all.size() == 1000);
  CHECK(*all.rbegin() == 999);
  CHECK(split_samples(1000, 137, 7).validation == split.validation);
  CHECK(split_samples(1000, 137, 8).validation != split.validation);
  // Not the front and not the back: the mean index of 137 random ones of 1000 is 500 ± 25.
  double mean = 0;
  for (const std::uint32_t index : split.validation) mean += index / 137.0;
  CHECK(mean == Approx(500).margin(100));
}

TEST_CASE("A split that leaves nothing on one side is refused") {
  DataConfig config;
  config.split = 0.0001;
  CHECK_THAT(error_of<ConfigError>([&] { load_data(config, 1); }),
             Contains("data.split 0.0001 of 1797 samples leaves 1797 for training and 0 for validation"));
  config.split = 0.9999;
  CHECK_THAT(error_of<ConfigError>([&] { load_data(config, 1); }), Contains("leaves 0 for training"));
  config.split = 1.5;
  CHECK_THAT(error_of<ConfigError>([&] { load_data(config, 1); }), Contains("data.split 1.5 is not a share"));
  config.split = 0.1;
  config.validation = "other.csv";
  CHECK_THAT(error_of<ConfigError>([&] { load_data(config, 1); }), Contains("data.split and data.validation"));
}

TEST_CASE("A written split leaves validation files that are merely there alone") {
  const DataFolder folder;
  for (const char* stem : {"train", "t10k"}) {
    folder.write(std::string(stem) + "-images-idx3-ubyte",
                 bytes_of({0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3, 4}));
    folder.write(std::string(stem) + "-labels-idx1-ubyte", bytes_of({0, 0, 8, 1, 0, 0, 0, 4, 0, 1, 0, 1}));
  }
  DataConfig config;
  config.type = DataType::idx;
  config.root = folder.path();
  CHECK(describe_data(config, 1).num_train == 4);
  CHECK(describe_data(config, 1).num_validation == 4);
  config.split = 0.25;
  const LoadedData data = load_data(config, 1);
  CHECK(data.train->size() == 3);
  CHECK(data.validation->size() == 1);
}

TEST_CASE("Declared keys describe data that is not there and must agree with data that is") {
  const DataFolder folder;
  DataConfig config;
  config.type = DataType::idx;
  config.root = folder.path("absent");
  config.shape = {28, 28, 1};
  config.classes = 10;
  CHECK_THAT(error_of([&] { describe_data(config, 1); }), Contains("no data file"));
  config.samples = 54000;
  config.validation_samples = 6000;
  const DataDescription description = describe_data(config, 1);
  CHECK(description.inputs.front().type == TensorType{DType::u8, Shape{28, 28, 1}});
  CHECK(description.num_train == 54000);
  CHECK(description.num_validation == 6000);
  CHECK(description.inputs.front().std == std::vector<float>{1});
  config.split = 0.1;
  config.validation_samples = 0;  // how many a split sets aside is then open
  CHECK_THAT(error_of([&] { describe_data(config, 1); }), Contains("data.validation_samples"));

  DataConfig digits;
  digits.shape = {28, 28, 1};
  CHECK_THAT(error_of([&] { describe_data(digits, 1); }),
             Contains("data.shape declares 28×28×1, but the data has 8×8×1"));
  digits.shape = {8, 8, 1};
  digits.samples = 1797;
  CHECK_THAT(error_of([&] { describe_data(digits, 1); }),
             Contains("data.samples declares 1797, but the data has 1437"));
  digits.samples = 1437;
  digits.validation_samples = 361;
  CHECK_THAT(error_of([&] { describe_data(digits, 1); }), Contains("data.validation_samples declares 361"));
  digits.validation_samples = 360;
  digits.classes = 11;
  CHECK_THAT(error_of([&] { describe_data(digits, 1); }), Contains("data.classes declares 11"));
}

TEST_CASE("Counts below what the data has take a part of it, chosen by the seed, beside the same validation samples") {
  const auto samples_of = [](const Dataset& dataset) {
    std::vector<std::string> samples;
    std::string sample(static_cast<std::size_t>(dataset.input_types().front().num_bytes()), 0);
    std::int32_t label = 0;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      dataset.read(i, std::array{reinterpret_cast<std::byte*>(sample.data()), reinterpret_cast<std::byte*>(&label)});
      samples.push_back(sample + std::to_string(label));
    }
    std::sort(samples.begin(), samples.end());
    return samples;
  };
  DataConfig config;  // digits
  const LoadedData all = load_data(config, 3);
  config.samples = 100;
  const LoadedData part = load_data(config, 3);
  CHECK(part.description.num_train == 100);
  CHECK(describe_data(config, 3).num_train == 100);
  CHECK(part.train->size() == 100);
  CHECK(samples_of(*part.validation) == samples_of(*all.validation));
  const std::vector<std::string> of_all = samples_of(*all.train), of_part = samples_of(*part.train);
  CHECK(std::includes(of_all.begin(), of_all.end(), of_part.begin(), of_part.end()));
  // Of all classes, as a part by chance is, and another for another seed.
  std::set<std::int32_t> classes;
  for (std::int64_t i = 0; i < 100; ++i) classes.insert(part.train->class_of(i));
  CHECK(classes.size() == 10);
  CHECK(samples_of(*load_data(config, 3).train) == of_part);
  CHECK(samples_of(*load_data(config, 4).train) != of_part);

  config.validation_samples = 7;
  const LoadedData both = load_data(config, 3);
  CHECK(both.description.num_validation == 7);
  CHECK(both.validation->size() == 7);
  const std::vector<std::string> seven = samples_of(*both.validation), whole = samples_of(*all.validation);
  CHECK(std::includes(whole.begin(), whole.end(), seven.begin(), seven.end()));
  CHECK(samples_of(*both.train) == of_part);
}

TEST_CASE("The checksum of a dataset is that of its whole content, and of none that is computed") {
  const DataFolder folder;
  DataConfig config;
  config.type = DataType::csv;
  config.train = folder.write("train.csv", "x,y\n1,a\n2,b\n4,a\n5,b\n");
  const auto sum = [&] { return load_data(config, 1).train->content_crc32(); };
  const std::optional<std::uint32_t> before = sum();
  REQUIRE(before.has_value());
  CHECK(sum() == before);
  config.samples = 2;
  CHECK(sum() != std::nullopt);
  config.samples = 0;
  folder.write("train.csv", "x,y\n1,a\n2,b\n4,b\n5,b\n");  // a target
  CHECK(sum() != before);
  folder.write("train.csv", "x,y\n1,a\n2,b\n5,b\n4,a\n");  // the order
  CHECK(sum() != before);
  CHECK(load_data(synthetic_config({4}), 1).train->content_crc32() == std::nullopt);
}

TEST_CASE("Normalisation has one value for all channels or one for each") {
  DataConfig config = synthetic_config({4, 4, 3});
  CHECK(describe_data(config, 1).inputs.front().mean == std::vector<float>{0, 0, 0});
  CHECK(describe_data(config, 1).inputs.front().std == std::vector<float>{1, 1, 1});
  config.mean = {0.5};
  config.std = {0.25, 0.5, 1};
  CHECK(describe_data(config, 1).inputs.front().mean == std::vector<float>{0.5, 0.5, 0.5});
  CHECK(describe_data(config, 1).inputs.front().std == std::vector<float>{0.25, 0.5, 1});
  config.mean = {0.5, 0.5};
  CHECK_THAT(error_of<ConfigError>([&] { describe_data(config, 1); }),
             Contains("data.normalize.mean has 2 values for images of 3 channels"));
  config.mean = {};
  config.std = {0};
  CHECK_THAT(error_of<ConfigError>([&] { describe_data(config, 1); }), Contains("data.normalize.std holds 0"));
  config = synthetic_config({12});
  config.mean = {0.5};
  CHECK_THAT(error_of<ConfigError>([&] { describe_data(config, 1); }), Contains("data.normalize is for images"));
}

TEST_CASE("Synthetic samples are a function of seed and index") {
  for (const auto& shape : {std::vector<std::int64_t>{5, 7, 3}, std::vector<std::int64_t>{13}}) {
    const LoadedData one = load_data(synthetic_config(shape), 1);
    const LoadedData same = load_data(synthetic_config(shape), 1);
    const LoadedData other = load_data(synthetic_config(shape), 2);
    CHECK(one.train->size() == 400);
    CHECK(one.validation->size() == 100);
    CHECK(values_of(*one.train, 17) == values_of(*same.train, 17));
    CHECK(values_of(*one.train, 17) != values_of(*other.train, 17));
    CHECK(values_of(*one.train, 17) != values_of(*one.train, 21));  // of the same class
    CHECK(values_of(*one.train, 0) != values_of(*one.validation, 0));
    CHECK(one.train->class_of(17) == one.train->class_of(21));
  }
}

TEST_CASE("Synthetic classes can be learned: the nearest class mean of training tells most of validation") {
  for (const auto& shape : {std::vector<std::int64_t>{8, 8, 1}, std::vector<std::int64_t>{30}}) {
    const LoadedData data = load_data(synthetic_config(shape), 1);
    const auto num_elements = static_cast<std::size_t>(data.description.inputs.front().type.num_elements());
    std::vector<std::vector<double>> means(4, std::vector<double>(num_elements));
    for (std::int64_t i = 0; i < 400; ++i) {
      const auto values = values_of(*data.train, i);
      auto& mean = means[static_cast<std::size_t>(data.train->class_of(i))];
      for (std::size_t k = 0; k < num_elements; ++k) mean[k] += values[k] / 100;
    }
    int num_right = 0;
    for (std::int64_t i = 0; i < 100; ++i) {
      const auto values = values_of(*data.validation, i);
      std::vector<double> distances;
      for (const auto& mean : means) distances.push_back(squared_distance(values, mean));
      const auto nearest = std::min_element(distances.begin(), distances.end()) - distances.begin();
      num_right += nearest == data.validation->class_of(i) ? 1 : 0;
    }
    CHECK(num_right >= 90);
  }
}

TEST_CASE("Synthetic targets may be numbers between 0 and 1") {
  DataConfig config = synthetic_config({10});
  config.target_type = TaskTarget::numeric;
  config.classes = 2;
  const LoadedData data = load_data(config, 1);
  CHECK(data.description.target == TensorType{DType::f32, Shape{2}});
  std::set<float> seen;
  for (std::int64_t i = 0; i < 50; ++i) {
    for (const float value : floats_of(*data.train, i, true)) {
      CHECK(value > 0);
      CHECK(value < 1);
      seen.insert(value);
    }
  }
  CHECK(seen.size() > 90);
}

TEST_CASE("Synthetic targets may have a class for each pixel, which shows in the image around it") {
  DataConfig config = synthetic_config({12, 8, 3});
  config.target_shape = {6, 8};
  const LoadedData data = load_data(config, 1);
  CHECK(data.description.target == TensorType{DType::i32, Shape{6, 8}});
  CHECK(data.description.num_outputs == 4);
  // Patches of 3 × 2 pixels of one class: the mean of the first channel there tells it, but for noise.
  double brightness[4] = {}, count[4] = {};
  for (std::int64_t i = 0; i < 100; ++i) {
    std::vector<std::int32_t> classes(48);
    data.train->read_classes(i, classes.data());
    const std::vector<double> pixels = values_of(*data.train, i);
    for (std::size_t y = 0; y < 12; ++y) {
      for (std::size_t x = 0; x < 8; ++x) {
        const auto c = static_cast<std::size_t>(classes[y / 2 * 8 + x]);
        REQUIRE(c < 4);
        brightness[c] += pixels[(y * 8 + x) * 3];
        count[c] += 1;
      }
    }
  }
  for (std::size_t c = 1; c < 4; ++c) {
    REQUIRE((count[c] > 0 && count[c - 1] > 0));
    CHECK(brightness[c] / count[c] > brightness[c - 1] / count[c - 1] + 10);
  }
  config = synthetic_config({5});
  config.target_shape = {7};
  const LoadedData positions = load_data(config, 1);
  std::vector<std::int32_t> classes(7);
  positions.train->read_classes(1, classes.data());
  CHECK(classes == std::vector<std::int32_t>{1, 2, 3, 0, 1, 2, 3});
}

TEST_CASE("Synthetic targets may be images: those of the samples without their noise") {
  DataConfig config = synthetic_config({8, 8, 2});
  config.classes = 0;
  config.target_type = TaskTarget::numeric;
  config.target_shape = {8, 8, 2};
  const LoadedData data = load_data(config, 1);
  CHECK(data.description.target == TensorType{DType::f32, Shape{8, 8, 2}});
  CHECK(data.description.num_outputs == 128);
  const std::vector<float> clean = floats_of(*data.train, 3, true);
  const std::vector<double> noisy = values_of(*data.train, 3);
  REQUIRE(clean.size() == noisy.size());
  for (std::size_t i = 0; i < clean.size(); ++i) {
    // Pixel = (prototype + noise below 256) / 2.
    const double prototype = 256 * static_cast<double>(clean[i]);
    CHECK(noisy[i] >= std::floor(prototype / 2));
    CHECK(noisy[i] <= (prototype + 255) / 2);
  }
  config.classes = 2;
  CHECK_THAT(error_of<ConfigError>([&] { describe_data(config, 1); }), Contains("both say how many numbers"));
  config.classes = 0;
  config.target_shape = {1 << 20, 1 << 20};
  CHECK_THAT(error_of<ConfigError>([&] { describe_data(config, 1); }), Contains("the target of a sample of"));
}

TEST_CASE(
    "Synthetic tokens are computed from the seed and their number, and three of four follow from the one before") {
  DataConfig config;
  config.type = DataType::synthetic;
  config.sequence_length = 33;
  config.classes = 50;
  config.samples = 20;
  config.validation_samples = 5;
  const DataDescription described = describe_data(config, 1);
  CHECK(described.inputs.at(0).type == TensorType{DType::i32, Shape{33}});
  CHECK(described.inputs.at(0).num_indices == 50);
  CHECK(described.target == described.inputs.at(0).type);
  const LoadedData data = load_data(config, 1), same = load_data(config, 1), other = load_data(config, 2);
  REQUIRE(data.train->size() == 20);
  REQUIRE(data.validation->size() == 5);

  const auto sample_of = [](const Dataset& dataset, std::int64_t index) {
    std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>> fields{std::vector<std::int32_t>(33),
                                                                           std::vector<std::int32_t>(33)};
    const std::array<std::byte*, 2> places{reinterpret_cast<std::byte*>(fields.first.data()),
                                           reinterpret_cast<std::byte*>(fields.second.data())};
    dataset.read(index, places);
    return fields;
  };
  std::map<std::int32_t, std::map<std::int32_t, int>> followers;
  for (std::int64_t index = 0; index < 20; ++index) {
    const auto [tokens, targets] = sample_of(*data.train, index);
    CHECK(std::equal(tokens.begin() + 1, tokens.end(), targets.begin()));
    std::vector<std::int32_t> classes(33);
    data.train->read_classes(index, classes.data());
    CHECK(classes == targets);
    CHECK(sample_of(*same.train, index) == sample_of(*data.train, index));
    CHECK(sample_of(*other.train, index) != sample_of(*data.train, index));
    for (std::size_t place = 0; place < tokens.size(); ++place) {
      CHECK((tokens[place] >= 0 && tokens[place] < 50));
      ++followers[tokens[place]][targets[place]];
    }
  }
  int num_foretold = 0;
  for (const auto& [token, counts] : followers)
    num_foretold += std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
                      return a.second < b.second;
                    })->second;
  CHECK(num_foretold > 0.7 * 20 * 33);
  CHECK(num_foretold < 0.9 * 20 * 33);
  CHECK(sample_of(*data.validation, 0) != sample_of(*data.train, 0));
}

TEST_CASE("Synthetic data says which of its keys is missing") {
  DataConfig config;
  config.type = DataType::synthetic;
  const auto error = [&] { return error_of<ConfigError>([&] { describe_data(config, 1); }); };
  CHECK_THAT(error(), Contains("data.classes is missing"));
  config.target_type = TaskTarget::numeric;
  CHECK_THAT(error(), Contains("data.shape is missing: of tokens each has the next one as its class"));
  config.target_type = TaskTarget::categorical;
  config.shape = {28, 28};
  CHECK_THAT(error(), Contains("data.shape has 2 dimensions"));
  config.shape = {28, 28, 1};
  CHECK_THAT(error(), Contains("data.classes is missing"));
  config.classes = 10;
  CHECK_THAT(error(), Contains("data.samples is missing"));
  config.samples = 90;
  CHECK(error().empty());
  config.split = 0.1;
  CHECK(describe_data(config, 1).num_train == 90);
  CHECK(describe_data(config, 1).num_validation == 10);
}

TEST_CASE("A shape that no machine holds is refused before anything is allocated for it") {
  DataConfig config = synthetic_config({1 << 30, 1 << 30, 1 << 30});
  const auto error = [&] { return error_of<ConfigError>([&] { describe_data(config, 1); }); };
  CHECK_FALSE(error().empty());
  config.shape = {1 << 15, 1 << 15, 3};
  CHECK_THAT(error(), Contains("a sample of 32768×32768×3 is too large"));
  config.shape = {1, 1, 1 << 20};
  CHECK_THAT(error(), Contains("has too many channels"));
  config.shape = {4, 4, 64};
  config.classes = 1 << 20;
  CHECK_THAT(error(), Contains("data.classes 1048576 is too large"));
}

TEST_CASE("An error in the data section points at it") {
  const DataFolder folder;
  DataConfig config;
  config.type = DataType::synthetic;
  config.location = {folder.write("some.yaml", "name: x\ndata: {type: synthetic}\n"), 2, 1, 4};
  CHECK_THAT(error_of<ConfigError>([&] { describe_data(config, 1); }),
             Contains("some.yaml:2:1") && Contains("data.classes is missing"));
}
