#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "datasets/arrays/array_source.h"
#include "datasets/image/image.h"
#include "datasets/image/png_writer.h"
#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;

namespace {

std::vector<std::string> lines_of_text(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string whole_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_grey(const std::string& path, std::int64_t side, int level) {
  Image image;
  image.reshape(side, side, 1);
  for (std::size_t i = 0; i < image.pixels().size(); ++i)
    image.pixels()[i] = static_cast<std::uint8_t>((static_cast<int>(i) * level + 31) % 256);
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << png_of(image);
}

/// A run of a few steps on the digits, and some images to predict from.
struct PredictFolder : ScratchFolder {
  PredictFolder() {
    std::ofstream yaml(*this / "digits.yaml");
    yaml << "name: digits\ndevice: {type: cpu, threads: 1}\ndata: {type: digits}\n"
            "model: {layers: [{conv2d: {out: 4, kernel: 3}}, batchnorm2d, relu, flatten, {linear: {out: 10}}]}\n"
            "train: {batch_size: 64, steps: 5}\noutput: "
         << run() << "\n";
    yaml.close();
    done({"run", *this / "digits.yaml", "-q"});
    for (int i = 0; i < 7; ++i) write_grey(*this / ("in/" + std::to_string(i) + ".png"), 8, i * i + 3);
  }
  std::string run() const { return *this / "run"; }
  std::string exported() const { return *this / "exported"; }
  std::string in() const { return *this / "in"; }

  static ProcessResult done(const std::vector<std::string>& words, int exit_code = 0) {
    const ProcessResult result = run_trainer(words);
    INFO(result.err);
    REQUIRE(result.exit_code == exit_code);
    return result;
  }
};

}  // namespace

TEST_CASE("a run, its checkpoint and its export predict the same, a row an image in order") {
  const PredictFolder folder;
  const ProcessResult told = folder.done({"export", folder.run(), "--to", folder.exported()});
  std::string text = told.out;
  std::replace(text.begin(), text.end(), '\n', ' ');
  CHECK_THAT(text, Contains("weights in " + folder.exported()));
  const std::string rows = folder.done({"predict", folder.run(), folder.in(), "-q"}).out;
  const std::vector<std::string> lines = lines_of_text(rows);
  REQUIRE(lines.size() == 8);
  CHECK(lines[0] == "input,class,probability,p(0),p(1),p(2),p(3),p(4),p(5),p(6),p(7),p(8),p(9),error");
  for (int i = 0; i < 7; ++i)
    CHECK(lines[static_cast<std::size_t>(i) + 1].starts_with(folder.in() + "/" + std::to_string(i) + ".png,"));
  const std::string checkpoint = folder.run() + "/checkpoints/step-00000005";
  for (const std::string& model : {folder.exported(), checkpoint})
    CHECK(folder.done({"predict", model, folder.in(), "-q"}).out == rows);
  // Whatever the batch, to the digits that are told of such small products.
  const ProcessResult of_three = folder.done({"predict", folder.exported(), folder.in(), "--batch", "3"});
  CHECK(lines_of_text(of_three.out).size() == 8);
  CHECK_THAT(of_three.err, Contains("Batches of 3, the last of 1: parameters"));
  CHECK_THAT(of_three.err, Contains("7 inputs in"));

  // In a file, which is not replaced without being asked to.
  const std::string file = folder / "rows.csv";
  CHECK(folder.done({"predict", folder.exported(), folder.in(), "-q", "-o", file}).out.empty());
  CHECK(whole_file(file) == rows);
  folder.done({"predict", folder.exported(), folder.in(), "-q", "-o", file}, 6);
  folder.done({"predict", folder.exported(), folder.in(), "-q", "-o", file, "--overwrite", "--top", "2"});
  CHECK_THAT(whole_file(file), Contains("input,class,probability,class_2,probability_2,error"));
}

TEST_CASE("predictions of the quickstart's validation digits are right as often as its evaluation says") {
  const ScratchFolder folder;
  const std::vector<nlohmann::json> events =
      events_of(PredictFolder::done({"run", "configs/quickstart.yaml", "train.epochs=2", "device.threads=1", "--json",
                                     "output=" + (folder / "run")})
                    .out);
  const nlohmann::json evaluated = events_named(events, "eval").back();
  PredictFolder::done({"export", folder / "run", "--to", folder / "exported", "-q"});
  PredictFolder::done({"data", "configs/quickstart.yaml", "--validation", "--samples", "360", "--no-sheet", "--npz",
                       folder / "digits.npz"});
  const OpenArrayFile arrays = open_array_file(folder / "digits.npz");
  const auto targets = std::find_if(arrays.arrays.begin(), arrays.arrays.end(),
                                    [](const StoredArray& array) { return array.name == "targets"; });
  REQUIRE(targets != arrays.arrays.end());
  REQUIRE(targets->shape == Shape{360});
  const ArraySource source(arrays.file, *targets);
  const std::vector<std::string> rows = lines_of_text(
      PredictFolder::done({"predict", folder / "exported", folder / "digits.npz", "-q", "--top", "1"}).out);
  REQUIRE(rows.size() == 361);
  double num_right = 0;
  const std::size_t target_bytes = size_of(targets->element);
  for (std::size_t i = 0; i < 360; ++i) {
    std::int64_t target = 0;
    source.read(i * target_bytes, target_bytes, &target);
    CHECK(rows[i + 1].starts_with(folder / "digits.npz[" + std::to_string(i) + "],"));
    const std::size_t begin = rows[i + 1].find(',') + 1;
    num_right += rows[i + 1].substr(begin, rows[i + 1].find(',', begin) - begin) == std::to_string(target) ? 1 : 0;
  }
  CHECK(num_right / 360 == Approx(evaluated["accuracy"].get<double>()));
}

TEST_CASE("an input that cannot be read is a row with its error, and the end tells of it") {
  const PredictFolder folder;
  write_grey(folder / "in/3.png", 9, 5);
  std::ofstream(folder / "in/5.png") << "no image";
  const ProcessResult result =
      run_trainer({"predict", folder.run(), folder.in(), folder / "none.png", "--json", "--top", "1"});
  CHECK(result.exit_code == 6);
  const std::vector<nlohmann::json> events = events_of(result.out);
  REQUIRE(events.size() == 9);
  for (std::size_t i = 0; i < 8; ++i) {
    const bool is_bad = i == 3 || i == 5 || i == 7;
    CHECK(events[i]["event"] == "prediction");
    CHECK(events[i]["error"].is_null() != is_bad);
    CHECK(events[i]["class"].is_null() == is_bad);
  }
  CHECK_THAT(events[3]["error"].get<std::string>(), Contains("is 9×9, and the model takes 8×8"));
  CHECK_THAT(events[7]["error"].get<std::string>(), Contains("none.png"));
  CHECK(events[8]["event"] == "predictions");
  CHECK(events[8]["inputs"] == 8);
  CHECK(events[8]["errors"] == 3);
  CHECK(events[8]["batch_size"] == 8);
}

TEST_CASE("what was planned is what is held") {
  const PredictFolder folder;
  for (const char* batch : {"2", "7"}) {
    const nlohmann::json plan = nlohmann::json::parse(
        folder.done({"plan", folder.run(), "--predict", batch, "--json", "device.threads=1"}).out);
    const std::vector<nlohmann::json> events = events_of(
        folder.done({"predict", folder.run(), folder.in(), "--batch", batch, "--json", "device.threads=1"}).out);
    CHECK(plan["event"] == "prediction_plan");
    CHECK(plan["fits"] == true);
    CHECK(plan["batch_size"] == std::stoi(batch));
    CHECK(plan["parameter_bytes"] == events.back()["parameter_bytes"]);
    for (const char* peak : {"peak_requested", "peak_allocated", "peak_reserved"})
      CHECK(plan[peak] == events.back()["memory"][peak]);
  }
  const ProcessResult text = folder.done({"plan", folder.run(), "--predict", "auto"});
  CHECK_THAT(text.out, Contains("predictions in batches of 32 inputs") && Contains("Fits."));
  CHECK_THAT(folder.done({"plan", folder / "digits.yaml", "--predict", "16"}).out, Contains("batches of 16 inputs"));
}

TEST_CASE("a batch that does not fit is told with one that does, and auto takes that") {
  const PredictFolder folder;
  // One segment of 2 MiB is all there is.
  const std::string limit = "memory.limit=2MiB";
  const ProcessResult refused = run_trainer({"predict", folder.run(), folder.in(), "--batch", "4096", limit});
  CHECK(refused.exit_code == 0);  // no more than there are inputs
  const ProcessResult planned = run_trainer({"plan", folder.run(), "--predict", "100000", limit});
  CHECK(planned.exit_code == 4);
  CHECK_THAT(planned.out, Contains("Does not fit the capacity of 2.00 MiB") && Contains("fits: --batch "));
  const ProcessResult none = run_trainer({"predict", folder.run(), folder.in(), "memory.limit=1KiB"});
  CHECK(none.exit_code == 3);
  CHECK(none.out.empty());
  CHECK_THAT(none.err, Contains("Not even a batch of 1 input fits."));
  const nlohmann::json found =
      nlohmann::json::parse(run_trainer({"plan", folder.run(), "--predict", "auto", limit, "--json"}).out);
  CHECK(found["fits"] == true);
  CHECK(found["peak_reserved"].get<std::int64_t>() <= std::int64_t{2} << 20);
}

TEST_CASE("paths come from stdin, one a line") {
  const PredictFolder folder;
  const std::string command = std::string("printf '%s\\n' ") + folder.in() + "/2.png " + folder.in() + " | " +
                              TRAINER_BINARY + " predict " + folder.run() + " - -q --top 1 > " + (folder / "rows");
  REQUIRE(std::system(command.c_str()) == 0);
  const std::vector<std::string> lines = lines_of_text(whole_file(folder / "rows"));
  REQUIRE(lines.size() == 9);
  CHECK(lines[1].starts_with(folder.in() + "/2.png,"));
  CHECK(lines[2].starts_with(folder.in() + "/0.png,"));
}

TEST_CASE("memory does not grow with the number of inputs") {
  const PredictFolder folder;
  const auto peak_of = [&](int num_lines) {
    std::ofstream list(folder / "list");
    for (int i = 0; i < num_lines; ++i) list << folder.in() << "/" << i % 7 << ".png\n";
    list.close();
    ProcessOptions options;
    options.before_start = [&] {
      const int file = open((folder / "list").c_str(), O_RDONLY);
      dup2(file, STDIN_FILENO);
    };
    const ProcessResult result = run_trainer(
        {"predict", folder.run(), "-", "-q", "-o", folder / "rows.csv", "--overwrite", "--batch", "16"}, options);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    CHECK(static_cast<int>(lines_of_text(whole_file(folder / "rows.csv")).size()) == num_lines + 1);
    return result.peak_resident;
  };
  const std::int64_t few = peak_of(200), many = peak_of(20000);
  INFO(few << " and " << many);
  CHECK(many < few + (std::int64_t{4} << 20));
}

TEST_CASE("a table's rows are predicted in the units of its target") {
  const ScratchFolder folder;
  std::ofstream table(folder / "train.csv");
  table << "x,kind,price\n";
  for (int i = 0; i < 60; ++i) table << i << (i % 2 == 0 ? ",a," : ",b,") << 100 * i + (i % 2 == 0 ? 0 : 5000) << "\n";
  table.close();
  std::ofstream(folder / "price.yaml")
      << "device: {type: cpu, threads: 1}\ndata: {type: csv, train: " << folder / "train.csv"
      << ", target: price, target_type: numeric, standardize_target: true}\n"
         "model: {layers: [{linear: {out: 1}}]}\nloss: mse\noptimizer: {type: sgd, lr: 0.3}\n"
         "train: {batch_size: all, epochs: 200}\noutput: "
      << folder / "run"
      << "\n";
  PredictFolder::done({"run", folder / "price.yaml", "-q"});
  PredictFolder::done({"export", folder / "run", "--to", folder / "exported", "-q"});
  std::filesystem::remove(folder / "train.csv");
  std::ofstream(folder / "new.csv") << "kind,note,x\na,-,10\nb,-,20\nc,-,30\na,-,many\n";
  const ProcessResult result = run_trainer({"predict", folder / "exported", folder / "new.csv", "--json", "-q"});
  CHECK(result.exit_code == 6);
  const std::vector<nlohmann::json> events = events_of(result.out);
  REQUIRE(events.size() == 5);
  CHECK(events[0]["numbers"]["price"].get<double>() == Approx(1000).margin(60));
  CHECK(events[1]["numbers"]["price"].get<double>() == Approx(7000).margin(60));
  CHECK(events[2]["error"].is_null());
  CHECK(events[3]["input"] == folder / "new.csv:5");
  CHECK_THAT(events[3]["error"].get<std::string>(), Contains("'many' in column 'x'"));
}

TEST_CASE("a class for each pixel is a mask for each image") {
  const ScratchFolder folder;
  for (const char* kind : {"images", "masks"})
    std::filesystem::create_directories(folder / (std::string("data/") + kind));
  for (int i = 0; i < 6; ++i) {
    const std::string name = std::to_string(i) + ".png";
    Image image, mask;
    image.reshape(6, 5, 3);
    mask.reshape(6, 5, 1);
    for (int p = 0; p < 30; ++p) {
      const bool is_box = p % 5 >= i % 3 && p / 5 > i % 2;
      mask.pixels()[static_cast<std::size_t>(p)] = is_box ? 1 : 0;
      for (int c = 0; c < 3; ++c) image.pixels()[static_cast<std::size_t>(p * 3 + c)] = is_box ? 230 : 20;
    }
    std::ofstream(folder / ("data/images/" + name), std::ios::binary) << png_of(image);
    std::ofstream(folder / ("data/masks/" + name), std::ios::binary) << png_of(mask);
  }
  std::ofstream(folder / "seg.yaml")
      << "device: {type: cpu, threads: 1}\ndata: {type: segmentation, root: " << folder / "data"
      << ", class_names: [ground, box]}\nmodel: {layers: [{conv2d: {out: 2, kernel: 1}}]}\n"
         "optimizer: {type: adamw, lr: 0.1}\ntrain: {batch_size: 6, epochs: 80}\noutput: "
      << folder / "run"
      << "\n";
  PredictFolder::done({"run", folder / "seg.yaml", "-q"});
  const std::string masks = folder / "out";
  const ProcessResult without = run_trainer({"predict", folder / "run", folder / "data/images"});
  CHECK(without.exit_code == 2);
  CHECK_THAT(without.err, Contains("--masks FOLDER"));
  const ProcessResult result =
      PredictFolder::done({"predict", folder / "run", folder / "data", "--masks", masks, "-q"}, 0);
  const std::vector<std::string> lines = lines_of_text(result.out);
  REQUIRE(lines.size() == 13);
  CHECK(lines[0] == "input,mask,error");
  CHECK(lines[1] == folder / "data/images/0.png," + masks + "/images/0.png,");
  for (int i = 0; i < 6; ++i) {
    const std::string name = std::to_string(i) + ".png";
    CHECK(whole_file(masks + "/images/" + name) == whole_file(folder / ("data/masks/" + name)));
  }
  // What is there is kept, and told.
  const ProcessResult again = run_trainer({"predict", folder / "run", folder / "data", "--masks", masks, "-q"});
  CHECK(again.exit_code == 6);
  CHECK_THAT(again.out, Contains("exists"));
  PredictFolder::done({"predict", folder / "run", folder / "data", "--masks", masks, "-q", "--overwrite"});
}

TEST_CASE("what cannot be exported as a folder is said, and nothing is made") {
  const PredictFolder folder;
  std::filesystem::create_directory(folder / "mine");
  std::ofstream(folder / "mine/file") << "kept";
  struct Refused {
    std::vector<std::string> words;
    int exit_code;
    std::string said;
  };
  const std::vector<Refused> all = {
      {{"export", folder.run()}, 2, "-o FILE, --to DIR or --onnx FILE"},
      {{"export", folder.run(), "--to", folder / "x", "-o", folder / "y"}, 2, "excludes"},
      {{"export", folder.run(), "--to", folder / "x", "--names", "hub"}, 2, "--names"},
      {{"export", folder.run(), "--to", folder / "x", "--half", "--dtype", "bf16"}, 2, "excludes"},
      {{"export", folder.run(), "--to", folder / "mine", "--overwrite"}, 6, "is no exported model"},
      {{"predict", folder / "mine", folder.in()}, 6, "holds no weights"},
      {{"predict", folder / "nothing", folder.in()}, 6, "is no folder"},
      {{"predict", folder.run()}, 2, "INPUT"},
      {{"predict", folder.run(), "memory.limit=1GiB"}, 2, "nothing to predict from"},
      {{"predict", folder.run(), folder.in(), "model.layers.0.conv2d.out=9"}, 2, "is a key of training"},
      {{"predict", folder.run(), folder.in(), "--batch", "0"}, 2, "'0' is neither auto nor a whole number"},
      {{"predict", folder.run(), folder.in(), "--masks", folder / "m"}, 2, "masks are for a class of each pixel"},
      {{"plan", folder.run(), "--predict", "some"}, 2, "'some' is neither auto nor a whole number"},
  };
  for (const Refused& one : all) {
    const ProcessResult result = run_trainer(one.words);
    INFO(one.said << "\n" << result.err);
    CHECK(result.exit_code == one.exit_code);
    CHECK(result.out.empty());
    std::string text = result.err;
    std::replace(text.begin(), text.end(), '\n', ' ');
    CHECK_THAT(text, Contains(one.said));
    CHECK(!std::filesystem::exists(folder / "x"));
  }
  CHECK(whole_file(folder / "mine/file") == "kept");
}

TEST_CASE("an exported model of texts has its tokenizer, and writes texts without its run") {
  const ScratchFolder folder;
  std::ofstream text(folder / "letters.txt");
  for (int i = 0; i < 300; ++i) text << "abcdefghij ";
  text.close();
  PredictFolder::done({"tokenizer", "train", folder / "letters.txt", "--vocab", "260", "-o", folder / "own.json"});
  std::ofstream(folder / "gpt.yaml")
      << "device: {type: cpu, threads: 1}\ndata: {type: text, root: " << folder.path()
      << ", train: letters.txt, tokenizer: own.json, split: 0.1, sequence_length: 16, cache_folder: " << folder.path()
      << "}\nmodel: {file: models/gpt2.yaml, with: {depth: 1, width: 16, heads: 2, vocabulary: 260, length: 40}}\n"
         "optimizer: {type: adamw, lr: 0.01}\ntrain: {batch_size: 8, steps: 20}\noutput: "
      << folder / "run"
      << "\n";
  PredictFolder::done({"run", folder / "gpt.yaml", "-q"});
  PredictFolder::done({"export", folder / "run", "--to", folder / "exported", "-q"});
  CHECK(whole_file(folder / "exported/tokenizer.json") == whole_file(folder / "own.json"));
  CHECK_THAT(PredictFolder::done({"predict", folder / "exported", folder / "letters.txt"}).out,
             Contains("letters.txt,"));
  const std::vector<std::string> words = {"--prompt", "abc", "--tokens", "9", "--temperature", "0", "-q"};
  std::vector<std::string> of_run = {"generate", folder / "run"}, of_export = {"generate", folder / "exported"};
  of_run.insert(of_run.end(), words.begin(), words.end());
  of_export.insert(of_export.end(), words.begin(), words.end());
  const std::string written = PredictFolder::done(of_run).out;
  for (const char* file : {"run", "letters.txt", "own.json"}) std::filesystem::remove_all(folder / file);
  CHECK(PredictFolder::done(of_export).out == written);
}
