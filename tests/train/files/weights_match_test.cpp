#include "engine/train/files/weights_match.h"

#include "tests/train/files/weights_fixture.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

/// A run of no steps from a file of tensors with some keys of `weights`.
struct WeightsRun {
  WeightsRun(const OutputFolder& folder, const std::vector<TensorValues>& tensors,
             std::vector<std::string> overrides = {}, const std::string& yaml = named_experiment)
      : output(folder.path("run")) {
    std::filesystem::remove_all(output);
    write_tensors(folder.path("file.safetensors"), tensors);
    overrides.push_back("weights.file=" + folder.path("file.safetensors"));
    run.emplace(yaml, output, overrides);
  }
  /// What it refuses to start with; "" where it starts.
  std::string refusal() {
    std::string text;
    try {
      (*run)();
    } catch (const Error& error) {
      text = error.what();
      code = error.exit_code();
    }
    if (!text.empty()) CHECK_FALSE(std::filesystem::exists(output));  // nothing is written
    return text;
  }
  WeightsMatch match() {
    REQUIRE((*run)() == RunStatus::done);
    REQUIRE(run->events.starts.front().weights.has_value());
    return *run->events.starts.front().weights;
  }

  std::string output;
  std::optional<TestRun> run;
  ExitCode code = ExitCode::done;
};

const WeightsRow& row_of(const WeightsMatch& match, const std::string& name) {
  for (const WeightsRow& row : match.rows)
    if (row.name == name) return row;
  FAIL("no row " << name);
  return match.rows.front();
}

void rename_all(std::vector<TensorValues>& tensors, const std::string& prefix) {
  for (TensorValues& tensor : tensors) tensor.name = prefix + tensor.name;
}

}  // namespace

TEST_CASE("Weights are loaded by name, whatever their order, and batch counters are passed over") {
  const OutputFolder folder;
  std::vector<TensorValues> tensors = named_tensors();
  std::reverse(tensors.begin(), tensors.end());
  WeightsRun run(folder, tensors);
  const WeightsMatch match = run.match();
  CHECK(match.count(WeightsStatus::loaded) == 8);
  CHECK(match.count(WeightsStatus::ignored) == 1);
  CHECK(row_of(match, "norm.num_batches_tracked").status == WeightsStatus::ignored);
  CHECK(match.rows.front().name == "stem.weight");  // the model's order
  for (const TensorValues& tensor : tensors)
    if (tensor.type.dtype == DType::f32) CHECK(saved_values(run.output, tensor.name) == as_floats(tensor.values));
}

TEST_CASE("Numbers of 16 and 64 bits are rounded to what the model keeps") {
  const DType type = GENERATE(DType::f16, DType::bf16, DType::f64);
  const OutputFolder folder;
  std::vector<TensorValues> tensors = named_tensors();
  for (TensorValues& tensor : tensors)
    if (tensor.type.dtype == DType::f32) tensor.type.dtype = type;
  WeightsRun run(folder, tensors);
  CHECK(row_of(run.match(), "stem.weight").file_dtype == name_of(type));
  CHECK(saved_values(run.output, "stem.weight") == as_floats(tensor_named(tensors, "stem.weight").values));
}

TEST_CASE("Numbers that are not finite, or not as f32, are refused by name") {
  const OutputFolder folder;
  std::vector<TensorValues> tensors = named_tensors();
  TensorValues& bias = tensor_named(tensors, "head.bias");
  const bool is_wide = GENERATE(false, true);
  bias.type.dtype = is_wide ? DType::f64 : DType::f32;
  bias.values[1] = is_wide ? 1e300 : std::numeric_limits<double>::quiet_NaN();
  WeightsRun run(folder, tensors);
  std::string message;
  try {
    (*run.run)();
  } catch (const DataError& error) {
    message = error.what();
  }
  CHECK_THAT(message, Contains("'head.bias' holds a number that is not finite as f32"));
}

