#include "datasets/prediction/sample_inputs.h"

#include <array>
#include <cstring>

#include "datasets/prediction/input_description.h"
#include "tests/datasets/array_files.h"
#include "tests/datasets/image_file_writing.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

struct ReadSample {
  std::string name, error;
  std::vector<std::byte> bytes;
};

std::vector<ReadSample> samples_of(const std::vector<std::string>& arguments, const Experiment& experiment,
                                   const TensorType& sample, std::optional<std::int64_t>* count = nullptr) {
  std::optional<PreparedImage> prepared;
  if (sample.dtype == DType::u8) prepared = prepared_image_of(experiment, sample.shape);
  InputPaths paths(arguments, [](std::string_view path) { return is_called_image(path) || is_called_array(path); }, {});
  const std::unique_ptr<InputStream> stream =
      sample_inputs(std::move(paths), experiment.data, sample, std::move(prepared));
  if (count != nullptr) *count = stream->count();
  const std::unique_ptr<InputReader> reader = stream->make_reader();
  std::vector<ReadSample> samples;
  for (PredictionInput input; stream->next(input); input.restart(input.number + 1)) {
    ReadSample& read = samples.emplace_back();
    read.name = input.name;
    read.bytes.resize(static_cast<std::size_t>(sample.num_bytes()));
    try {
      if (input.error.empty()) reader->read(input, read.bytes.data());
    } catch (const DataError& error) {
      input.error = error.what();
    }
    read.error = input.error;
  }
  return samples;
}

std::vector<std::byte> sample_of(const Dataset& dataset, std::int64_t index) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(dataset.input_types().front().num_bytes()));
  std::vector<std::byte> target(static_cast<std::size_t>(dataset.target_type().num_bytes()));
  const std::array<std::byte*, 2> fields = {bytes.data(), target.data()};
  dataset.read(index, fields);
  return bytes;
}

TransformSpec resized_to(std::int64_t height, std::int64_t width) {
  ResizeSpec resize;
  resize.size = {height, width};
  return {"resize", resize};
}
TransformSpec cropped_to(std::int64_t side) {
  CenterCropSpec crop;
  crop.size = {side, side};
  return {"center_crop", crop};
}

std::string level_image(std::int64_t height, std::int64_t width, int seed) {
  Image image;
  image.reshape(height, width, 3);
  int next = seed;
  for (std::uint8_t& value : image.pixels()) value = static_cast<std::uint8_t>(next = (next * 73 + 41) % 256);
  return text_of(make_png(image));
}

}  // namespace

TEST_CASE("image files become the samples that validation reads") {
  const DataFolder folder;
  for (int i = 0; i < 4; ++i)
    write_below(folder, "data/" + std::string(i % 2 == 0 ? "cat/" : "dog/") + std::to_string(i) + ".png",
                level_image(20 + i, 17 + 2 * i, i));
  Experiment experiment;
  experiment.data.type = DataType::image_folder;
  experiment.data.root = folder.path("data");
  experiment.data.validation = folder.path("data");
  experiment.data.train_transforms = {resized_to(12, 13), cropped_to(9)};
  experiment.data.validation_transforms = experiment.data.train_transforms;
  const LoadedData data = load_data(experiment.data, 1);
  const TensorType sample = data.description.inputs.front().type;

  const DataDescription described = describe_inputs(experiment.data, 1, data.preprocessing);
  CHECK(described.inputs == data.description.inputs);

  write_below(folder, "data/cat/notes.txt", "no image");
  write_below(folder, "data/dog/zz.png", "broken");
  std::optional<std::int64_t> count;
  const std::vector<ReadSample> samples = samples_of({folder.path("data")}, experiment, sample, &count);
  CHECK(count == 5);
  REQUIRE(samples.size() == 5);
  for (std::int64_t i = 0; i < 4; ++i) {
    const ReadSample& read = samples[static_cast<std::size_t>(i)];
    CHECK(read.error.empty());
    CHECK(read.bytes == sample_of(*data.validation, i));
  }
  CHECK_THAT(samples[4].error, Contains("zz.png"));
}

