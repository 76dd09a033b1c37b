#include "datasets/prediction/table_inputs.h"
#include "tests/fuzz/fuzzed_file.h"
#include "tests/fuzz/fuzzers.h"
#include "tests/fuzz/read_dataset.h"

namespace trainer {
namespace {

/// A row of the training table becomes the features that training made of it, where it is an input at all.
void predict_from_it(const DataConfig& config) {
  const LoadedData data = load_data(config, 1);
  if (data.preprocessing.num_dropped > 0) return;
  const std::int64_t num_features = data.description.inputs.front().type.shape[0];
  InputPaths paths({config.train}, [](std::string_view) { return true; }, {});
  const auto rows = table_inputs(std::move(paths), config, data.preprocessing, num_features);
  std::vector<std::byte> sample(static_cast<std::size_t>(num_features) * sizeof(float));
  std::vector<std::byte> target(static_cast<std::size_t>(data.train->target_type().num_bytes()));
  std::int64_t count = 0;
  for (PredictionInput row; rows->next(row); row.restart(++count)) {
    require_internal(count < data.train->size(), "a table has as many inputs as samples");
    if (row.name == config.train) return;  // nothing of it can be read: two columns are called the same
    if (!row.error.empty()) continue;
    data.train->read(count, std::array{sample.data(), target.data()});
    require_internal(row.bytes == sample, "a row is predicted from as it was trained on");
  }
  require_internal(count == data.train->size(), "a table has as many inputs as samples");
}

}  // namespace

/// A letter that says how the file is read, one that says what becomes of its columns, then the file.
void read_fuzzed_csv(std::string_view input) {
  static const FuzzedFile file;
  if (input.size() < 2) return;
  const auto choice = static_cast<unsigned char>(input[0]), columns = static_cast<unsigned char>(input[1]);
  file.write(input.substr(2));
  DataConfig config;
  config.type = DataType::csv;
  config.train = file.path();
  config.header = (choice & 1) != 0;
  config.target_type = (choice & 2) != 0 ? TaskTarget::categorical : TaskTarget::numeric;
  config.delimiter = (choice & 4) != 0 ? ";" : ",";
  const bool is_numeric = config.target_type == TaskTarget::numeric;
  if ((choice & 8) != 0)
    config.target = is_numeric ? std::vector<std::string>{"1", "0"} : std::vector<std::string>{"1"};
  config.targets_are_probabilities = (choice & 16) != 0 && is_numeric;
  if ((choice & 128) != 0) config.exclude = {"*a*", "0"};

  switch (columns & 7) {
    case 1:
      config.missing = {MissingRule::mean, MissingRule::mode};
      break;
    case 2:
      config.missing_values = {"?"};
      config.missing = {MissingRule::mode};
      break;
    case 3:
      config.missing = {MissingRule::median, MissingRule::category};
      break;
    case 4:
      config.missing = {MissingRule::drop};
      break;
    case 5:
      config.missing = {MissingRule::median, MissingRule::drop};
      break;
    default:
      break;
  }
  if ((columns & 8) != 0) {
    config.columns = {{.name = "0", .kind = ColumnKind::category, .missing = MissingRule::category}};
    config.max_categories = 3;
  }
  config.standardize = (columns & 16) == 0;
  config.standardize_target = (columns & 32) != 0 && is_numeric && !config.targets_are_probabilities;
  if ((columns & 128) != 0) config.split = 0.3;
  read_dataset(config);
  if (config.split == 0) predict_from_it(config);
}

}  // namespace trainer
