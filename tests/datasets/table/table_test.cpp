// Tables as people have them: words, empty cells, columns that are no features, several targets.

#include <fmt/format.h>

#include <cmath>

#include "engine/config/diagnostic.h"
#include "tests/datasets/data_files.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

/// The table of a ship's passengers in small: what people know, what they do not, and words.
constexpr const char* passengers =
    "id,class,sex,age,cabin,fare,survived\n"
    "1,3,male,22,,7.25,no\n"
    "2,1,female,38,C85,71.5,yes\n"
    "3,3,female,NA,,8,yes\n"
    "4,1,female,35,C123,53.5,yes\n"
    "5,3,male,35,,8,no\n"
    "6,3,male,,,8.5,no\n";

DataConfig table_config(const DataFolder& folder, const std::string& text, std::vector<std::string> exclude = {}) {
  DataConfig config;
  config.type = DataType::csv;
  config.train = folder.write("table.csv", text);
  config.exclude = std::move(exclude);
  return config;
}

/// A numeric target, and features as they are.
DataConfig plain_config(const DataFolder& folder, const std::string& text) {
  DataConfig config = table_config(folder, text);
  config.target_type = TaskTarget::numeric;
  config.standardize = false;
  return config;
}

using Rows = std::vector<std::vector<float>>;

Rows rows_of(const Dataset& dataset, bool targets = false) {
  Rows rows;
  for (std::int64_t i = 0; i < dataset.size(); ++i) rows.push_back(floats_of(dataset, i, targets));
  return rows;
}

/// Of what is described and then loaded.
LoadedData loaded(const DataConfig& config, std::uint64_t seed = 1) {
  const DataDescription description = describe_data(config, seed);
  LoadedData data = load_data(config, seed);
  CHECK(data.description == description);
  CHECK(data.train->input_types().front() == description.inputs.front().type);
  return data;
}

}  // namespace

TEST_CASE("A column of words becomes a feature for each of them, in their order, and is not standardised") {
  const DataFolder folder;
  const LoadedData data = loaded(table_config(folder, "size,n,y\nmedium,1,a\nlarge,3,b\n\"medium\",1,a\nsmall,3,b\n"));
  CHECK(rows_of(*data.train) == Rows{{0, 1, 0, -1}, {1, 0, 0, 1}, {0, 1, 0, -1}, {0, 0, 1, 1}});
  const Preprocessing& learned = data.preprocessing;
  CHECK(learned.features == std::vector<std::string>{"size=large", "size=medium", "size=small", "n"});
  CHECK(learned.mean == std::vector<double>{0, 0, 0, 2});
  CHECK(learned.std == std::vector<double>{1, 1, 1, 1});
  REQUIRE(learned.columns.size() == 2);
  CHECK(learned.columns[0].is_category);
  CHECK(learned.columns[0].categories == std::vector<std::string>{"large", "medium", "small"});
  CHECK_FALSE(learned.columns[1].is_category);
  CHECK(learned.targets == std::vector<std::string>{"y"});
}

TEST_CASE("Numbers are categories where data.columns says so, ordered and compared as numbers") {
  const DataFolder folder;
  DataConfig config = plain_config(folder, "k,y\n10,1\n9,2\n9.0,3\n-1,4\n");
  CHECK(rows_of(*loaded(config).train) == Rows{{10}, {9}, {9}, {-1}});
  for (const char* name : {"k", "0", "*"}) {
    config.columns = {{.name = name, .kind = ColumnKind::category}};
    if (std::string(name) == "*") config.columns.push_back({.name = "y", .kind = ColumnKind::number});
    const LoadedData data = loaded(config);
    CHECK(rows_of(*data.train) == Rows{{0, 0, 1}, {0, 1, 0}, {0, 1, 0}, {1, 0, 0}});
    CHECK(data.preprocessing.features == std::vector<std::string>{"k=-1", "k=9", "k=10"});
  }
}

