#include <fmt/format.h>

#include <cmath>

#include "tests/datasets/data_files.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

DataConfig csv_config(const DataFolder& folder, const std::string& text) {
  DataConfig config;
  config.type = DataType::csv;
  config.train = folder.write("train.csv", text);
  return config;
}

std::vector<int> classes_of(const Dataset& dataset) {
  std::vector<int> classes;
  for (std::int64_t i = 0; i < dataset.size(); ++i) classes.push_back(dataset.class_of(i));
  return classes;
}

}  // namespace

TEST_CASE("A csv gives standardised features and classes sorted by name") {
  const DataFolder folder;
  const LoadedData data =
      load_data(csv_config(folder, "width,height,kind\n1,10,pear\n2,10,apple\n3,10,\"fig, dried\"\n"), 1);
  CHECK(data.description.inputs.front().type == TensorType{DType::f32, Shape{2}});
  CHECK(data.description.num_outputs == 3);
  CHECK(data.description.inputs.front().mean.empty());
  CHECK(classes_of(*data.train) == std::vector<int>{2, 0, 1});
  // Mean 2 and population standard deviation √(2/3); the constant column becomes 0.
  const float unit = 1 / std::sqrt(2.0F / 3.0F);
  CHECK(floats_of(*data.train, 0)[0] == Approx(-unit));
  CHECK(floats_of(*data.train, 1)[0] == Approx(0).margin(1e-7));
  CHECK(floats_of(*data.train, 2)[0] == Approx(unit));
  CHECK(floats_of(*data.train, 2)[1] == 0);
}

TEST_CASE("Features far from zero keep their differences: they are standardised before they are rounded to f32") {
  // Seconds since 1970, some of them behind the point; one column begins with an outlier, one never changes.
  constexpr int num_rows = 1000;
  const DataFolder folder;
  std::string text = "time,late,same,y\n";
  std::vector<double> times, late;
  for (int i = 0; i < num_rows; ++i) {
    times.push_back(1.7e9 + 1e-3 * (i * i % 337));
    late.push_back(i == 0 ? 0 : 1.7e9 + (i * 37) % 101);
    text += fmt::format("{},{},1700000000.125,{}\n", times.back(), late.back(), i % 2);
  }
  const LoadedData data = load_data(csv_config(folder, text), 1);
  const auto check_column = [&](const std::vector<double>& values, std::size_t column) {
    long double mean = 0, square = 0;
    for (const double value : values) mean += static_cast<long double>(value) / num_rows;
    for (const double value : values) square += (value - mean) * (value - mean) / num_rows;
    int num_wrong = 0;
    for (int i = 0; i < num_rows; ++i) {
      const auto expected = static_cast<double>((values[static_cast<std::size_t>(i)] - mean) / std::sqrt(square));
      num_wrong += floats_of(*data.train, i)[column] == Approx(expected).epsilon(1e-6).margin(1e-6) ? 0 : 1;
    }
    INFO("column " << column);
    CHECK(num_wrong == 0);
  };
  check_column(times, 0);
  check_column(late, 1);
  for (int i = 0; i < num_rows; i += 100) CHECK(floats_of(*data.train, i)[2] == 0);
  // Two rows a millisecond apart differ.
  CHECK(floats_of(*data.train, 0)[0] != floats_of(*data.train, 1)[0]);
}

TEST_CASE("Labels that are numbers are ordered as numbers and equal as numbers") {
  const DataFolder folder;
  const LoadedData data = load_data(csv_config(folder, "x,y\n1,10\n2,9\n3,-1\n4,9.0\n"), 1);
  CHECK(classes_of(*data.train) == std::vector<int>{2, 1, 0, 1});
}

TEST_CASE("Numeric targets stay as they are") {
  const DataFolder folder;
  DataConfig config = csv_config(folder, "1;2.5\n3;-4e2\n");
  config.header = false;
  config.delimiter = ";";
  config.target_type = TaskTarget::numeric;
  config.target = {"1"};
  const LoadedData data = load_data(config, 1);
  CHECK(data.description.categorical() == false);
  CHECK(data.description.num_outputs == 1);
  CHECK(data.description.target == TensorType{DType::f32, Shape{1}});
  CHECK(floats_of(*data.train, 0, true) == std::vector<float>{2.5F});
  CHECK(floats_of(*data.train, 1, true) == std::vector<float>{-400});
  CHECK(floats_of(*data.train, 0) == std::vector<float>{-1});
}

