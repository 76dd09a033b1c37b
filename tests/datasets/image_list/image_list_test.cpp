#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/datasets/data_files.h"
#include "tests/datasets/image_file_writing.h"

using namespace trainer;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

/// Images of levels 10, 20 and 30 in `photos`, and a list of them.
DataConfig listed(const DataFolder& folder, const std::string& list, const std::string& name = "train.csv") {
  for (int i = 1; i <= 3; ++i) write_below(folder, fmt::format("photos/{}.png", i), png_of(2, 3, 10 * i));
  DataConfig config;
  config.type = DataType::image_list;
  config.train = folder.write(name, list);
  return config;
}

/// "10:1 20:0": levels and classes.
std::string samples_of(const Dataset& dataset) {
  std::string text;
  for (std::int64_t i = 0; i < dataset.size(); ++i)
    text += fmt::format("{}{}:{}", i == 0 ? "" : " ", pixels_of(dataset, i).back(), dataset.class_of(i));
  return text;
}

std::string list_config_error(const DataConfig& config) {
  return error_of<ConfigError>([&] { describe_data(config, 1); });
}

}  // namespace

TEST_CASE("A table lists images below its folder with a label each") {
  const DataFolder folder;
  const DataConfig config =
      listed(folder, "id,Label,path\n7,dog,photos/3.png\n8,cat,photos/1.png\n9,dog,photos/2.png\n");
  const LoadedData data = load_data(config, 1);
  CHECK(samples_of(*data.train) == "30:1 10:0 20:1");
  CHECK(data.preprocessing.classes == std::vector<std::string>{"cat", "dog"});
  CHECK(data.description.num_outputs == 2);
  CHECK(data.description.held_bytes > 0);
  CHECK(describe_data(config, 1) == data.description);

  DataConfig below_root = config;
  below_root.root = folder.path("photos");
  below_root.train = folder.write("photos/list.txt", "2.png\tb\n1.png\ta\n" + folder.path("photos/3.png") + "\tb\n");
  below_root.header = false;
  below_root.delimiter = "\\t";
  CHECK(samples_of(*load_data(below_root, 1).train) == "20:1 10:0 30:1");
}

TEST_CASE("JSON Lines list images as tables do") {
  const DataFolder folder;
  const DataConfig config = listed(folder,
                                   "{\"file_name\": \"photos/3.png\", \"label\": 10, \"more\": [1]}\n\n"
                                   "{\"label\": 9, \"file_name\": \"photos/1.png\"}\r\n"
                                   "{\"label\": 10, \"file_name\": \"photos/2.png\"}",
                                   "train.jsonl");
  // Numbers are ordered as such.
  CHECK(samples_of(*load_data(config, 1).train) == "30:1 10:0 20:1");
  CHECK(load_data(config, 1).preprocessing.classes == std::vector<std::string>{"9", "10"});
}

TEST_CASE("Columns of a list are named, numbered, or known by what they are usually called") {
  const DataFolder folder;
  DataConfig config = listed(folder, "where,what,kind\nphotos/1,x,b\nphotos/2,y,a\n");
  CHECK_THAT(list_config_error(config), Contains("no column of") && Contains("data.image: one of where, what, kind"));
  config.image = "where";
  CHECK_THAT(list_config_error(config),
             Contains("2 columns beside the paths") && Contains("data.target: one of where, what, kind"));
  config.target = {"2"};
  CHECK_THAT(load_error(config), Contains("train.csv:2: ") && Contains("photos/1'"));
  config.image_suffix = ".png";
  CHECK(samples_of(*load_data(config, 1).train) == "10:1 20:0");
  config.target = {"where"};
  CHECK_THAT(list_config_error(config), Contains("is path and target"));
  config.target = {"kin"};
  CHECK_THAT(list_config_error(config), Contains("has no column 'kin', which data.target names"));
}