TEST_CASE("Cells without a value are filled by the rule of their column") {
  const DataFolder folder;
  DataConfig config = plain_config(folder, "a,w,y\n1,x,0\n,z,0\n2,,0\n9,z,0\nNaN,x,0\n2,y,0\n");
  const auto filled = [&](MissingRule numbers, MissingRule words) {
    config.missing = {numbers, words};
    const LoadedData data = loaded(config);
    return std::pair(floats_of(*data.train, 1), floats_of(*data.train, 2));
  };
  using Row = std::vector<float>;
  CHECK(filled(MissingRule::mean, MissingRule::mode) == std::pair(Row{3.5F, 0, 0, 1}, Row{2, 1, 0, 0}));
  CHECK(filled(MissingRule::median, MissingRule::category) == std::pair(Row{2, 0, 0, 1, 0}, Row{2, 0, 0, 0, 1}));
  CHECK(filled(MissingRule::mode, MissingRule::error).first == Row{2, 0, 0, 1});

  config.missing = {MissingRule::median, MissingRule::drop};
  const LoadedData data = loaded(config);
  REQUIRE(data.train->size() == 5);
  CHECK(data.preprocessing.num_dropped == 1);
  CHECK(data.preprocessing.columns[0].missing == "median");
  CHECK(data.preprocessing.columns[0].num_missing == 2);
  CHECK(data.preprocessing.columns[0].fill_number == 2.0);
  config.missing = {MissingRule::drop};
  CHECK(rows_of(*loaded(config).train) == Rows{{1, 1, 0, 0}, {9, 0, 0, 1}, {2, 0, 1, 0}});

  // What data.columns says goes before data.missing, a name before a pattern.
  config.columns = {{.name = "*", .missing = MissingRule::drop}, {.name = "a", .missing = MissingRule::mean}};
  config.missing = {MissingRule::mode};
  CHECK(loaded(config).train->size() == 5);
  CHECK(floats_of(*loaded(config).train, 1)[0] == Approx(12.0 / 3));
}

TEST_CASE("A median of an even number of values lies between the middle two, and the mode is the smallest of several") {
  const DataFolder folder;
  DataConfig config = plain_config(folder, "a,y\n7,0\n1,0\n,0\n4,0\n100,0\n");
  config.missing = {MissingRule::median};
  CHECK(floats_of(*loaded(config).train, 2)[0] == 5.5F);
  config.missing = {MissingRule::mode};
  CHECK(floats_of(*loaded(config).train, 2)[0] == 1.0F);
}

TEST_CASE("A sample that is left out lends its words to no category and its cells to no count") {
  const DataFolder folder;
  DataConfig config = plain_config(folder, "w,a,b,y\nx,1,1,0\nlonely,,,0\nz,2,3,0\n");
  config.columns = {{.name = "a", .missing = MissingRule::drop}};
  const LoadedData data = loaded(config);
  CHECK(rows_of(*data.train) == Rows{{1, 0, 1, 1}, {0, 1, 2, 3}});
  CHECK(data.preprocessing.columns[2].missing.empty());
  // The same where it is known only at the end that the column is one of words.
  config.columns.clear();
  config.missing = {MissingRule::median, MissingRule::drop};
  config.train = folder.write("table.csv", "w,v,y\nx,p,0\nlonely,,0\nz,q,0\n");
  CHECK(rows_of(*loaded(config).train) == Rows{{1, 0, 1, 0}, {0, 1, 0, 1}});
}

TEST_CASE("Cells are filled and standardised by the training samples alone") {
  const DataFolder folder;
  std::string text = "a,w,y\n";
  for (int i = 0; i < 60; ++i) text += fmt::format("{},{},{}\n", i % 7 == 3 ? "" : std::to_string(i * i), i % 5, i);
  DataConfig config = plain_config(folder, text);
  config.columns = {{.name = "w", .kind = ColumnKind::category}};
  config.split = 0.25;
  config.samples = 31;
  config.missing = {MissingRule::mean};
  const LoadedData plain = loaded(config, 3);
  double sum = 0, count = 0;
  for (std::int64_t i = 0; i < plain.train->size(); ++i) {
    const auto row = static_cast<int>(floats_of(*plain.train, i, true)[0]);
    if (row % 7 == 3) continue;
    sum += row * row;
    ++count;
  }
  REQUIRE(count < 31);
  CHECK(plain.preprocessing.columns[0].fill_number == Approx(sum / count));
  config.standardize = true;
  const LoadedData standard = loaded(config, 3);
  double mean = 0, square = 0;
  for (std::int64_t i = 0; i < 31; ++i) {
    const float x = floats_of(*standard.train, i)[0];
    mean += x / 31;
    square += x * x / 31;
    if (static_cast<int>(floats_of(*standard.train, i, true)[0]) % 7 == 3) CHECK(x == Approx(0).margin(1e-6));
  }
  CHECK(mean == Approx(0).margin(1e-6));
  CHECK(square == Approx(1).epsilon(1e-5));
}

