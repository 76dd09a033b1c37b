// Note [The process] in engine/plan/process_memory.h: what is said of a process, against what the system counts.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/cli/process.h"
#include "tests/datasets/array_files.h"

using namespace trainer;
using nlohmann::json;

// The sanitizers keep books on every byte, which grow with the program's memory.
#if !defined(__SANITIZE_ADDRESS__)

namespace {

constexpr std::int64_t resident_mebibyte = std::int64_t{1} << 20;

void write_number(std::ofstream& file, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) file.put(static_cast<char>(value >> shift));
}

void write_idx(const std::string& folder, std::uint32_t rows, std::uint32_t side, const char* part) {
  std::filesystem::create_directories(folder);
  std::ofstream images(folder + "/" + part + "-images-idx3-ubyte", std::ios::binary);
  for (const std::uint32_t number : {2051U, rows, side, side}) write_number(images, number);
  const std::string image(side * side, '\x55');
  for (std::uint32_t i = 0; i < rows; ++i) images.write(image.data(), static_cast<std::streamsize>(image.size()));
  std::ofstream labels(folder + "/" + part + "-labels-idx1-ubyte", std::ios::binary);
  for (const std::uint32_t number : {2049U, rows}) write_number(labels, number);
  for (std::uint32_t i = 0; i < rows; ++i) labels.put(static_cast<char>(i % 10));
}

void write_table(const std::string& path, int rows, int features, std::mt19937& random) {
  std::ofstream file(path);
  for (int i = 0; i < features; ++i) file << 'f' << i << ',';
  file << "y\n";
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < features; ++i) file << static_cast<double>(random() % 1000) / 100 << ',';
    file << row % 3 << '\n';
  }
}

/// Configurations that differ in what a process holds: data, batches, networks, techniques.
class Configurations {
 public:
  explicit Configurations(const ScratchFolder& folder) : folder_(folder) {
    write_idx(folder / "small", 5000, 28, "train");
    write_idx(folder / "small", 1000, 28, "t10k");
    write_idx(folder / "large", 60000, 28, "train");
    write_idx(folder / "large", 2000, 28, "t10k");  // evaluated behind each run
    write_table(folder / "narrow.csv", 20000, 20, random_);
    write_table(folder / "wide.csv", 4000, 200, random_);
  }

  json next() {
    const bool has_images = pick({true, false});
    json config = {{"name", "process"}, {"seed", 1}, {"device", {{"type", "cpu"}, {"threads", 2}}}};
    const bool is_table = !has_images && pick({true, false, false});
    config["data"] = is_table ? table() : data(has_images);
    json layers = has_images ? image_layers() : flat_layers(!is_table);
    layers.push_back({{"linear", {{"out", is_table ? 3 : 10}}}});
    config["model"]["layers"] = std::move(layers);
    config["optimizer"] = pick<json>({{{"type", "sgd"}, {"lr", 0.01}},
                                      {{"type", "sgd"}, {"lr", 0.01}, {"momentum", 0.9}},
                                      {{"type", "adamw"}, {"lr", 0.001}}});
    config["train"] = {{"batch_size", has_images ? pick({32, 100, 256}) : pick({32, 256, 1000, 3000})},
                       {"steps", has_images ? 3 : pick({4, 12})},
                       {"epochs", 1000},
                       {"amp", pick<const char*>({"off", "off", "off", "bf16"})},
                       {"accumulation_steps", pick({1, 1, 3})},
                       {"checkpointing", pick<const char*>({"off", "off", "sqrt"})}};
    config["memory"] = {{"allocator", pick<const char*>({"caching", "caching", "planned"})}};
    return config;
  }