TEST_CASE("an image of another size than the model takes is told") {
  const DataFolder folder;
  folder.write("a.png", level_image(8, 8, 1));
  folder.write("b.png", level_image(8, 9, 1));
  Experiment experiment;
  const TensorType digits{DType::u8, Shape{8, 8, 1}};
  const std::vector<ReadSample> samples =
      samples_of({folder.path("a.png"), folder.path("b.png"), folder.path("c.png")}, experiment, digits);
  REQUIRE(samples.size() == 3);
  CHECK(samples[0].error.empty());
  CHECK_THAT(samples[1].error, Contains("is 8×9, and the model takes 8×8"));
  CHECK_THAT(samples[2].error, Contains("c.png"));
}

TEST_CASE("arrays of bytes are images, in front of their channels or behind") {
  const DataFolder folder;
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < 2 * 4 * 5 * 3; ++i) pixels.push_back(static_cast<std::uint8_t>(i * 7));
  const std::string last = folder.write("last.npy", npy("|u1", "(2, 4, 5, 3)", bytes_of_values(pixels)));
  std::vector<std::uint8_t> turned(pixels.size());
  for (int n = 0; n < 2; ++n)
    for (int p = 0; p < 20; ++p)
      for (int c = 0; c < 3; ++c)
        turned[static_cast<std::size_t>(n * 60 + c * 20 + p)] = pixels[static_cast<std::size_t>(n * 60 + p * 3 + c)];
  const std::string first = folder.write("first.npy", npy("|u1", "(2, 3, 4, 5)", bytes_of_values(turned)));
  Experiment experiment;
  experiment.data.type = DataType::arrays;
  const TensorType sample{DType::u8, Shape{4, 5, 3}};
  std::optional<std::int64_t> count;
  const std::vector<ReadSample> samples = samples_of({last, first}, experiment, sample, &count);
  CHECK(count == 4);
  REQUIRE(samples.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(samples[i].error.empty());
    CHECK(samples[i].name == (i < 2 ? last : first) + "[" + std::to_string(i % 2) + "]");
    CHECK(std::memcmp(samples[i].bytes.data(), pixels.data() + i % 2 * 60, 60) == 0);
  }
}

TEST_CASE("arrays of numbers are samples of a model that takes them, finite ones") {
  const DataFolder folder;
  const std::vector<double> numbers = {1, 2, 3, 4, 1e300, 6};
  const std::string path = folder.write("x.npy", npy("<f8", "(3, 2)", bytes_of_values(numbers)));
  Experiment experiment;
  experiment.data.type = DataType::arrays;
  const std::vector<ReadSample> samples = samples_of({path}, experiment, {DType::f32, Shape{2}});
  REQUIRE(samples.size() == 3);
  CHECK(samples[0].error.empty());
  float values[2];
  std::memcpy(values, samples[1].bytes.data(), sizeof(values));
  CHECK(values[0] == 3);
  CHECK(values[1] == 4);
  CHECK_THAT(samples[2].error, Contains("finite"));

  const std::vector<ReadSample> wide = samples_of({path, folder.path("no.npy")}, experiment, {DType::f32, Shape{3}});
  REQUIRE(wide.size() == 2);
  CHECK_THAT(wide[0].error, Contains("its samples are 2, and the model takes 3"));
  CHECK_THAT(wide[1].error, Contains("no.npy"));
}

TEST_CASE("IDX files are read from their begin, gzip or not, and where they end too early that is told") {
  const DataFolder folder;
  std::string idx = bytes_of({0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2});
  for (int i = 0; i < 12; ++i) idx += static_cast<char>(i);
  const std::string plain = folder.write("a-idx3-ubyte", idx);
  const std::string packed = folder.write("b-idx3-ubyte.gz", gzipped(idx));
  const std::string cut = folder.write("c-idx3-ubyte", idx.substr(0, idx.size() - 5));
  Experiment experiment;
  experiment.data.type = DataType::idx;
  std::optional<std::int64_t> count;
  const std::vector<ReadSample> samples =
      samples_of({plain, packed, cut}, experiment, {DType::u8, Shape{2, 2, 1}}, &count);
  CHECK(count == 9);
  REQUIRE(samples.size() == 8);
  for (std::size_t i = 0; i < 7; ++i) {
    CHECK(samples[i].error.empty());
    CHECK(std::to_integer<int>(samples[i].bytes.front()) == static_cast<int>(i % 3 * 4));
  }
  CHECK(!samples[7].error.empty());
}
