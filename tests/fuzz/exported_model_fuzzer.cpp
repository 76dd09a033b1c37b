#include <zlib.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "datasets/prediction/table_inputs.h"
#include "engine/train/files/exported_model.h"
#include "engine/train/files/trained_model.h"
#include "engine/train/prediction_outputs.h"
#include "tests/fuzz/fuzzed_folder.h"
#include "tests/fuzz/fuzzers.h"
#include "tests/fuzz/patched_json.h"

namespace trainer {

namespace {

constexpr const char* exported_config =
    "name: fuzzed\ndata: {type: csv, train: none, missing: [mean]}\nmodel: {layers: [linear: {out: 2}]}\n"
    "loss: cross_entropy\n";

/// Of a table of a number and a category, with the size and sum of empty weights.
nlohmann::json whole_prediction_file() {
  return {{"format", "trainer-export"},
          {"format_version", 1},
          {"amp", "off"},
          {"inputs",
           {{{"name", "batch"},
             {"type", "f32"},
             {"shape", {3}},
             {"mean", nlohmann::json::array()},
             {"std", nlohmann::json::array()},
             {"indices", 0}}}},
          {"preprocessing",
           {{"features", {"x", "kind=a", "kind=b"}},
            {"mean", {1, 0, 0}},
            {"std", {2, 1, 1}},
            {"target", "y"},
            {"classes", {"no", "yes"}},
            {"columns",
             {{{"name", "x"}, {"kind", "number"}, {"missing", {{"rule", "mean"}, {"count", 1}, {"fill", 1}}}},
              {{"name", "kind"},
               {"kind", "category"},
               {"categories", {"a", "b"}},
               {"missing_category", false},
               {"unknown", 0}}}},
            {"dropped", {{"training", 0}, {"validation", 0}}}}},
          {"weights", {{"bytes", 0}, {"crc32", "00000000"}}}};
}

}  // namespace

/// A patch of the prediction.json of an exported model of a table, some rows of which are then read by it.
void read_fuzzed_exported_model(std::string_view input) {
  static const FuzzedFile told, config, weights, table;
  static const FuzzedFolder folder(
      {{"prediction.json", told.path()}, {"config.yaml", config.path()}, {"model.safetensors", weights.path()}});
  config.write(exported_config);
  table.write("kind,x\na,1\nb,\nc,2\n,3\na,many\nb,4,5\n");
  write_patched(told, whole_prediction_file(), input);
  if (!is_exported_model(folder.path())) throw DataError("no exported model");
  const TrainedModel model = read_trained_model(folder.path(), {});
  (void)describe_outputs(model.experiment, model.preprocessing, {DType::f32, Shape{1, 2}});
  const TensorType& sample = model.data.inputs.front().type;
  InputPaths paths({table.path()}, [](std::string_view) { return true; }, {});
  const auto rows =
      table_inputs(std::move(paths), model.experiment.data, model.preprocessing, sample.shape.num_elements());
  std::int64_t num_rows = 0;
  for (PredictionInput row; rows->next(row); row.restart(++num_rows)) {
    if (!row.error.empty()) continue;
    require_internal(row.bytes.size() == static_cast<std::size_t>(sample.shape.num_elements()) * sizeof(float),
                     "a row has all features");
  }
  require_internal(num_rows == 6 || num_rows == 1, "each row is an input, or the table is one with its error");
}

}  // namespace trainer