 private:
  template <typename Value>
  Value pick(std::initializer_list<Value> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(random_() % values.size()));
  }

  json data(bool has_images) {
    const int choice = pick({0, 1, 2, 2});
    if (choice < 2) return {{"type", "idx"}, {"root", folder_ / (choice == 0 ? "small" : "large")}};
    const int side = pick({16, 28, 32});
    const json shape = has_images ? json::array({side, side, pick({1, 3})}) : json::array({pick({64, 500, 2000})});
    return {{"type", "synthetic"},
            {"shape", shape},
            {"classes", 10},
            {"samples", 6000},
            {"validation_samples", pick({0, 1000})}};
  }
  json table() {
    const std::string file = pick({true, false}) ? "narrow.csv" : "wide.csv";
    return {{"type", "csv"}, {"train", folder_ / file}, {"target", "y"}, {"split", 0.1}};
  }

  json image_layers() {
    const int channels = pick({8, 32});
    const auto conv = [](int out) { return json{{"conv2d", {{"out", out}, {"kernel", 3}, {"padding", 1}}}}; };
    if (pick({true, false}))
      return json::array({conv(channels),
                          "batchnorm2d",
                          "relu",
                          {{"maxpool2d", {{"kernel", 2}}}},
                          conv(2 * channels),
                          "relu",
                          "flatten",
                          {{"linear", {{"out", 128}}}},
                          "relu"});
    const json block = {
        {"residual", {{"layers", json::array({conv(channels), "batchnorm2d", "relu", conv(channels)})}}}};
    return json::array({conv(channels), block, "relu", block, "relu", "global_avgpool"});
  }
  json flat_layers(bool flattens) {
    const int width = pick({64, 512, 2000});
    json layers = json::array();
    if (flattens) layers.push_back("flatten");
    const bool normalizes = pick({true, false});
    for (int i = 0; i < 2; ++i) {
      layers.push_back({{"linear", {{"out", width}}}});
      if (normalizes) layers.push_back("layernorm");
      layers.push_back(normalizes ? "gelu" : "relu");
    }
    return layers;
  }

  const ScratchFolder& folder_;
  std::mt19937 random_{12};
};

std::int64_t sum_of_parts(const json& process) {
  std::int64_t sum = 0;
  for (const json& part : process["parts"]) sum += part["bytes"].get<std::int64_t>();
  return sum;
}

/// 2 %, or 8 MiB where that is more.
std::int64_t tolerance(std::int64_t num_bytes) { return std::max(num_bytes / 50, 8 * resident_mebibyte); }

}  // namespace

TEST_CASE("The resident peak of a process is what plan and report say it will be") {
  const ScratchFolder folder;
  Configurations configurations(folder);
  for (int i = 0; i < 60; ++i) {
    const json config = configurations.next();
    const std::string path = folder / "config.yaml";
    std::ofstream(path) << config.dump();
    const std::string output = "output=" + folder / ("run" + std::to_string(i));
    const ProcessResult planned = run_trainer({"plan", path, output, "--json"});
    const ProcessResult result = run_trainer({"run", path, output, "--json"});
    INFO(config.dump(2) << planned.err << result.err);
    REQUIRE(result.exit_code == 0);
    const json end = events_of(result.out).back();
    INFO(end["process"].dump(2) << "\nresident peak " << end["peak_resident"]);
    const std::int64_t expected = end["process"]["expected_resident_peak"];
    const std::int64_t resident = end["peak_resident"];
    CHECK(std::abs(resident - expected) <= tolerance(expected));
    // What the process says of itself is what the system says of it, to whoever waited for it.
    CHECK(std::abs(resident - result.peak_resident) <= resident_mebibyte);

    const json process = json::parse(planned.out)["process"];
    CHECK(std::abs(process["expected_resident_peak"].get<std::int64_t>() - expected) <= 2 * resident_mebibyte);
    CHECK(sum_of_parts(process) == process["beside_allocator"]);
    std::filesystem::remove_all(folder / ("run" + std::to_string(i)));
  }
}