TEST_CASE("Renames apply in order, and the table keeps the name in the file") {
  const OutputFolder folder;
  std::vector<TensorValues> tensors = named_tensors();
  rename_all(tensors, "module.net.");
  WeightsRun run(folder, tensors,
                 {"weights.rename=[['^module\\.', ''], ['^net\\.(.*)$', 'body.\\1'], ['^body\\.', '']]"});
  const WeightsMatch match = run.match();
  CHECK(row_of(match, "head.bias").file_name == "module.net.head.bias");
  CHECK(saved_values(run.output, "head.bias") == as_floats(tensor_named(tensors, "module.net.head.bias").values));
}

TEST_CASE("Shapes agree that differ by axes of length 1") {
  const OutputFolder folder;
  std::vector<TensorValues> tensors = named_tensors();
  tensor_named(tensors, "head.bias").type.shape = Shape{1, 3, 1};
  WeightsRun run(folder, tensors);
  CHECK(row_of(run.match(), "head.bias").status == WeightsStatus::loaded);
  CHECK(saved_values(run.output, "head.bias") == as_floats(tensor_named(tensors, "head.bias").values));
}

TEST_CASE("Names on one side alone are told with the nearest of the other, and a prefix with what removes it") {
  const OutputFolder folder;
  std::vector<TensorValues> tensors = named_tensors();
  tensor_named(tensors, "head.weight").name = "haed.weight";
  WeightsRun typo(folder, tensors);
  CHECK_THAT(typo.refusal(),
             Contains("2 of 10 tensors") &&
                 Contains("head.weight: only the model has it, 3×4; the file's nearest is "
                          "'haed.weight'") &&
                 Contains("haed.weight: only the file has it, 3×4; the model's nearest is 'head.weight'") &&
                 Contains("weights.ignore: [haed.weight]") && Contains("weights.new: [head.weight]"));
  CHECK(typo.code == ExitCode::data);
  tensors = named_tensors();
  rename_all(tensors, "module.");
  CHECK_THAT(WeightsRun(folder, tensors).refusal(), Contains("weights.rename: [['^module\\.', '']]"));
  tensors = named_tensors();
  const std::string nested =
      "name: nested\ndata: {type: synthetic, shape: [4, 4, 2], classes: 3, samples: 8}\nmodel: {layers: [sequential: "
      "{name: net, layers: [conv2d: {out: 4, kernel: 3, padding: 1, name: stem}, batchnorm2d: {name: norm}, "
      "global_avgpool, linear: {out: 3, name: head}]}]}\ntrain: {batch_size: 4, steps: 0}\n";
  CHECK_THAT(WeightsRun(folder, tensors, {}, nested).refusal(),
             Contains("weights.rename: [['^', 'net.layers.']]") || Contains("weights.rename: [['^', 'net.']]"));
}

TEST_CASE("What is new starts as without a file, and the file's tensor of another size is ignored with it") {
  const OutputFolder folder;
  std::vector<TensorValues> tensors = named_tensors();
  tensor_named(tensors, "head.weight") = counted("head.weight", {1000, 4});
  tensor_named(tensors, "head.bias") = counted("head.bias", {1000});
  WeightsRun other(folder, tensors);
  CHECK_THAT(other.refusal(), Contains("head.weight: the file's is 1000×4, the model's 3×4") &&
                                  Contains("weights.new: [head.weight, head.bias] starts anew"));
  WeightsRun run(folder, tensors, {"weights.new=[head]"});
  const WeightsMatch match = run.match();
  CHECK(match.count(WeightsStatus::fresh) == 2);
  CHECK(match.count(WeightsStatus::ignored) == 3);
  TestRun fresh(named_experiment, folder.path("fresh"));
  REQUIRE(fresh() == RunStatus::done);
  CHECK(saved_values(run.output, "head.weight") == saved_values(folder.path("fresh"), "head.weight"));
  CHECK(saved_values(run.output, "stem.weight") == as_floats(tensor_named(tensors, "stem.weight").values));
}

TEST_CASE("Ignored tensors are named as the file has them or as they are renamed") {
  const OutputFolder folder;
  std::vector<TensorValues> tensors = named_tensors();
  tensors.push_back(counted("extra.scale", {2}));
  tensors.push_back(counted("other.mask", {2}));
  WeightsRun run(folder, tensors, {"weights.rename=[['^extra', 'more']]", "weights.ignore=[more.*, other]"});
  CHECK(run.match().count(WeightsStatus::ignored) == 3);
  CHECK_THAT(WeightsRun(folder, tensors, {"weights.ignore=[extra]"}).refusal(), Contains("other.mask: only the file"));
}