TEST_CASE("The target column is found by name, by index, or is the last") {
  const DataFolder folder;
  DataConfig config = csv_config(folder, "kind,a,2\nx,1,7\ny,2,8\n");
  for (const char* target : {"kind", "0"}) {
    config.target = {target};
    const LoadedData data = load_data(config, 1);
    CHECK(data.description.inputs.front().type.shape == Shape{2});
    CHECK(classes_of(*data.train) == std::vector<int>{0, 1});
  }
  config.target = {"2"};                                                          // a name before an index
  CHECK(load_data(config, 1).description.inputs.front().type.shape == Shape{3});  // kind has two categories
  config.target = {"colour"};
  CHECK_THAT(error_of<ConfigError>([&] { load_data(config, 1); }),
             Contains("data.target 'colour' is not a column") && Contains("one of kind, a, 2"));
  config.target = {"3"};
  CHECK_THAT(error_of<ConfigError>([&] { load_data(config, 1); }), Contains("a number from 0 to 2"));
  config.header = false;
  config.target = {"kind"};
  CHECK_THAT(error_of<ConfigError>([&] { load_data(config, 1); }), Contains("has 3 and no header"));
}

TEST_CASE("Quotes, line ends, blank lines, a byte order mark and spaces are read as usual") {
  const DataFolder folder;
  const std::string text =
      "\xEF\xBB\xBF\"a\",b,kind\r\n"
      "\r\n"
      " 1 ,\t+2,\"say \"\"hi\"\"\"\r\n"
      "\"3\",4e0,\"two\nlines\"\r"
      "5,.5, plain \n"
      "\n"
      "7,8,plain";
  const LoadedData data = load_data(csv_config(folder, text), 1);
  CHECK(data.description.num_outputs == 3);
  CHECK(classes_of(*data.train) == std::vector<int>{1, 2, 0, 0});
  DataConfig config = csv_config(folder, text);
  config.columns = {{.name = "kind", .kind = ColumnKind::number}};
  config.target = {"b"};
  CHECK_THAT(load_error(config), Contains("train.csv:3:9: 'say \"hi\"' in column 'kind'"));
  config = csv_config(folder, gzipped(text));
  CHECK(classes_of(*load_data(config, 1).train) == std::vector<int>{1, 2, 0, 0});
}

TEST_CASE("A csv error names file, line and column") {
  const DataFolder folder;
  const auto error = [&](const std::string& text) { return load_error(csv_config(folder, text)); };
  const std::string file = folder.path("train.csv");
  CHECK_THAT(error("a,b,y\n1,2,0\n1,,0\n"), Contains(file + ":3:3: no value in column 'b'"));
  CHECK_THAT(error("a,b,y\n1,2,0\n1,2,\n"), Contains(file + ":3:5: no value in column 'y'"));
  CHECK_THAT(error("b,ä,y\nä,2,0\nä,ö,0\n"), Contains(file + ":3:3: 'ö' in column 'ä', expected a finite number"));
  CHECK_THAT(error("a,b,y\n1,2,\"ä\"\n1,nan,x\n"), Contains(file + ":3:3: no value in column 'b'"));
  CHECK_THAT(error("a,b,y\n1,1e199,x\n"), Contains(file + ":2:3: '1e199'") && Contains("at most 1e+150 in size"));
  CHECK(error("a,b,y\n1,1e99,x\n2,3e99,y\n").empty());  // beyond f32, which takes it once it is standardised
  CHECK_THAT(error("a,b,y\n1,0x10,x\n"), Contains(file + ":2:3: '0x10'"));
  CHECK_THAT(error("a,b,y\n1,2,0\n1,2\n"), Contains(file + ":3:3: 2 fields, expected 3"));
  CHECK_THAT(error("a,b,y\n1,2,0,9\n"), Contains(file + ":2:7: 4 fields, expected 3"));
  CHECK_THAT(error("a,b,y\n1,2,\"0\n1,2,3\n"), Contains(file + ":2:5: this quote is never closed"));
  CHECK_THAT(error("a,b,y\n\"1\"2,2,0\n"), Contains(file + ":2:4: text after a closing quote"));
  CHECK_THAT(error(std::string("a,b,y\n1,\0002,0\n", 13)), Contains(file + ":2:3: a NUL byte"));
  CHECK_THAT(error("a;b;y\n1;2;0\n"), Contains(file + ":1:1: one column"));
  CHECK_THAT(error(""), Contains(file + ": is empty"));
  CHECK_THAT(error("a,b,y\n"), Contains(file + ": no training samples"));
  CHECK_THAT(error("a,b\n" + std::string(20 << 20, 'x') + ",1\n"), Contains(file + ":2:1: a record of more than"));
}