TEST_CASE("Arrays stay in their files, but for those that are deflated") {
  const ScratchFolder folder;
  constexpr int num_samples = 4000;
  const std::string images = npy("|u1", "(4000, 100, 100)", std::string(std::size_t{num_samples} * 10000, '\x55'));
  const std::string labels = npy("|u1", "(4000,)", std::string(num_samples, '\1'));
  const bool is_deflated = GENERATE(false, true);
  std::ofstream(folder / "train.npz", std::ios::binary)
      << zip({{"images.npy", images}, {"labels.npy", labels}}, {.deflated = is_deflated});
  const std::string path = folder / "config.yaml";
  std::ofstream(path) << json{{"name", "arrays"},
                              {"device", {{"type", "cpu"}, {"threads", 1}}},
                              {"data", {{"type", "arrays"}, {"train", folder / "train.npz"}, {"split", 0.25}}},
                              {"model", {{"layers", json::array({"flatten", {{"linear", {{"out", 2}}}}})}}},
                              {"train", {{"batch_size", 100}, {"epochs", 1}}}}
                             .dump();
  const ProcessResult result = run_trainer({"run", path, "--json", "output=" + folder / "run"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const json end = events_of(result.out).back();
  INFO(end["process"].dump(2) << "\nresident peak " << end["peak_resident"]);
  std::int64_t of_dataset = 0;
  for (const json& part : end["process"]["parts"])
    if (part["name"] == "dataset") of_dataset = part["bytes"];
  CHECK(of_dataset == num_samples * 4 + (is_deflated ? num_samples * 10000 : 0));
  const std::int64_t expected = end["process"]["expected_resident_peak"];
  CHECK(std::abs(end["peak_resident"].get<std::int64_t>() - expected) <= tolerance(expected));
}

TEST_CASE("Loading weights costs a piece of a tensor beside the parameters") {
  const ScratchFolder folder;
  // 128 MiB of weights in one matrix of an f16 file, which is converted, and swapped, on its way.
  const std::string path = folder / "config.yaml";
  constexpr int width = 4096, classes = 8192;
  std::ofstream(path) << json{
      {"name", "wide"},
      {"device", {{"type", "cpu"}, {"threads", 1}}},
      {"data", {{"type", "synthetic"}, {"shape", {width}}, {"classes", classes}, {"samples", 4}}},
      {"model", {{"layers", json::array({{{"linear", {{"out", classes}, {"name", "fc"}}}}})}}},
      {"train",
       {{"batch_size", 1},
        {"steps", 0}}}}.dump();
  const std::int64_t num_elements = std::int64_t{width} * classes;
  const std::string file = folder / "file.safetensors";
  {
    std::string header =
        json{{"fc.weight", {{"dtype", "F16"}, {"shape", {width, classes}}, {"data_offsets", {0, 2 * num_elements}}}},
             {"fc.bias",
              {{"dtype", "F64"},
               {"shape", {classes}},
               {"data_offsets", {2 * num_elements, 2 * num_elements + 8 * classes}}}}}
            .dump();
    header.append((8 - header.size() % 8) % 8, ' ');
    std::ofstream out(file, std::ios::binary);
    for (int shift = 0; shift < 64; shift += 8) out.put(static_cast<char>(header.size() >> shift & 0xff));
    out << header;
    const std::string zeros(std::size_t{1} << 20, '\0');
    for (std::int64_t left = 2 * num_elements + 8 * classes; left > 0; left -= static_cast<std::int64_t>(zeros.size()))
      out.write(zeros.data(), std::min<std::int64_t>(left, static_cast<std::int64_t>(zeros.size())));
  }
  const auto peak_of = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"run", path, "--json", "output=" + folder / ("run" + std::to_string(words.size()))});
    const ProcessResult result = run_trainer(words);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    const json end = events_of(result.out).back();
    CHECK(end["peak_resident"].get<std::int64_t>() <=
          end["process"]["expected_resident_peak"].get<std::int64_t>() + tolerance(0));
    return end["peak_resident"].get<std::int64_t>();
  };
  const std::int64_t parameter_bytes = 4 * (num_elements + classes);
  const std::int64_t without = peak_of({});
  CHECK(without > parameter_bytes);
  const std::int64_t with = peak_of({"--weights", file, "weights.transpose=[fc.weight]"});
  // 16 MiB are the piece, of which the one that a checkpoint is written through is as large; the file itself has 64
  // MiB.
  CHECK(with - without <= 18 * resident_mebibyte);
}

#endif
