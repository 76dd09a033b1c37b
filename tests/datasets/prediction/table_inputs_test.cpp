#include "datasets/prediction/table_inputs.h"

#include <cstring>

#include "datasets/prediction/input_description.h"
#include "tests/datasets/data_files.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

constexpr const char* training_table =
    "age,town,rooms,kind,price\n"
    "20,york,2,a,1\n31.5,bath,,b,2\n-4,york,3,,3\n,hull,5,a,4\n7,bath,1,b,5\n60,york,4,a,6\n";

DataConfig trained_table(const DataFolder& folder, const std::string& text = training_table) {
  DataConfig config;
  config.type = DataType::csv;
  config.train = folder.write("train.csv", text);
  config.target = {"price"};
  config.target_type = TaskTarget::numeric;
  config.missing = {MissingRule::mean, MissingRule::category};
  return config;
}

struct ReadRow {
  std::string name, error;
  std::vector<float> features;
};

std::vector<ReadRow> rows_of(const std::vector<std::string>& files, const DataConfig& config, const LoadedData& data) {
  const std::int64_t num_features = data.description.inputs.front().type.shape[0];
  InputPaths paths(files, [](std::string_view) { return true; }, {});
  const std::unique_ptr<InputStream> stream = table_inputs(std::move(paths), config, data.preprocessing, num_features);
  const std::unique_ptr<InputReader> reader = stream->make_reader();
  std::vector<ReadRow> rows;
  for (PredictionInput input; stream->next(input); input.restart(input.number + 1)) {
    ReadRow& row = rows.emplace_back();
    row.name = input.name;
    row.error = input.error;
    if (!row.error.empty()) continue;
    row.features.resize(static_cast<std::size_t>(num_features));
    REQUIRE(input.bytes.size() == row.features.size() * sizeof(float));
    reader->read(input, reinterpret_cast<std::byte*>(row.features.data()));
  }
  return rows;
}

}  // namespace

TEST_CASE("rows become the features that training made of them") {
  const DataFolder folder;
  for (const bool standardizes : {true, false}) {
    DataConfig config = trained_table(folder);
    config.standardize = standardizes;
    const LoadedData data = load_data(config, 1);
    const std::vector<ReadRow> rows = rows_of({config.train}, config, data);
    REQUIRE(rows.size() == 6);
    for (std::int64_t i = 0; i < 6; ++i) {
      const ReadRow& row = rows[static_cast<std::size_t>(i)];
      CHECK(row.error.empty());
      CHECK(row.name == config.train + ":" + std::to_string(i + 2));
      CHECK(row.features == floats_of(*data.train, i));
    }
    const DataDescription described = describe_inputs(config, 1, data.preprocessing);
    CHECK(described.inputs == data.description.inputs);
  }
}

TEST_CASE("columns are found by their names, and others are not looked at") {
  const DataFolder folder;
  const DataConfig config = trained_table(folder);
  const LoadedData data = load_data(config, 1);
  const std::string other = folder.write("other.csv", "kind,note,town,age,rooms\nb,\"x, y\",york,20,2\n");
  const std::vector<ReadRow> rows = rows_of({other}, config, data);
  REQUIRE(rows.size() == 1);
  std::vector<float> features = floats_of(*data.train, 0);
  // Of kind it has b where the first sample has a.
  const auto& names = data.preprocessing.features;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i].starts_with("kind=")) features[i] = names[i] == "kind=b" ? 1.0F : 0.0F;
  CHECK(rows.front().features == features);
}

TEST_CASE("without a header columns are those of the same numbers") {
  const DataFolder folder;
  const std::string text = "1,0,5\n2,1,7\n4,0,9\n";
  DataConfig config = trained_table(folder, text);
  config.header = false;
  config.target = {"2"};
  const LoadedData data = load_data(config, 1);
  const std::vector<ReadRow> rows = rows_of({folder.write("new.csv", "1,0\n4,0\n2,1,3\n")}, config, data);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].features == floats_of(*data.train, 0));
  CHECK(rows[1].features == floats_of(*data.train, 2));
  CHECK_THAT(rows[2].error, Contains("3 fields, expected 2"));
}

TEST_CASE("a category that no training sample has is 0 everywhere, as in validation") {
  const DataFolder folder;
  DataConfig config = trained_table(folder);
  config.split = 0.5;
  const LoadedData data = load_data(config, 5);
  const std::vector<ReadRow> rows = rows_of({config.train}, config, data);
  REQUIRE(data.validation);
  std::size_t num_unseen = 0;
  for (const PreprocessedColumn& column : data.preprocessing.columns) num_unseen += column.unseen.size();
  REQUIRE(num_unseen > 0);
  for (std::int64_t i = 0; i < data.validation->size(); ++i) {
    const auto row = static_cast<std::size_t>(data.validation->number_of(i));
    CHECK(rows[row].features == floats_of(*data.validation, i));
  }
  const std::vector<ReadRow> others =
      rows_of({folder.write("new.csv", "age,town,rooms,kind\n1,leeds,2,a\n")}, config, data);
  REQUIRE(others.size() == 1);
  for (std::size_t i = 0; i < others[0].features.size(); ++i)
    if (data.preprocessing.features[i].starts_with("town=")) CHECK(others[0].features[i] == 0);
}

TEST_CASE("what is wrong with a row is its error, and the others are read") {
  const DataFolder folder;
  DataConfig config = trained_table(folder, "age,size,price\n1,2,3\n2,3,4\n4,4,5\n");
  const LoadedData data = load_data(config, 1);
  const std::string bad = folder.write("bad.csv", "age,size\nten,1\n1\n,3\n1,1e300\n3,3\n\"open,1\n4,4\n");
  const std::vector<ReadRow> rows =
      rows_of({folder.path("none.csv"), bad, folder.write("empty.csv", ""), folder.write("short.csv", "age\n1\n"),
               folder.write("good.csv", "size,age\n1,1\n")},
              config, data);
  REQUIRE(rows.size() == 10);
  CHECK_THAT(rows[0].error, Contains("none.csv"));
  CHECK_THAT(rows[1].error, Contains("bad.csv:2") && Contains("'ten' in column 'age'"));
  CHECK_THAT(rows[2].error, Contains("1 fields, expected 2"));
  CHECK_THAT(rows[3].error, Contains("no value in column 'age'"));
  CHECK_THAT(rows[4].error, Contains("1e300"));
  CHECK(rows[5].error.empty());
  CHECK_THAT(rows[6].error, Contains("bad.csv"));
  CHECK(rows[6].name == bad);
  CHECK_THAT(rows[7].error, Contains("is empty"));
  CHECK_THAT(rows[8].error, Contains("no column 'size'"));
  CHECK(rows[9].error.empty());
  CHECK(rows[9].features.size() == 2);
}

TEST_CASE("columns that are called the same are told apart by nobody") {
  const DataFolder folder;
  const DataConfig config = trained_table(folder, "age,size,price\n1,2,3\n2,3,4\n");
  const LoadedData data = load_data(config, 1);
  const std::vector<ReadRow> rows = rows_of({folder.write("two.csv", "size,age,size\n1,2,3\n")}, config, data);
  REQUIRE(rows.size() == 1);
  CHECK_THAT(rows[0].error, Contains("two columns 'size'"));
}

TEST_CASE("a model that takes another number of features is refused") {
  const DataFolder folder;
  const DataConfig config = trained_table(folder);
  const LoadedData data = load_data(config, 1);
  InputPaths paths({config.train}, [](std::string_view) { return true; }, {});
  CHECK_THROWS_AS(table_inputs(std::move(paths), config, data.preprocessing, 3), DataError);
}