TEST_CASE("A csv that is read in another way than it was written names the key and the value to write") {
  const DataFolder folder;
  const auto error = [&](const std::string& text, bool header = true, const std::string& delimiter = ",") {
    DataConfig config = csv_config(folder, text);
    config.header = header;
    config.delimiter = delimiter;
    return load_error(config);
  };
  CHECK_THAT(error("a;b;y\n1;2;0\n"), Contains("train.csv:1:1: one column") && Contains("write data.delimiter: ';'"));
  CHECK_THAT(error("a\tb\ty\n1\t2\t0\n"), Contains("write data.delimiter: tab"));
  CHECK_THAT(error("a,b,y\n1,2,0\n", true, ";"), Contains("write data.delimiter: ','"));
  CHECK_THAT(error("a\n1\n"), Contains("see data.delimiter"));
  CHECK_THAT(error("1,5;2,5;0\n2,5;3,5;1\n", false), Contains("'5;2'") && Contains("write data.delimiter: ';'"));

  CHECK_THAT(error("a,b,y\n1,2,0\n", false), Contains("train.csv:1:1: 'a'") && Contains("write data.header: true"));
  CHECK_THAT(error("1,2,0\na,2,0\n", false), Contains("train.csv:2:1: 'a'") && !Contains("data.header"));
  CHECK_THAT(error("5.1,3.5,setosa\n4.9,3.0,setosa\n"),
             Contains("train.csv:1:1: numbers in place of the columns' names; "
                      "write data.header: false"));
  CHECK(error("\"5.1\",\"3.5\",y\n4.9,3.0,setosa\n").empty());
  CHECK(error("0,1,2\n4.9,3.0,setosa\n").empty());  // names that are columns' indices
}

TEST_CASE("What f32 does not hold is refused in a csv with its row and column") {
  const DataFolder folder;
  for (const char* value : {"1e39", "-1e39", "1e150", "1e400", "inf", "-inf"}) {
    DataConfig config = csv_config(folder, fmt::format("x,y\n1,2\n2,{}\n", value));
    config.target_type = TaskTarget::numeric;
    CHECK_THAT(load_error(config), Contains(fmt::format("train.csv:3:3: '{}' in column 'y'", value)));
  }
  for (const char* value : {"1e151", "1e400", "inf", "-inf"})
    CHECK_THAT(load_error(csv_config(folder, fmt::format("x,y\n1,a\n{},b\n", value))),
               Contains(fmt::format("train.csv:3:1: '{}' in column 'x'", value)));
}

TEST_CASE("Validation uses the classes and the standardisation of training") {
  const DataFolder folder;
  DataConfig config = csv_config(folder, "x,y\n0,a\n2,b\n");
  config.validation = folder.write("validation.csv", "x,y\n5,b\n");
  const LoadedData data = load_data(config, 1);
  CHECK(floats_of(*data.validation, 0) == std::vector<float>{4});
  CHECK(data.validation->class_of(0) == 1);
  CHECK(data.description.num_validation == 1);

  folder.write("validation.csv", "x,y\n5,c\n");
  CHECK_THAT(load_error(config), Contains("validation.csv:2:3: class 'c' in column 'y' does not occur in"));
  folder.write("validation.csv", "z,y\n5,a\n");
  CHECK_THAT(load_error(config), Contains("validation.csv:1:1: column 0 is 'z', but 'x' in"));
  folder.write("validation.csv", "x,q,y\n5,1,a\n");
  CHECK_THAT(load_error(config), Contains("has 3 columns, but ") && Contains("has 2"));
  folder.write("validation.csv", "x,y\n");
  CHECK_THAT(load_error(config), Contains("validation.csv: no samples"));
  // A column after the target, and a value that f32 does not hold once it is standardised.
  config = csv_config(folder, "y,x\na,0\nb,2\n");
  config.target = {"y"};
  config.validation = folder.write("validation.csv", "y,x\na,3\nb,-1e60\n");
  CHECK_THAT(load_error(config), Contains("validation.csv:3:3: -1e+60 in column 'x' is 1e+60 standard deviations "
                                          "from the mean of the training samples, more than f32 holds"));
  folder.write("validation.csv", "y,x\na,3\nb,-1e30\n");
  CHECK(floats_of(*load_data(config, 1).validation, 1) == std::vector<float>{-1e30F});
}