TEST_CASE("A category that no training sample has is 0 in all features, and counted") {
  const DataFolder folder;
  DataConfig config = plain_config(folder, "w,y\nx,1\nz,2\n,3\n");
  config.missing = {MissingRule::category};
  config.validation = folder.write("validation.csv", "w,y\nz,1\nnew,2\n,3\nnewer,4\n");
  const LoadedData data = loaded(config);
  CHECK(rows_of(*data.validation) == Rows{{0, 1, 0}, {0, 0, 0}, {0, 0, 1}, {0, 0, 0}});
  CHECK(data.preprocessing.columns[0].num_unknown == 2);
  CHECK(data.preprocessing.columns[0].has_missing_category);

  // One that only samples have which are set aside: the same width for every seed.
  std::string text = "w,y\n";
  for (int i = 0; i < 12; ++i) text += fmt::format("{},{}\n", i == 4 ? "rare" : "often", i);
  config = plain_config(folder, text);
  config.split = 0.5;
  int num_aside = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const LoadedData split = loaded(config, seed);
    CHECK(split.description.inputs.front().type.shape == Shape{2});
    const bool is_aside = split.preprocessing.columns[0].num_unknown == 1;
    num_aside += is_aside ? 1 : 0;
    for (const Dataset* part : {split.train.get(), split.validation.get()})
      for (std::int64_t i = 0; i < part->size(); ++i) {
        const bool is_rare = floats_of(*part, i, true)[0] == 4;
        const float expected = is_rare && !is_aside ? 1 : 0;
        CHECK(floats_of(*part, i) == std::vector<float>{is_rare ? 0.0F : 1.0F, expected});
      }
  }
  CHECK(num_aside > 0);
  CHECK(num_aside < 8);
}

TEST_CASE("Columns are chosen by name, number and pattern") {
  const DataFolder folder;
  DataConfig config = plain_config(folder, "a_1,a_2,b,y,c*d\n1,2,3,0,4\n5,6,7,0,8\n");
  config.target = {"y"};
  const auto first = [&](std::vector<std::string> include, std::vector<std::string> exclude) {
    config.include = std::move(include);
    config.exclude = std::move(exclude);
    return floats_of(*loaded(config).train, 0);
  };
  CHECK(first({}, {}) == std::vector<float>{1, 2, 3, 4});
  CHECK(first({"a_*"}, {}) == std::vector<float>{1, 2});
  CHECK(first({"b", "0"}, {}) == std::vector<float>{1, 3});
  CHECK(first({}, {"*_2", "b"}) == std::vector<float>{1, 4});
  CHECK(first({"*"}, {"c*d"}) == std::vector<float>{1, 2, 3});
  const auto refusal = [&](std::vector<std::string> include, std::vector<std::string> exclude) {
    config.include = std::move(include);
    config.exclude = std::move(exclude);
    return error_of<ConfigError>([&] { load_data(config, 1); });
  };
  CHECK_THAT(refusal({"q*"}, {}), Contains("data.include 'q*' is not a column of"));
  CHECK_THAT(refusal({}, {"B"}), Contains("data.exclude 'B' is not a column of") && Contains("one of a_1, a_2, b"));
  CHECK_THAT(refusal({}, {"*"}), Contains("no column is left as a feature"));
  CHECK_THAT(refusal({"y"}, {}), Contains("no column is left as a feature"));
  config.include.clear();
  config.exclude.clear();
  config.columns = {{.name = "e", .kind = ColumnKind::number}};
  CHECK_THAT(error_of<ConfigError>([&] { load_data(config, 1); }), Contains("data.columns 'e' is not a column of"));
}

