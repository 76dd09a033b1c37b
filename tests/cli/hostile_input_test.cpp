#include <catch2/catch.hpp>
#include <fstream>
#include <regex>

#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;

namespace {

/// Whether a terminal would show all of it and obey nothing: no controls but newlines, in UTF-8 that is well formed.
bool is_plain(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20U && byte != '\n') || byte == 0x7FU) return false;
    if (byte == 0xC2U && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0U) return false;
  }
  return true;
}

/// What trainer wrote to a terminal, without what is its own: colours, and the moves that redraw lines.
std::string shown_of(const std::string& written) {
  static const std::regex own("\x1b\\[(0|1|2|3[1-6])?m|\x1b\\[1A\x1b\\[2K|\r\x1b\\[2K|\r");
  return std::regex_replace(written, own, "");
}

}  // namespace

TEST_CASE("an empty value is refused wherever it stands, and not taken for none") {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"run", "configs/quickstart.yaml", "--weights", ""},
           {"run", "configs/quickstart.yaml", "--weights="},
           {"run", "configs/quickstart.yaml", "--resume="},
           {"run", "configs/quickstart.yaml", "--log-every", ""},
           {"plan", "configs/quickstart.yaml", "--gpu", ""},
           {"plan", "configs/quickstart.yaml", "--gpu="},
           {"plan", "configs/quickstart.yaml", "--capacity", ""},
           {"fit", "configs/quickstart.yaml", "--gpu", ""},
           {"fit", "configs/quickstart.yaml", "--capacity="},
           {"fit", "configs/quickstart.yaml", "--max", ""},
           {"fit", "configs/quickstart.yaml", "--write", ""},
           {"sweep", "configs/quickstart.yaml", "optimizer.lr=0.1,0.2", "--gpu", ""},
           {"data", "configs/quickstart.yaml", "--sheet", ""},
           {"lr-find", "configs/quickstart.yaml", "--svg", ""},
           {"plot", "runs/a", "--svg", ""},
           {"plot", "runs/a", "--of="},
           {"compare", "runs/a", "runs/b", "--check", ""},
           {"eval", "configs/quickstart.yaml", "--data", ""},
           {"eval", "configs/quickstart.yaml", "--confusion="},
           {"lr-find", "configs/quickstart.yaml", "--weights="},
           {"data", "configs/quickstart.yaml", "--npz", ""},
           {"export", "configs/quickstart.yaml", "--output="},
           {"report", "configs/quickstart.yaml", "--output="},
           {"export", "configs/quickstart.yaml", "--names", "", "-o", "none.safetensors"},
           {"export-trace", "configs/quickstart.yaml", "--pytorch="},
           {"export-trace", "configs/quickstart.yaml", "--perfetto", ""},
           {"tokenizer", "train", "README.md", "--vocab", "300", "--special", "", "-o", "none.json"},
           {"tokenizer", "encode", "bytes", "README.md", "--output="},
       }) {
    const ProcessResult result = run_trainer(words);
    INFO(words.back() << " " << words[2]);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, Contains("the value behind --") && Contains("is empty"));
  }
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"bench", ""}, {"check", ""}, {"init", ""}, {"config", "explain", ""}}) {
    const ProcessResult result = run_trainer(words);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Contains("an argument is empty"));
  }
}

TEST_CASE("a configuration that no GPU can run is an error, told once, whatever it is planned for") {
  const std::vector<std::string> wrong = {
      "configs/quickstart.yaml", "model.layers=[{conv2d: {out: 8, kernel: 99}}, flatten, {linear: {out: 10}}]"};
  const auto planned = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"plan", wrong[0], wrong[1]};
    words.insert(words.end(), more.begin(), more.end());
    return run_trainer(words);
  };
  const ProcessResult one = planned({"--gpu", "rtx4090"});
  REQUIRE(one.exit_code == 2);
  for (const std::vector<std::string>& targets :
       {std::vector<std::string>{"--gpu", "all"}, {"--gpu", "rtx4090,h100"}, {"--capacity", "1GiB,2GiB"}}) {
    const ProcessResult several = planned(targets);
    CHECK(several.exit_code == 2);
    CHECK(several.out.empty());
    CHECK(several.err == one.err);
  }
}

