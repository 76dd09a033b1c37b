#include "datasets/prediction/input_description.h"

#include <catch2/catch.hpp>

#include "datasets/dataset.h"
#include "tests/datasets/data_files.h"

using namespace trainer;

TEST_CASE("what the keys tell of a model's input is what the data tells") {
  DataConfig digits;
  digits.mean = {0.3};
  digits.std = {0.4};
  CHECK(describe_inputs(digits, 1, {}).inputs == describe_data(digits, 1).inputs);

  DataConfig synthetic;
  synthetic.type = DataType::synthetic;
  synthetic.shape = {5, 6, 2};
  synthetic.classes = 3;
  synthetic.samples = 10;
  CHECK(describe_inputs(synthetic, 1, {}).inputs == describe_data(synthetic, 1).inputs);
}

TEST_CASE("files that are not there are not missed where transforms say what becomes of them") {
  DataConfig config;
  config.type = DataType::image_folder;
  config.root = "no such folder";
  CHECK_THROWS_AS(describe_inputs(config, 1, {}), DataError);
  CenterCropSpec crop;
  crop.size = {12, 10};
  config.validation_transforms = {{"center_crop", crop}};
  const DataDescription data = describe_inputs(config, 1, {});
  REQUIRE(data.inputs.size() == 1);
  CHECK(data.inputs.front().type == TensorType{DType::u8, Shape{12, 10, 3}});
  CHECK(data.inputs.front().mean == std::vector<float>{0, 0, 0});

  DataConfig cifar;
  cifar.type = DataType::cifar10;
  cifar.root = "no such folder";
  CHECK(describe_inputs(cifar, 1, {}).inputs.front().type == TensorType{DType::u8, Shape{32, 32, 3}});
}

TEST_CASE("windows of tokens are known without the text that training had") {
  const DataFolder folder;
  DataConfig config;
  config.type = DataType::text;
  config.train = folder.write("a.txt", std::string(200, 'a'));
  config.cache_folder = folder.path();
  config.tokenizer = "bytes";
  config.sequence_length = 16;
  for (const std::int64_t classes : {0, 300}) {
    config.classes = classes;
    CHECK(describe_inputs(config, 1, {}).inputs == describe_data(config, 1).inputs);
  }
  config.train = folder.path("nothing.txt");
  CHECK(describe_inputs(config, 1, {}).inputs.front().num_indices == 300);

  DataConfig tokens;
  tokens.type = DataType::tokens;
  tokens.train = folder.write("a.bin", bytes_of({1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0}));
  tokens.sequence_length = 2;
  CHECK(describe_inputs(tokens, 1, {}).inputs == describe_data(tokens, 1).inputs);
  tokens.classes = 9;
  CHECK(describe_inputs(tokens, 1, {}).inputs == describe_data(tokens, 1).inputs);
  tokens.train = folder.path("nothing.bin");
  CHECK(describe_inputs(tokens, 1, {}).inputs.front().num_indices == 9);
}

TEST_CASE("readers of images are counted, those of other inputs hold nothing") {
  DataConfig config;
  config.workers = 3;
  DataDescription images = describe_inputs(config, 1, {});
  count_input_readers(config, images);
  CHECK(images.num_readers == 3);
  CHECK(images.reader_bytes > usual_image_side * usual_image_side);
  DataDescription numbers;
  numbers.inputs.emplace_back().type = {DType::f32, Shape{4}};
  count_input_readers(config, numbers);
  CHECK(numbers.num_readers == 1);
  CHECK(numbers.reader_bytes == 0);
}
