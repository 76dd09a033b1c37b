#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;

TEST_CASE("without arguments the short help is shown") {
  const ProcessResult result = run_trainer({});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("Usage: trainer"));
  for (const char* command :
       {"run",    "plan",      "fit",      "bench",   "sweep", "summary", "data",         "check",
        "config", "init",      "generate", "lr-find", "eval",  "export",  "export-trace", "predict",
        "report", "tokenizer", "compare",  "plot",    "top",   "doctor"})
    CHECK_THAT(result.out, Contains(std::string("\n  ") + command + " "));
  CHECK(result.err.empty());
}

TEST_CASE("every command has a short help with an example") {
  const std::vector<std::vector<std::string>> commands = {{"run"},
                                                          {"plan"},
                                                          {"lr-find"},
                                                          {"eval"},
                                                          {"fit"},
                                                          {"bench"},
                                                          {"sweep"},
                                                          {"summary"},
                                                          {"data"},
                                                          {"check"},
                                                          {"config"},
                                                          {"init"},
                                                          {"generate"},
                                                          {"export"},
                                                          {"export-trace"},
                                                          {"predict"},
                                                          {"report"},
                                                          {"tokenizer"},
                                                          {"compare"},
                                                          {"plot"},
                                                          {"doctor"},
                                                          {"config", "show"},
                                                          {"config", "explain"},
                                                          {"config", "schema"},
                                                          {"config", "reference"},
                                                          {"tokenizer", "train"},
                                                          {"tokenizer", "encode"},
                                                          {"tokenizer", "decode"}};
  for (std::vector<std::string> words : commands) {
    words.emplace_back("--help");
    const ProcessResult result = run_trainer(words);
    INFO(result.out);
    CHECK(result.exit_code == 0);
    CHECK(result.err.empty());
    CHECK_THAT(result.out, Contains("Usage: trainer " + words.front()));
    CHECK_THAT(result.out, Contains("Example"));
    CHECK(std::count(result.out.begin(), result.out.end(), '\n') < 35);
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
  }
}

TEST_CASE("help is also a word") {
  CHECK(run_trainer({"help"}).out == run_trainer({"--help"}).out);
  CHECK(run_trainer({"help", "config", "show"}).out == run_trainer({"config", "show", "--help"}).out);
  CHECK(run_trainer({"help", "rnu"}).exit_code == 2);
}