TEST_CASE("A matrix is loaded with its axes swapped where that is said, and the hint says so where it would fit") {
  const OutputFolder folder;
  std::vector<TensorValues> tensors = named_tensors();
  tensor_named(tensors, "head.weight") = counted("head.weight", {4, 3});
  WeightsRun unsaid(folder, tensors);
  CHECK_THAT(unsaid.refusal(), Contains("weights.transpose: [head.weight] swaps the two axes") && !Contains("square"));
  WeightsRun run(folder, tensors, {"weights.transpose=[head]"});
  CHECK(row_of(run.match(), "head.weight").is_transposed);
  std::vector<float> wanted;
  for (int out = 0; out < 3; ++out)
    for (int in = 0; in < 4; ++in) wanted.push_back(static_cast<float>(in * 3 + out) + 0.5F);
  CHECK(saved_values(run.output, "head.weight") == wanted);
  WeightsRun wrong(folder, named_tensors(), {"weights.transpose=[head.weight]"});
  CHECK_THAT(wrong.refusal(), Contains("which weights.transpose swaps"));
  WeightsRun image(folder, named_tensors(), {"weights.transpose=[stem.weight]"});
  CHECK_THAT(image.refusal(), Contains("'stem.weight' is 4×2×3×3, no matrix"));
  CHECK(image.code == ExitCode::config);
}

TEST_CASE("Large matrices are swapped in parts of rows") {
  const OutputFolder folder;
  const std::int64_t in = 3, out = (std::int64_t{64} << 10) + 5;
  const std::string yaml =
      "name: wide\ndata: {type: synthetic, shape: [3], classes: 65541, samples: 4}\nmodel: {layers: [linear: {out: "
      "65541, name: fc}]}\ntrain: {batch_size: 4, steps: 0}\n";
  WeightsRun run(folder, {counted("fc.weight", {in, out}, DType::f64), counted("fc.bias", {out}, DType::bf16)},
                 {"weights.transpose=[fc.weight]"}, yaml);
  run.match();
  const std::vector<float> values = saved_values(run.output, "fc.weight");
  bool all = true;
  for (std::int64_t o = 0; o < out; ++o)
    for (std::int64_t i = 0; i < in; ++i)
      all = all && values[static_cast<std::size_t>(o * in + i)] == static_cast<float>(i * out + o) + 0.5F;
  CHECK(all);
}

TEST_CASE("Keys that name nothing, and renames that match nothing or make two tensors one, are mistakes") {
  const OutputFolder folder;
  const auto refused = [&](const std::string& key) {
    WeightsRun run(folder, named_tensors(), {key});
    const std::string text = run.refusal();
    CHECK(run.code == ExitCode::config);
    return text;
  };
  CHECK_THAT(refused("weights.new=[haed.weight]"),
             Contains("no tensor of the model is named by 'haed.weight'") && Contains("did you mean 'head.weight'"));
  CHECK_THAT(refused("weights.ignore=[fc]"), Contains("no tensor of the file is named by 'fc'"));
  CHECK_THAT(refused("weights.transpose=[fc]"), Contains("no tensor of the model is named by 'fc'"));
  CHECK_THAT(refused("weights.rename=[['^module', '']]"), Contains("matches none of the 9 names"));
  CHECK_THAT(refused("weights.rename=[['stem', 'norm']]"),
             Contains("'stem.weight' and 'norm.weight' of the file are both named 'norm.weight'"));
  CHECK_THAT(refused("weights.rename=[['.*', '']]"), Contains("leaves nothing of a name"));
  CHECK_THAT(refused("weights.rename=[['.', 'xxxxxxxxxxxxxxxx'], ['x', 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy']]"),
             Contains("a name of") && Contains("at most 4096"));
}