TEST_CASE("A validation list has the columns and the labels of the training list") {
  const DataFolder folder;
  DataConfig config = listed(folder, "path,label,time\nphotos/1.png,b,1\nphotos/2.png,a,2\n");
  config.validation = folder.write("val.csv", "time,path,label\n0,photos/3.png,b\n");
  const LoadedData data = load_data(config, 1);
  REQUIRE(data.validation);
  CHECK(samples_of(*data.validation) == "30:1");
  config.validation = folder.write("val.csv", "path,label\nphotos/3.png,c\n");
  CHECK_THAT(load_error(config), Contains("val.csv:2: the label 'c' is that of no training image"));
  config.validation = folder.write("val.csv", "path,kind\nphotos/3.png,b\n");
  CHECK_THAT(list_config_error(config), Contains("val.csv has no column 'label'"));
}

TEST_CASE("Class names order the labels of a list, and leave others out") {
  const DataFolder folder;
  DataConfig config = listed(folder, "path,label\nphotos/1.png,a\nphotos/2.png,b\nphotos/3.png,c\n");
  config.class_names = {"c", "a"};
  const LoadedData data = load_data(config, 1);
  CHECK(samples_of(*data.train) == "10:1 30:0");
  CHECK(data.remarks ==
        std::vector<std::string>{"rows whose label is none of data.class_names are left out: 1 of them"});
  config.class_names = {"c", "d"};
  CHECK_THAT(list_config_error(config), Contains("no training image has the label 'd'"));
  config.class_names = {"c", "c"};
  CHECK_THAT(list_config_error(config), Contains("has a name twice"));
}

TEST_CASE("Several labels become a 1 for each that an image has") {
  const DataFolder folder;
  DataConfig config = listed(folder, "path,tags\nphotos/1.png,red | big\nphotos/2.png,\nphotos/3.png,big\n");
  config.target_type = TaskTarget::multi_label;
  config.label_separator = "|";
  const LoadedData data = load_data(config, 1);
  CHECK(data.preprocessing.classes == std::vector<std::string>{"big", "red"});
  CHECK(data.train->target_type() == TensorType{DType::f32, Shape{2}});
  CHECK(floats_of(*data.train, 0, true) == std::vector<float>{1, 1});
  CHECK(floats_of(*data.train, 1, true) == std::vector<float>{0, 0});
  CHECK(floats_of(*data.train, 2, true) == std::vector<float>{1, 0});

  config.label_separator.clear();
  CHECK(load_data(config, 1).preprocessing.classes == std::vector<std::string>{"big", "red | big"});
  config.train =
      folder.write("train.jsonl",
                   "{\"path\": \"photos/1.png\", \"tags\": [\"red\", \"big\"]}\n"
                   "{\"path\": \"photos/2.png\", \"tags\": []}\n{\"path\": \"photos/3.png\", \"tags\": \"b;c\"}");
  const LoadedData of_json = load_data(config, 1);
  CHECK(of_json.preprocessing.classes == std::vector<std::string>{"b;c", "big", "red"});
  CHECK(floats_of(*of_json.train, 0, true) == std::vector<float>{0, 1, 1});
  config.target_type = TaskTarget::categorical;
  CHECK_THAT(load_error(config), Contains("train.jsonl:1: 2 labels, expected one"));
}

TEST_CASE("Numbers of a list are targets as they are, and transforms leave them so") {
  const DataFolder folder;
  DataConfig config = listed(folder, "path,x,y\nphotos/1.png,0.5,-2\nphotos/2.png,1e3,7\n");
  config.target_type = TaskTarget::numeric;
  config.target = {"y", "x"};
  ResizeSpec resize;
  resize.size = {4, 4};
  config.train_transforms = config.validation_transforms = {{"resize", resize}};
  const LoadedData data = load_data(config, 1);
  CHECK(data.train->target_type() == TensorType{DType::f32, Shape{2}});
  CHECK(data.train->input_types().front().shape == Shape{4, 4, 3});
  CHECK(floats_of(*data.train, 0, true) == std::vector<float>{-2, 0.5F});
  CHECK(floats_of(*data.train, 1, true) == std::vector<float>{7, 1000});
  config.targets_are_probabilities = true;
  CHECK_THAT(load_error(config), Contains("train.csv:2: -2, expected 0 to 1"));
  config.targets_are_probabilities = false;
  config.train = folder.write("train.csv", "path,x,y\nphotos/1.png,1,000,3\n");
  CHECK_THAT(load_error(config), Contains("train.csv:2:") && Contains("4 fields, expected 3"));
  config.train = folder.write("train.csv", "path,x,y\nphotos/1.png,12 kg,3\n");
  CHECK_THAT(load_error(config), Contains("train.csv:2: '12 kg', expected a number: it is written with a unit"));
  config.train = folder.write("train.jsonl",
                              "{\"path\": \"photos/1.png\", \"at\": [1, 2, true]}\n"
                              "{\"path\": \"photos/2.png\", \"at\": [1, 2]}\n");
  config.target.clear();
  CHECK_THAT(load_error(config), Contains("train.jsonl:2: 2 numbers, expected 3 as in the first row"));
}