TEST_CASE("the version is one line") {
  const ProcessResult result = run_trainer({"--version"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Matches("trainer [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST_CASE("mistyped commands and flags get a suggestion and exit with 2") {
  struct Mistake {
    std::vector<std::string> words;
    std::string said;
  };
  const std::vector<Mistake> mistakes = {
      {{"rnu", "a.yaml"}, "unknown command 'rnu'; did you mean 'run'?"},
      {{"sumary"}, "unknown command 'sumary'; did you mean 'summary'?"},
      {{"config", "shwo", "a.yaml"}, "unknown command 'shwo'; did you mean 'show'?"},
      {{"fly"}, "unknown command 'fly'; there are: run, plan,"},
      {{"run", "a.yaml", "--jsn"}, "unknown flag '--jsn'; did you mean '--json'?"},
      {{"run", "a.yaml", "--log-evry=3"}, "unknown flag '--log-evry'; did you mean '--log-every'?"},
      {{"plan", "a.yaml", "--capcity", "3"}, "unknown flag '--capcity'; did you mean '--capacity'?"},
      {{"--versoin"}, "unknown flag '--versoin'; did you mean '--version'?"},
      {{"run"}, "CONFIG is missing"},
      {{"config"}, "a command is missing; there are: show, explain, schema, reference"},
      {{"run", "a.yaml", "--log-every", "0"}, "--log-every: '0' is not an integer of at least 1"},
      {{"run", "a.yaml", "--log-every", "x"}, "--log-every: 'x' is not an integer of at least 1"},
      {{"plan", "configs/quickstart.yaml", "--capacity", "12 apples"}, "'12 apples' is not a size"},
      {{"doctor", "now"}, "unexpected argument 'now'"},
      {{"run", "a: error: b.yaml"}, "error: cannot read 'a: error: b.yaml'"},
  };
  for (const Mistake& mistake : mistakes) {
    const ProcessResult result = run_trainer(mistake.words);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, Contains("error: ") && Contains(mistake.said));
  }
}

TEST_CASE("a configuration is shown, explained and described") {
  const ProcessResult shown = run_trainer({"config", "show", "configs/quickstart.yaml", "optimizer.lr=0.25", "--json"});
  REQUIRE(shown.exit_code == 0);
  CHECK(nlohmann::json::parse(shown.out)["optimizer"]["lr"] == 0.25);

  for (const char* word : {"fragmentation", "Largest free block", "optimizer_state", "segments"}) {
    const ProcessResult told = run_trainer({"config", "explain", word});
    CHECK(told.exit_code == 0);
    CHECK_THAT(told.out, Contains("(a word of plans and reports)\n  "));
  }
  const ProcessResult misspelt = run_trainer({"config", "explain", "fragmentaton"});
  CHECK(misspelt.exit_code == 2);
  CHECK_THAT(misspelt.err, Contains("did you mean 'fragmentation'?") && !Contains("error: error:"));
  CHECK_THAT(run_trainer({"config", "explain", "checkpoint"}).out,
             Contains("checkpoint.best") && Contains("checkpoint (a word of plans and reports)"));
  CHECK_THAT(run_trainer({"config", "explain", "lr"}).out, Contains("optimizer.lr\n"));
  CHECK_THAT(run_trainer({"config", "explain", "one_cycle"}).out, Contains("schedule.start_divisor"));
  CHECK_THAT(run_trainer({"config", "explain", "freeze"}).out, Contains("Layers whose parameters are not trained"));
  const ProcessResult explained = run_trainer({"config", "explain", "train.batch_size"});
  CHECK(explained.exit_code == 0);
  CHECK_THAT(explained.out, Contains("batch_size"));
  const ProcessResult unknown = run_trainer({"config", "explain", "train.batch_sise"});
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.err, Contains("did you mean 'train.batch_size'?") && !Contains("error: error:"));

  const ProcessResult schema = run_trainer({"config", "schema"});
  REQUIRE(schema.exit_code == 0);
  CHECK(nlohmann::json::parse(schema.out).contains("properties"));
  CHECK_THAT(run_trainer({"config", "reference"}).out, Contains("batch_size"));
}

TEST_CASE("what config show prints is a configuration that gives the same") {
  ScratchFolder folder;
  const ProcessResult shown = run_trainer({"config", "show", "configs/quickstart.yaml"});
  REQUIRE(shown.exit_code == 0);
  std::ofstream(folder / "again.yaml") << shown.out;
  CHECK(run_trainer({"config", "show", folder / "again.yaml"}).out == shown.out);
}

TEST_CASE("a starter is written once and not over another file") {
  ScratchFolder folder;
  const ProcessResult list = run_trainer({"init"});
  CHECK(list.exit_code == 0);
  CHECK_THAT(list.out, Contains("mlp"));
  const ProcessResult wrote = run_trainer({"init", "mlp"}, {.folder = folder.path()});
  CHECK(wrote.exit_code == 0);
  CHECK_THAT(wrote.out, Contains("trainer run mlp.yaml"));
  CHECK(run_trainer({"check", "mlp.yaml"}, {.folder = folder.path()}).exit_code == 0);
  const ProcessResult again = run_trainer({"init", "mlp"}, {.folder = folder.path()});
  CHECK(again.exit_code == 6);
  CHECK_THAT(again.err, Contains("mlp.yaml exists"));
  CHECK(run_trainer({"init", "mlp", "--overwrite"}, {.folder = folder.path()}).exit_code == 0);
  CHECK_THAT(run_trainer({"init", "cnn", "-"}).out, Contains("conv2d"));
  const ProcessResult unknown = run_trainer({"init", "cnm"});
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.err, Contains("cnn"));
}

TEST_CASE("check tells what it validated, and every mistake with its place") {
  const ProcessResult valid = run_trainer({"check", "configs/quickstart.yaml"});
  CHECK(valid.exit_code == 0);
  CHECK_THAT(valid.out, Contains("is valid") && Contains("1,437 samples for training and 360 for validation"));
  CHECK(run_trainer({"check", "configs/quickstart.yaml", "--quiet"}).out.empty());

  const ProcessResult wrong =
      run_trainer({"check", "configs/quickstart.yaml", "train.batch_sise=3", "optimizer.lr=fast"});
  CHECK(wrong.exit_code == 2);
  CHECK_THAT(wrong.err, Contains("did you mean 'train.batch_size'?") && Contains("optimizer.lr=fast"));

  const ProcessResult missing = run_trainer({"check", "configs/quickstart.yaml", "data={type: idx, root: /nowhere}"});
  CHECK(missing.exit_code == 6);
  CHECK_THAT(missing.err, Contains("missing") && Contains("/nowhere/"));
}