TEST_CASE("A split csv is standardised by its training part alone") {
  const DataFolder folder;
  std::string text = "x,y\n";
  for (int i = 0; i < 10; ++i) text += std::to_string(i * i) + "," + std::to_string(i % 2) + "\n";
  DataConfig config = csv_config(folder, text);
  config.split = 0.3;
  const LoadedData data = load_data(config, 5);
  REQUIRE(data.train->size() == 7);
  REQUIRE(data.validation->size() == 3);
  double sum = 0;
  double squares = 0;
  for (std::int64_t i = 0; i < 7; ++i) {
    const double value = floats_of(*data.train, i)[0];
    sum += value;
    squares += value * value;
  }
  CHECK(sum == Approx(0).margin(1e-5));
  CHECK(squares / 7 == Approx(1));
}

TEST_CASE("A completely declared csv is described without its file and checked when it is loaded") {
  const DataFolder folder;
  DataConfig config;
  config.type = DataType::csv;
  config.train = folder.path("train.csv");
  config.shape = {4};
  config.classes = 3;
  config.samples = 120;
  const DataDescription description = describe_data(config, 1);
  CHECK(description.inputs.front().type == TensorType{DType::f32, Shape{4}});
  CHECK(description.num_train == 120);
  folder.write("train.csv", "a,b,c,d,y\n1,2,3,4,0\n2,3,4,5,1\n3,4,5,6,2\n");
  CHECK_THAT(load_error(config), Contains("data.samples declares 120, but the data has 3"));
  config.samples = 3;
  CHECK(load_data(config, 1).train->size() == 3);
  config.classes = 2;
  CHECK_THAT(load_error(config), Contains("data.classes declares 2, but the data has 3"));
  config.classes = 3;
  config.shape = {5};
  CHECK_THAT(load_error(config), Contains("data.shape declares 5, but the data has 4"));
}

TEST_CASE("A delimiter is one character") {
  const DataFolder folder;
  DataConfig config = csv_config(folder, "a\ty\n1\t0\n2\t1\n");
  config.delimiter = "\\t";
  CHECK(load_data(config, 1).train->size() == 2);
  config.delimiter = "::";
  CHECK_THAT(error_of<ConfigError>([&] { load_data(config, 1); }), Contains("data.delimiter '::'"));
}

TEST_CASE("A numeric target that is no probability is refused for bce_with_logits, with its row") {
  const DataFolder folder;
  DataConfig config = csv_config(folder, "x,y\n0,0\n1,1\n2,0.25\n3,1.5\n");
  config.target_type = TaskTarget::numeric;
  CHECK_NOTHROW(load_data(config, 1));
  config.targets_are_probabilities = true;
  CHECK_THAT(load_error(config), Contains("train.csv:5:3: 1.5 in column 'y', expected a target from 0 to 1"));
  config.train = folder.write("train.csv", "x,y\n0,0\n1,1\n2,0.25\n");
  CHECK_NOTHROW(load_data(config, 1));
  config.validation = folder.write("validation.csv", "x,y\n0,-1e-9\n");
  CHECK_THAT(load_error(config), Contains("validation.csv:2:3: -1e-09 in column 'y'"));
}

TEST_CASE("A part of a csv is standardised by its training samples alone") {
  const DataFolder folder;
  std::string text = "x,y\n";
  for (int i = 0; i < 40; ++i) text += std::to_string(i * i) + "," + std::to_string(i % 2) + "\n";
  DataConfig config = csv_config(folder, text);
  config.split = 0.25;
  config.samples = 11;
  const LoadedData data = load_data(config, 5);
  REQUIRE(data.train->size() == 11);
  REQUIRE(data.validation->size() == 10);
  double sum = 0, square = 0;
  for (int i = 0; i < 11; ++i) {
    const double x = floats_of(*data.train, i)[0];
    sum += x;
    square += x * x;
  }
  CHECK(sum == Approx(0).margin(1e-5));
  CHECK(square / 11 == Approx(1).epsilon(1e-5));
}