TEST_CASE("what a file holds never moves the cursor of a terminal") {
  const ScratchFolder folder;
  const std::string escape =
      "\x1b[31m\x07\x7f\xc2\x9b"
      "5m";
  const std::string csv = folder.path() + "/data.csv";
  std::ofstream(csv) << "a,b\n1," << escape << "\n" << escape << ",2\n";
  const std::string config = folder.path() + "/csv.yaml";
  std::ofstream(config) << "data: {type: csv, train: " << csv << ", target_type: numeric}\nloss: mse\n"
                        << "model: {layers: [linear: {out: 1}]}\n";
  const ProcessResult cell = run_trainer({"check", config});
  CHECK(cell.exit_code == 6);
  CHECK_THAT(cell.err, Contains("\\x1b[31m"));
  CHECK(is_plain(cell.err));

  // As YAML writes it within quotes.
  const std::string named = folder.path() + "/named.yaml";
  std::ofstream(named) << "name: \"a\\e[31mb\"\ndata: digits\nmodel: {layers: [flatten, linear: {out: 10}]}\n";
  const ProcessResult name = run_trainer({"plan", named});
  CHECK(name.exit_code == 2);
  CHECK_THAT(name.err, Contains("named.yaml:1:7: error: 'name': 'a?[31mb' holds a control character"));
  CHECK(is_plain(name.err));

  const std::string path = folder.path() + "/" + escape + ".yaml";
  std::ofstream(path) << "data: digits\nmodel: {layers: [flatten, linear: {out: 10, bias: 3}]}\n";
  const ProcessResult placed = run_trainer({"check", path});
  CHECK(placed.exit_code == 2);
  CHECK(is_plain(placed.err));
}

TEST_CASE("names of files never move the cursor of a terminal, whatever the command says of them") {
  const ScratchFolder folder;
  const std::string name = folder / "a\x1b[5m\x07\x7f\xc2\x9b\x80\n\tb";
  const std::string config = name + ".yaml", wide = "train.batch_size=512", few = "train.steps=1";
  std::ofstream(config)
      << "name: named\ndata: digits\nmodel: {layers: [flatten, linear: {out: 50}, linear: {out: 10}]}\n"
      << "train: {steps: 1}\n";
  const std::string output = "output=" + folder / "run";
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"check", config},
           {"check", config, wide, "memory.limit=64KiB"},
           {"summary", config},
           {"data", config, "--sheet", name + ".png"},
           {"data", config, "--sheet", config},
           {"data", config, "--no-sheet", "--npz", name + ".npz"},
           {"data", config, "--no-sheet", "--npz", config},
           {"predict", name, config},
           {"report", config, "-o", name + ".html"},
           {"report", config, "-o", name + ".html"},
           {"report", config, name + "=1", "-o", name + ".2.html"},
           {"report", name, "-o", name + ".2.html"},
           {"report", config, "--rank", name, "-o", name + ".2.html"},
           {"plan", config, "--predict", "4"},
           {"config", "show", config},
           {"config", "explain", "\x1b[5m"},
           {"plan", config},
           {"plan", config, "--capacity", "1MiB", wide},
           {"plan", config, "--capacity", "1MiB,1GiB"},
           {"plan", config, "--gpu", name},
           {"plan", config, "--gpu", "rtx4090,h100"},
           {"fit", config, "--capacity", "3MiB", wide},
           {"fit", config, "--max", "train.batch_size", "--capacity", "3MiB"},
           {"fit", config, "--capacity", "3MiB", "--write", name + ".written.yaml"},
           {"check", name + ".written.yaml"},
           {"bench", config, "--steps", "1"},
           {"bench", config, "memory.limit=64KiB", "--steps", "1"},
           {"bench", config, "--data", "--seconds", "0.01"},
           {"plan", config},
           {"init", "mlp", name + ".init.yaml"},
           {"init", "mlp", name + ".init.yaml"},
           {"tokenizer", "train", config, "--vocab", "270", "--special", name, "-o", name + ".json"},
           {"tokenizer", "train", config, "--vocab", "270", "--special", "\x1b[5m", "-o", name + ".json"},
           {"tokenizer", "train", config, "--vocab", "270", "-o", name + ".json"},
           {"tokenizer", "encode", name + ".json", config, "-o", name + ".bin"},
           {"tokenizer", "encode", name + ".json", config, "-o", name + ".bin"},
           {"tokenizer", "encode", config, config},
           {"sweep", config, "train.batch_size=16,32", "--plan-only", "output=" + folder / "sweep"},
           {"sweep", config, "train.batch_size=16,32", "output=" + folder / "runs"},
           {"run", config, output, "--verbose"},
           {"run", config, output},
           {"report", folder / "run", config, "-o", name + ".run.html"},
           {"predict", folder / "run", name + ".png", "-o", folder / "rows.csv"},
           {"predict", folder / "run", name + ".png", "-o", name + ".csv"},
           {"export", folder / "run", "--to", name + " exported"},
           {"export", folder / "run", "--to", name + " exported"},
           {"predict", name + " exported", config, "-o", name + ".csv"},
           {"export-trace", config, "--pytorch", name + ".pickle", "--perfetto", name + ".trace.json"},
           {"export-trace", config, wide, "memory.limit=64KiB", "--pytorch", name + ".pickle", "--overwrite"},
           {"export-trace", folder / "run", "--perfetto", name + ".json.gz"},
           {"export-trace", name, "--perfetto", name + ".none"},
           {"run", config, output, "--resume=" + name},
           {"run", config, output, "--overwrite", "--weights", name},
           {"run", config, "output=" + folder / "small", "memory.limit=64KiB", wide},
           {"run", config, "output=" + folder / "named", "data={type: csv, train: \"" + (folder / "none") + "\"}"},
           {name},
           {"run", config, "--" + name},
       }) {
    const std::vector<std::pair<std::string, std::string>> cache = {{"XDG_CACHE_HOME", name + " cache"}};
    const ProcessResult result = run_trainer(words, {.environment = cache});
    INFO(words[0] << "\n" << result.out << result.err);
    CHECK(is_plain(result.out));
    CHECK(is_plain(result.err));
    CHECK(result.exit_code != 1);
    CHECK(result.exit_code >= 0);
    CHECK(is_plain(shown_of(run_trainer(words, {.environment = cache, .terminal_columns = 100}).out)));
  }
  for (const char* command : {"plan", "fit", "summary", "bench", "run", "sweep"}) {
    std::vector<std::string> words = {command, config, "--json"};
    if (words[0] == "run") words.push_back("output=" + folder / "json");
    if (words[0] == "sweep")
      words.insert(words.end(), {"train.batch_size=16,32", "--plan-only", "output=" + folder / "s"});
    const ProcessResult result = run_trainer(words);
    INFO(command << "\n" << result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK(is_plain(result.out));
    CHECK_FALSE(events_of(result.out).empty());
  }
}