TEST_CASE("check and plan warn of what a run warns of") {
  for (const char* command : {"check", "plan"}) {
    ProcessResult result =
        run_trainer({command, "configs/quickstart.yaml", "schedule={type: cosine, warmup_steps: 500}"});
    INFO(result.out);
    CHECK(result.exit_code == 0);
    result.out = std::regex_replace(result.out, std::regex("\\s+"), " ");
    CHECK_THAT(result.out, Contains("the warm-up of 500 steps is longer than the run of 184"));
  }
}

TEST_CASE("a batch of more than the data set has is told by whatever speaks of the smaller one") {
  ScratchFolder folder;
  const std::string file = folder / "small.yaml";
  std::ofstream(file) << "data: {type: synthetic, shape: [4], classes: 3, samples: 360}\n"
                         "model: {layers: [linear: {out: 3}]}\ntrain: {batch_size: 1000, steps: 2}\noutput: "
                      << (folder / "run") << "\n";
  const std::string sentence =
      "train.batch_size is 1000, and the data set has 360 training samples: every batch has 360";
  const std::string fields = "\"batch_size\":360,\"asked_batch_size\":1000";
  const std::vector<std::vector<std::string>> commands = {{"check"},
                                                          {"plan"},
                                                          {"plan", "--gpu", "t4,a100-80gb"},
                                                          {"run"},
                                                          {"run", "--json", "--overwrite"},
                                                          {"plan", "--json"},
                                                          {"plan", "--json", "--gpu", "t4,a100-80gb"}};
  for (std::vector<std::string> words : commands) {
    const bool is_json = std::find(words.begin(), words.end(), "--json") != words.end();
    words.insert(words.begin() + 1, file);
    ProcessResult result = run_trainer(words);
    INFO(words.front() << ' ' << result.out << result.err);
    CHECK(result.exit_code == 0);
    if (!is_json) result.out += result.err;  // a run warns there
    const std::string text = std::regex_replace(result.out, std::regex("\\s+"), " ");
    CHECK_THAT(text, Contains(sentence));
    if (is_json) CHECK_THAT(text, Contains(fields));
  }
  for (const bool plans : {false, true}) {
    std::vector<std::string> words = {"sweep", file, "train.batch_size=300,1000", "output=" + (folder / "sweep")};
    if (plans) words.insert(words.end(), {"--plan-only", "--overwrite", "--json"});
    ProcessResult result = run_trainer(words);
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
    result.err = std::regex_replace(result.err, std::regex("\\s+"), " ");
    CHECK_THAT(result.err, Contains("1000: " + sentence) && !Contains("is 300"));
    if (plans) CHECK_THAT(result.out, Contains(fields));
    std::filesystem::remove_all(folder / "sweep");
  }
}

TEST_CASE("doctor tells the build, the libraries and the devices") {
  const ProcessResult result = run_trainer({"doctor"});
  CHECK(result.exit_code == 0);
  for (const char* what : {"trainer ", "compiler", "oneDNN", "fmt", "cpu", "capacity", "threads"})
    CHECK_THAT(result.out, Contains(what));
  const nlohmann::json report = nlohmann::json::parse(run_trainer({"doctor", "--json"}).out);
  CHECK(report["devices"][0]["kind"] == "cpu");
  CHECK(report["devices"][0]["capacity"].get<std::int64_t>() > 0);
}