TEST_CASE("Several numeric targets are one vector, in the order they are named, and standardised where that is asked") {
  const DataFolder folder;
  DataConfig config = plain_config(folder, "p,x,q\n1,0,30\n3,1,10\n");
  config.target = {"q", "p"};
  LoadedData data = loaded(config);
  CHECK(data.description.num_outputs == 2);
  CHECK(rows_of(*data.train, true) == Rows{{30, 1}, {10, 3}});
  CHECK(rows_of(*data.train) == Rows{{0}, {1}});
  CHECK(data.preprocessing.target_std.empty());
  config.standardize_target = true;
  data = loaded(config);
  CHECK(rows_of(*data.train, true) == Rows{{1, -1}, {-1, 1}});
  CHECK(data.preprocessing.target_mean == std::vector<double>{20, 2});
  CHECK(data.preprocessing.target_std == std::vector<double>{10, 1});
  CHECK(target_unit(data.preprocessing) == "standard deviations of each target");
  config.target = {"q"};
  CHECK(target_unit(loaded(config).preprocessing) == "standard deviations of q (10)");
  config.target = {"q", "2"};
  CHECK_THAT(error_of<ConfigError>([&] { load_data(config, 1); }), Contains("names column 'q' twice"));
}

TEST_CASE("A target without a value is refused, left out, or a class of its own") {
  const DataFolder folder;
  DataConfig config = table_config(folder, "x,y\n1,a\n2,None\n3,b\n");
  CHECK_THAT(load_error(config), Contains("table.csv:3:3: no value in column 'y'; write data.columns: {\"y\": "
                                          "{missing: drop}}"));
  config.missing = {MissingRule::mean, MissingRule::drop};
  CHECK(loaded(config).train->size() == 2);
  config.missing.clear();
  config.columns = {{.name = "y", .missing = MissingRule::category}};
  const LoadedData data = loaded(config);
  CHECK(data.description.num_outputs == 3);
  CHECK(data.train->class_of(1) == 2);
  CHECK(data.preprocessing.classes == std::vector<std::string>{"a", "b", "(missing)"});
  config.columns = {{.name = "y", .missing = MissingRule::mode}};
  CHECK_THAT(error_of<ConfigError>([&] { load_data(config, 1); }),
             Contains("missing: mode is not for column 'y', which is the target"));
}

TEST_CASE("Every column that cannot be read as it is is told at once, by its place, with what to write") {
  const DataFolder folder;
  DataConfig config = table_config(folder, passengers);
  config.max_categories = 2;
  config.train = folder.write("table.csv", std::string(passengers) + "7,3,?,30,B5,9,no\n8,1,male,2,E46,\"1,050\",no\n");
  const std::string error = load_error(config);
  const std::string file = folder.path("table.csv");
  CHECK_THAT(error, Contains(file + ":1:10: column 'sex' has 3 different texts, column 'cabin' has 4 different texts, "
                                    "more than the 2 categories of data.max_categories; write data.exclude: [sex, "
                                    "cabin]"));
  CHECK_THAT(error, Contains(file + ":4:12: no value in column 'age', as in 2 of 8 rows; write data.columns: {age: "
                                    "{missing: median}}, or mean, mode or drop"));
  CHECK_THAT(error, Contains(file + ":9:16: '1,050' in column 'fare', expected a finite number: it is written with a "
                                    "comma") &&
                        Contains("data.columns: {fare: category}"));
  config.missing_values = {"?"};
  config.exclude = {"cabin", "fare", "id"};
  config.missing = {MissingRule::median, MissingRule::mode};
  const LoadedData data = loaded(config);
  CHECK(data.preprocessing.features == std::vector<std::string>{"class", "sex=female", "sex=male", "age"});
  CHECK(data.preprocessing.columns[1].fill_category == "male");
}

TEST_CASE("Numbers as people write them are never silently categories") {
  const DataFolder folder;
  const auto error = [&](const std::string& cell) {
    DataConfig config = table_config(folder, "a;y\n" + cell + ";0\n" + cell + ";1\n");
    config.delimiter = ";";
    return load_error(config);
  };
  for (const char* cell : {"1,234", "1,234.50", "3,14", "1 234", "1'234", "$5", "€ 7.50", "5 €", "12 kg", "12kg", "45%",
                           "(7)", "-1,5", "1.234.567", "0x1F", "1e400", "Infinity", "USD 3"}) {
    INFO(cell);
    CHECK_THAT(error(cell),
               Contains("table.csv:2:1: '") && Contains("in column 'a', expected a finite number: it is "));
  }
  for (const char* cell : {"10-19", "2024-01-02", "10:30", "3rd", "A/5 21171", "C85", "1.2.3", "12 Main Street", "10+",
                           "<5", "x", "True"}) {
    INFO(cell);
    CHECK(error(cell) == "");
  }
}