TEST_CASE("a command that is to be pasted holds the name of a file as a shell reads it back") {
  const ScratchFolder folder;
  const std::string path = folder / "it's\x1b.yaml";
  const ProcessResult result = run_trainer({"init", "mlp", path});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("trainer check $'" + folder.path() + "/it\\x27s\\x1b.yaml'"));
}

TEST_CASE("more threads than 16 for each that a process may use are refused") {
  const ProcessResult many = run_trainer({"plan", "configs/quickstart.yaml", "device.threads=1024"});
  CHECK(many.exit_code == 2);
  CHECK_THAT(many.err, Contains("argument 'device.threads=1024': error: device.threads is 1024") &&
                           Contains("expected: at most"));
  const ScratchFolder folder;
  const std::string config = folder / "threads.yaml";
  std::ofstream(config) << "data: digits\nmodel: {layers: [flatten, linear: {out: 10}]}\ndevice: {threads: 1000}\n";
  CHECK_THAT(run_trainer({"check", config}).err, Contains("threads.yaml:3:10: error: device.threads is 1000"));
}

TEST_CASE("half of a UTF-16 pair, written as if it were UTF-8, is no text") {
  const ProcessResult result =
      run_trainer({"check", "configs/quickstart.yaml", "data={type: idx}", "data.root=\xed\xa0\x80"});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, Contains("error: byte 0xed at offset 0 is not text"));
}

TEST_CASE("a number of samples that no run counts is refused with the largest") {
  for (const char* number : {"2147483648", "9223372036854775807", "99999999999999999999"}) {
    const ProcessResult result =
        run_trainer({"check", "configs/quickstart.yaml", std::string("data.samples=") + number});
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Contains("expected: an integer from 0 to 2147483647"));
  }
}

TEST_CASE("a run's folder with a name that a terminal would obey is shown by top as text") {
  const ScratchFolder folder;
  for (const std::string& name :
       {std::string("a\x1b[31mb"), std::string("c\xff\rd"), std::string("\xe2\x80\xae") + "e"}) {
    const std::string run = folder / name;
    std::filesystem::create_directories(run);
    std::ofstream(run + "/events.jsonl") << "\x1b]0;owned\x07\n";
  }
  ProcessOptions options;
  options.environment = {{"LC_ALL", "C.UTF-8"}, {"COLUMNS", "100"}, {"LINES", "40"}};
  const ProcessResult result = run_trainer({"top", "--once", folder.path()}, options);
  CHECK(result.exit_code == 0);
  CHECK(is_plain(result.out));
  CHECK_THAT(result.out,
             Contains("3 runs") && Contains("a?[31mb") && Contains("c? d") && Contains("?e") && Contains("damaged"));
}

#if !defined(__SANITIZE_ADDRESS__)  // which takes addresses without end

TEST_CASE("where the system starts fewer threads than asked for, that is told before the first of them is needed") {
  // Room for the program, and not for the stacks of so many threads.
  ProcessOptions little;
  little.address_space = std::int64_t{130} << 20;
  const ProcessResult limited = run_trainer({"plan", "configs/quickstart.yaml", "device.threads=16"}, little);
  INFO(limited.err);
  CHECK(limited.exit_code == 7);
  CHECK_THAT(limited.err, Contains("of 18 threads") && Contains("device.threads"));
}

#endif