TEST_CASE("summary lists every layer with its shape and parameters") {
  const ProcessResult result = run_trainer({"summary", "configs/bench/mlp.yaml"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("128×2000") && Contains("1,570,000") && Contains("5,592,010"));
  const nlohmann::json summary =
      nlohmann::json::parse(run_trainer({"summary", "configs/bench/mlp.yaml", "--json"}).out);
  CHECK(summary["parameters"] == 5'592'010);
  std::int64_t sum = 0;
  for (const nlohmann::json& layer : summary["layers"]) sum += layer["parameters"].get<std::int64_t>();
  CHECK(sum == 5'592'010);
}

TEST_CASE("a run goes on when nobody reads what it prints any more") {
  const std::string flags = GENERATE("--log-every 1", "--json", "--log-every 1 memory.limit=1KiB 2>&1");
  ScratchFolder folder;
  const std::string command =
      std::string("{ ") + TRAINER_BINARY +
      " run " TRAINER_SOURCE_DIR "/configs/quickstart.yaml train.epochs=5 output=" + (folder / "run") + " " + flags +
      "; echo $? > " + (folder / "status") + "; } 2> /dev/null | head -n 1 > /dev/null";
  REQUIRE(std::system(command.c_str()) == 0);
  int status = -1;
  std::ifstream(folder / "status") >> status;
  const bool fits = flags.find("limit") == std::string::npos;
  CHECK(status == (fits ? 0 : 3));
  std::ifstream file(folder / "run/events.jsonl");
  std::string last;
  for (std::string line; std::getline(file, line);) last = line;
  CHECK(nlohmann::json::parse(last).at("status") == (fits ? "done" : "oom"));
}

TEST_CASE("a run can start from the weights of a file") {
  ScratchFolder folder;
  const auto save = [&](const std::string& name, std::vector<std::string> more) {
    std::vector<std::string> words = {"run", "configs/quickstart.yaml", "train.steps=0", "-q",
                                      "output=" + (folder / name)};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = run_trainer(words);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    return folder / (name + "/checkpoints/step-00000000/model.safetensors");
  };
  const auto bytes = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string first = save("first", {"seed=1"});
  CHECK((bytes(save("other", {"seed=2"})) != bytes(first)));
  CHECK((bytes(save("loaded", {"seed=2", "--weights", first})) == bytes(first)));
  CHECK((bytes(save("of_run", {"seed=2", "--weights", folder / "first"})) == bytes(first)));
  const ProcessResult told = run_trainer({"run", "configs/quickstart.yaml", "train.steps=0", "--json", "--weights",
                                          folder / "first", "output=" + (folder / "told")});
  CHECK(told.err.empty());
  CHECK_THAT(told.out, Contains("\"weights\":{\"file\":\"" + first + "\"") && Contains("\"new\":0"));
  const ProcessResult none = run_trainer({"run", "configs/quickstart.yaml", "--weights", folder / "first/checkpoints",
                                          "output=" + (folder / "none_there")});
  CHECK(none.exit_code == 6);
  CHECK(none.out.empty());
  CHECK_THAT(none.err, Contains("first/checkpoints holds no weights: neither model.safetensors"));
  const ProcessResult both = run_trainer({"run", "configs/quickstart.yaml", "--weights", first, "--resume"});
  CHECK(both.exit_code == 2);
  CHECK_THAT(both.err, Contains("--weights") && Contains("--resume"));
  const ProcessResult missing =
      run_trainer({"run", "configs/quickstart.yaml", "--weights", folder / "none", "output=" + (folder / "missing")});
  CHECK(missing.exit_code == 6);
  CHECK_THAT(missing.err, Contains(folder / "none"));
}

TEST_CASE("a full disk behind stdout is an error and not silence") {
  ScratchFolder folder;
  const std::string run = "run " TRAINER_SOURCE_DIR "/configs/quickstart.yaml train.steps=3 output=" + (folder / "run");
  const std::string words = GENERATE_COPY(std::string("config reference"), run, run + " --json");
  // The shell's redirection stands in for a full disk.
  const std::string command = std::string(TRAINER_BINARY) + " " + words + " > /dev/full 2> /dev/null";
  const int status = std::system(command.c_str());
  CHECK(WEXITSTATUS(status) == 6);
}

TEST_CASE("a sweep reads its runs also where stdout and stderr are closed") {
  ScratchFolder folder;
  for (const char* closed : {">&-", ">&- 2>&-", "<&- >&- 2>&-"}) {
    INFO(closed);
    const std::string command = std::string(TRAINER_BINARY) +
                                " sweep " TRAINER_SOURCE_DIR "/configs/quickstart.yaml seed=1,2 train.steps=1 -q " +
                                "--overwrite output=" + (folder / "sweep") + " " + closed;
    // Nothing is printed, and so nothing fails to be.
    CHECK(std::system(command.c_str()) == 0);
    std::ifstream log(folder / "sweep/sweep.jsonl");
    int num_done = 0;
    for (std::string line; std::getline(log, line);)
      num_done += line.find("\"status\":\"done\"") != std::string::npos ? 1 : 0;
    CHECK(num_done == 2);
  }
}
TEST_CASE("words of other programs are told in words of this one") {
  const auto told = [](const std::vector<std::string>& words) {
    const ProcessResult result = run_trainer(words);
    CHECK(result.exit_code == 2);
    return result.err;
  };
  const std::string config = "configs/quickstart.yaml";
  CHECK_THAT(told({"train", config}), Contains("unknown command 'train'; that is 'trainer run CONFIG'\n"));
  CHECK_THAT(told({"resume", config}), Contains("that is 'trainer run CONFIG --resume'\n"));
  CHECK_THAT(told({"infer", config}), Contains("that is 'trainer predict RUN INPUT'\n"));
  CHECK_THAT(told({"serve", config}), Contains("trainer does not do this yet"));
  CHECK_THAT(told({"config", "train"}), Contains("unknown command 'train'; there are: "));
  for (const std::vector<std::string>& flag : std::vector<std::vector<std::string>>{
           {"--batch-size", "32"}, {"--batch_size=32"}, {"--train.batch_size=32"}, {"--bs=32"}}) {
    std::vector<std::string> words = {"run", config};
    words.insert(words.end(), flag.begin(), flag.end());
    CHECK_THAT(told(words), Contains("; settings are written without dashes: train.batch_size=32\n"));
  }
  CHECK_THAT(told({"run", config, "--lr"}), Contains(": optimizer.lr=VALUE\n"));
  CHECK_THAT(told({"run", config, "--gpus", "2"}), Contains("parallel.data=2"));
  CHECK_THAT(told({"run", "--config", config}), Contains("CONFIG is given without a flag"));
  CHECK_THAT(told({"run", config, "--resum"}), Contains("did you mean '--resume'?"));
  CHECK_THAT(told({"check", config, "train.accumulate_grad_batches=4"}),
             Contains("did you mean 'train.accumulation_steps'?"));
  CHECK_THAT(told({"check", config, "schedule.type=CosineAnnealingLR"}), Contains("did you mean 'cosine'?"));
  CHECK_THAT(told({"check", config, "data.type=cifar100"}), !Contains("did you mean"));
  CHECK_THAT(told({"check", config, "data.type=cifar1"}), !Contains("did you mean"));
  CHECK_THAT(told({"check", config, "data.type=cifr10"}), Contains("did you mean 'cifar10'?"));
  for (const std::string key : {"data.pin_memory=true", "device.ids=0", "model.pretrained=true"})
    CHECK_THAT(told({"check", config, key}), Contains("there is no key '") && Contains("configs/LIMITS.md"));
  CHECK_THAT(told({"check", config, "data.num_workers=4"}), Contains("did you mean 'data.workers'?"));
  CHECK(run_trainer({"check", config, "memory.limit=12G"}).exit_code == 0);
  for (const std::string command : {"eval", "lr-find", "predict"})
    CHECK_THAT(told({command, "model.yaml", "--ranks", "2"}),
               Contains("unknown flag '--ranks'; '" + command + "' runs as one process: several train by 'run'"));
}

TEST_CASE("check tells a program what is valid, and each mistake with its place") {
  using nlohmann::json;
  const ProcessResult valid = run_trainer({"check", "configs/quickstart.yaml", "--json"});
  CHECK(valid.exit_code == 0);
  const json found = json::parse(valid.out);
  CHECK(found["event"] == "check");
  CHECK(found["valid"] == true);
  CHECK(found["parameters"] == 151402);
  CHECK(found["steps"] == 184);
  CHECK(found["fits"] == true);
  CHECK(found["peak_reserved"] == 6 << 20);
  const json small = json::parse(run_trainer({"check", "configs/quickstart.yaml", "memory.limit=4MiB", "--json"}).out);
  CHECK(small["fits"] == false);
  CHECK(small["peak_reserved"].is_null());

  const ScratchFolder folder;
  std::ofstream(folder / "typo.yaml") << "data: {type: digits}\nmodel:\n  layers: [flaten, linear: {out: ten}]\n";
  const ProcessResult wrong = run_trainer({"check", folder / "typo.yaml", "--json"});
  CHECK(wrong.exit_code == 2);
  CHECK_THAT(wrong.err, Contains("typo.yaml:3:12: error:"));
  const json mistakes = json::parse(wrong.out);
  CHECK(mistakes["valid"] == false);
  REQUIRE(mistakes["mistakes"].size() == 2);
  CHECK(mistakes["mistakes"][0]["file"] == folder / "typo.yaml");
  CHECK(mistakes["mistakes"][0]["line"] == 3);
  CHECK(mistakes["mistakes"][0]["column"] == 12);
  CHECK(mistakes["mistakes"][0]["suggestion"] == "flatten");
}

TEST_CASE("data that is not there is told with the command that fetches it") {
  const ScratchFolder folder;
  const auto told = [&](const std::string& command, const std::string& config, const std::string& root) {
    const ProcessResult result =
        run_trainer({command, std::string(TRAINER_SOURCE_DIR) + "/configs/" + config, "data.root=" + root},
                    {.folder = folder.path()});
    CHECK(result.exit_code == 6);
    return result.err;
  };
  CHECK_THAT(told("run", "mnist_mlp.yaml", "my/mnist"),
             Contains("; scripts/get_data.sh mnist 'my/mnist' fetches it\n"));
  CHECK_THAT(told("check", "cifar10_resnet18.yaml", "my/cifar10"),
             Contains("; scripts/get_data.sh cifar10 'my/cifar10' fetches it\n"));
}