TEST_CASE("Renames and ignored names that are optional may match nothing, and all else is as strict as without") {
  const OutputFolder folder;
  const std::string rename = "weights.rename=[['^module', '']]", ignore = "weights.ignore=[nothing.*]";
  WeightsRun run(folder, named_tensors(), {rename, ignore, "weights.optional=[rename, ignore]"});
  CHECK(run.match().count(WeightsStatus::mismatched) == 0);
  CHECK_THAT(WeightsRun(folder, named_tensors(), {rename, ignore, "weights.optional=ignore"}).refusal(),
             Contains("matches none of the 9 names"));
  CHECK_THAT(WeightsRun(folder, named_tensors(), {rename, ignore, "weights.optional=[rename]"}).refusal(),
             Contains("no tensor of the file is named by 'nothing.*'"));
  std::vector<TensorValues> tensors = named_tensors();
  tensors.push_back(counted("extra", {2}));
  const std::string optional = "weights.optional=[rename, ignore]";
  CHECK_THAT(WeightsRun(folder, tensors, {optional}).refusal(), Contains("extra: only the file has it"));
  CHECK_THAT(WeightsRun(folder, named_tensors(), {optional, "weights.transpose=[fc]"}).refusal(),
             Contains("no tensor of the model is named by 'fc'"));
}

TEST_CASE("Where names need not be named, shapes still have to agree, and something has to be loaded") {
  const OutputFolder folder;
  const std::string loose = "weights.strict=false";
  std::vector<TensorValues> tensors = named_tensors();
  tensors.erase(tensors.begin());
  tensors.push_back(counted("extra", {2}));
  WeightsRun run(folder, tensors, {loose, "weights.ignore=[nothing.*]", "weights.rename=[['^module', '']]"});
  const WeightsMatch match = run.match();
  CHECK(row_of(match, "stem.weight").status == WeightsStatus::fresh);
  CHECK(row_of(match, "extra").status == WeightsStatus::ignored);
  tensor_named(tensors, "head.bias") = counted("head.bias", {4});
  CHECK_THAT(WeightsRun(folder, tensors, {loose}).refusal(), Contains("head.bias: the file's is 4, the model's 3"));
  CHECK_THAT(WeightsRun(folder, {counted("other", {2})}, {loose}).refusal(),
             Contains("none of the tensors of") && Contains("is one of the model's"));
}

TEST_CASE("Tensors that are no numbers may be ignored and not loaded") {
  const OutputFolder folder;
  std::vector<TensorValues> tensors = named_tensors();
  tensor_named(tensors, "head.bias") = {"head.bias", {DType::i64, Shape{3}}, {1, 2, 3}};
  CHECK_THAT(WeightsRun(folder, tensors).refusal(),
             Contains("head.bias: the file's is i64, no floating-point numbers"));
  WeightsRun run(folder, tensors, {"weights.new=[head.bias]"});
  CHECK(run.match().count(WeightsStatus::fresh) == 1);
}

TEST_CASE("A run that is resumed does not look at the file it once started from") {
  const OutputFolder folder;
  WeightsRun run(folder, named_tensors(), {"train.steps=1"});
  REQUIRE((*run.run)() == RunStatus::done);
  std::filesystem::remove(folder.path("file.safetensors"));
  TestRun resumed(named_experiment, run.output, {"train.steps=2", "weights.file=elsewhere.safetensors"});
  resumed.options.resume = true;
  REQUIRE(resumed() == RunStatus::done);
  CHECK_FALSE(resumed.events.starts.front().weights.has_value());
}

TEST_CASE("Weights are loaded into 16-bit parameters without masters") {
  const OutputFolder folder;
  WeightsRun run(folder, named_tensors(), {"train.amp=bf16", "memory.master_weights=false"});
  run.match();
  const SafetensorsFile file(checkpoint_file(run.output, 0, "model.safetensors"));
  const auto position = static_cast<std::size_t>(file.find("head.weight"));
  REQUIRE(file.tensors()[position].type.dtype == DType::bf16);
  std::vector<std::uint16_t> bits(12);
  file.read(position, bits.data());
  for (std::size_t i = 0; i < bits.size(); ++i) CHECK(to_float(BFloat16{bits[i]}) == static_cast<float>(i) + 0.5F);
}