TEST_CASE("An image of a list that cannot be read is told with its row, or left out") {
  const DataFolder folder;
  DataConfig config = listed(folder, "path,label\nphotos/1.png,a\nphotos/none.png,b\nphotos/2.png,b\nnotes,a\n");
  folder.write("notes", "no image");
  CHECK_THAT(load_error(config), Contains("train.csv:3: cannot open") && Contains("photos/none.png'") &&
                                     Contains("and 1 more like it") && Contains("on_bad_sample=skip"));
  config.on_bad_sample = OnBadSample::skip;
  const LoadedData data = load_data(config, 1);
  CHECK(samples_of(*data.train) == "10:0 20:1");
  REQUIRE(data.remarks.size() == 1);
  CHECK_THAT(data.remarks.front(), StartsWith("2 files that cannot be read are left out:\n  "));
}

TEST_CASE("What is no list of images is refused with its place") {
  const DataFolder folder;
  DataConfig config = listed(folder, "");
  const auto refusal = [&](const std::string& list) {
    config.train = folder.write("list", list);
    const std::string of_data = load_error(config);
    return of_data.empty() ? list_config_error(config) : of_data;
  };
  CHECK_THAT(refusal(""), Contains("list: is empty"));
  CHECK_THAT(refusal("path,label\n"), Contains("list: lists no image"));
  CHECK_THAT(refusal("path;label\nphotos/1.png;a\n"),
             Contains("list:1:1: one column") && Contains("data.delimiter: ';'"));
  CHECK_THAT(refusal("path,label\n,a\n"), Contains("list:2:1: no path of an image"));
  CHECK_THAT(refusal("path,label\nphotos/1.png,\n"), Contains("list:2: no label"));
  CHECK_THAT(refusal("{\"path\": \"photos/1.png\", \"label\": 1}\n[1]\n"), Contains("list:2: no object of JSON"));
  CHECK_THAT(refusal("{\"path\": \"photos/1.png\", \"label\": 1}\n{\"path\": \"photos/1.png\"}\n"),
             Contains("list:2: 'label' is missing"));
  CHECK_THAT(refusal("{\"path\": 3, \"label\": 1}\n"), Contains("list:1: 'path' is no path"));
  CHECK_THAT(refusal("{\"path\": \"a\\u0000b\", \"label\": 1}\n"), Contains("list:1: a path with a NUL"));
  CHECK_THAT(refusal("{\"path\": \"photos/1.png\", \"label\": {\"a\": 1}}\n"),
             Contains("list:1: 'label' holds what is no"));
  CHECK_THAT(refusal("{\"path\": \"photos/1.png\"}\n"), Contains("list:1: expected a path and a target"));
  config.train = folder.path("nowhere.csv");
  CHECK_THAT(load_error(config), StartsWith("no data file") && Contains("nowhere.csv'"));
}

TEST_CASE("A plan needs no list where classes, samples and transforms are declared") {
  DataConfig config;
  config.type = DataType::image_list;
  config.train = "/nowhere/list.csv";
  config.classes = 7;
  config.samples = 10;
  config.shape = {6, 8, 3};
  CHECK(describe_data(config, 1).num_outputs == 7);
  config.target_type = TaskTarget::multi_label;
  CHECK(describe_data(config, 1).target == TensorType{DType::f32, Shape{7}});
}