TEST_CASE("A word among numbers is a mistake, numbers among words are words") {
  const DataFolder folder;
  DataConfig config = table_config(folder, "size,y\n42,0\nS,1\n43,0\nM,0\n");
  CHECK_THAT(load_error(config), Contains("table.csv:3:1: 'S' in column 'size', expected a finite number, as 2 of 4 "
                                          "values are; write data.missing_values: [S] if it stands for none, "
                                          "data.columns: {size: category} if it is a category, or data.exclude: "
                                          "[size]"));
  config.columns = {{.name = "size", .kind = ColumnKind::category}};
  CHECK(loaded(config).preprocessing.features == std::vector<std::string>{"size=42", "size=43", "size=M", "size=S"});
  config.columns.clear();
  config.train = folder.write("table.csv", "size,y\n42,0\nS,1\nL,0\nM,0\n");
  CHECK(loaded(config).description.inputs.front().type.shape == Shape{4});
  config.columns = {{.name = "size", .kind = ColumnKind::number}};
  CHECK_THAT(load_error(config), Contains("table.csv:3:1: 'S' in column 'size', expected a finite number"));
}

TEST_CASE("A rule that does not suit the column is refused") {
  const DataFolder folder;
  DataConfig config = table_config(folder, "a,w,y\n1,x,0\n,,1\n2,z,0\n");
  const auto error = [&](const char* name, MissingRule rule) {
    config.columns = {{.name = name, .missing = rule}};
    config.missing = {MissingRule::mode};
    return error_of<ConfigError>([&] { load_data(config, 1); });
  };
  CHECK_THAT(error("a", MissingRule::category),
             Contains("missing: category is not for column 'a', which holds numbers") &&
                 Contains("mean, median, mode, drop or error"));
  CHECK_THAT(error("w", MissingRule::mean), Contains("missing: mean is not for column 'w', which holds categories"));
  config.columns = {{.name = "y", .kind = ColumnKind::number}};
  CHECK_THAT(error_of<ConfigError>([&] { load_data(config, 1); }),
             Contains("says that column 'y' holds numbers, and it is the target"));
  config = table_config(folder, "a,b,y\n1,,0\n2,,1\n");
  config.missing = {MissingRule::mean};
  CHECK_THAT(load_error(config), Contains("table.csv:2:3: no value in column 'b', here or in any other row; write "
                                          "data.exclude: [b]"));
}

TEST_CASE("A validation file is read by what the training file taught, and its mistakes have their places") {
  const DataFolder folder;
  DataConfig config = table_config(folder, "a,w,y\n1,x,0\n3,z,1\n");
  config.validation = folder.write("validation.csv", "a,w,y\n5,x,0\n,z,1\n");
  CHECK_THAT(load_error(config),
             Contains("validation.csv:3:1: no value in column 'a'; write data.columns: {a: {missing: "
                      "median}}"));
  config.missing = {MissingRule::mean, MissingRule::drop};
  LoadedData data = loaded(config);
  CHECK(rows_of(*data.validation) == Rows{{3, 1, 0}, {0, 0, 1}});
  config.columns = {{.name = "a", .missing = MissingRule::drop}};
  data = loaded(config);
  CHECK(data.validation->size() == 1);
  CHECK(data.preprocessing.num_validation_dropped == 1);
  folder.write("validation.csv", "a,w,y\n5,x,0\n7 kg,z,1\n");
  CHECK_THAT(load_error(config), Contains("validation.csv:3:1: '7 kg' in column 'a', expected a finite number"));
}

TEST_CASE("Reading takes eight bytes a column and what a filled column takes again") {
  const DataFolder folder;
  DataConfig config = table_config(folder, "w,a,y\nx,1,0\nz,2,1\nu,4,0\n");
  CHECK(loaded(config).description.reading_bytes == 8 * 2 + 4);
  config.target_type = TaskTarget::numeric;
  CHECK(loaded(config).description.reading_bytes == 8 * 2 + 8);
  config.train = folder.write("table.csv", "w,a,y\nx,1,0\nz,,1\nu,4,0\n");
  config.missing = {MissingRule::median};
  CHECK(loaded(config).description.reading_bytes == 8 * 2 + 8 + 8);
  // Only declared: as if each feature were a column.
  config.train = folder.path("none.csv");
  config.shape = {4};
  config.samples = 3;
  CHECK(describe_data(config, 1).reading_bytes == 8 * 4 + 8);
}
