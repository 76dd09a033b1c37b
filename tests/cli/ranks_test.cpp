#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/cli/process.h"

// Runs of several ranks as processes.

using namespace trainer;
using Catch::Contains;

namespace {

struct RanksFolder : ScratchFolder {
  RanksFolder() {
    std::ofstream yaml(*this / "small.yaml");
    yaml << "name: small\ndevice: {type: cpu, threads: 1}\ndata: {type: digits}\n"
            "model: {layers: [flatten, {linear: {out: 32}}, relu, {dropout: {p: 0.1}}, {linear: {out: 10}}]}\n"
            "train: {batch_size: 50, epochs: 2}\n";
  }
  std::string config() const { return *this / "small.yaml"; }
  std::string output(const std::string& run) const { return "output=" + (*this / run); }
};

std::vector<double> losses_of(const std::vector<nlohmann::json>& events) {
  std::vector<double> losses;
  for (const nlohmann::json& event : events_named(events, "step")) losses.push_back(event["loss"].get<double>());
  return losses;
}

void check_near(const std::vector<double>& some, const std::vector<double>& others) {
  REQUIRE(some.size() == others.size());
  for (std::size_t i = 0; i < some.size(); ++i) CHECK(some[i] == Approx(others[i]).epsilon(1e-5));
}

/// As one line: where a command is folded follows the lengths of paths.
std::string unfolded(const std::string& text) {
  std::string line;
  for (const char each : text) {
    const bool is_blank = each == '\n' || each == ' ' || each == '\\';
    if (!is_blank) line += each;
    if (is_blank && !line.ends_with(' ')) line += ' ';
  }
  return line;
}

/// Processes that `process` has started.
std::vector<pid_t> children_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/task/" + std::to_string(process) + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

/// Sends a signal to the last rank, or to the first, once some steps are told.
ProcessOptions signal_rank(int signal, bool& was_sent, bool is_last = true) {
  ProcessOptions options;
  options.on_output = [signal, is_last, &was_sent](pid_t launcher, const std::string& out) {
    if (was_sent || out.find("\"step\":40,") == std::string::npos) return;
    const std::vector<pid_t> ranks = children_of(launcher);
    if (ranks.empty()) return;
    was_sent = kill(is_last ? ranks.back() : ranks.front(), signal) == 0;
  };
  return options;
}

/// Runs the words once for each line of variables, at once, as a starter of ranks does; the sum of what is printed, and
/// the exit codes.
std::pair<std::string, std::vector<int>> start_with(const RanksFolder& folder,
                                                    const std::vector<std::string>& variables,
                                                    const std::string& words) {
  std::string script;
  for (std::size_t i = 0; i < variables.size(); ++i)
    script += "(env " + variables[i] + " " + TRAINER_BINARY + " " + words + " > " +
              (folder / ("out" + std::to_string(i))) + " 2>&1; echo $? > " + (folder / ("rc" + std::to_string(i))) +
              ") & ";
  std::ofstream(folder / "start.sh") << script << "wait\n";
  REQUIRE(std::system(("env -u RANK -u WORLD_SIZE bash " + (folder / "start.sh")).c_str()) == 0);
  std::pair<std::string, std::vector<int>> result;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    std::ifstream out(folder / ("out" + std::to_string(i))), code(folder / ("rc" + std::to_string(i)));
    std::ostringstream text;
    text << out.rdbuf();
    result.first += text.str();
    result.second.emplace_back(-1);
    code >> result.second.back();
  }
  return result;
}

}  // namespace

TEST_CASE("--ranks starts processes that train as one does; rank 0 tells, and the others in folders of their own") {
  const RanksFolder folder;
  const ProcessResult one = run_trainer({"run", folder.config(), "--json", folder.output("one")});
  REQUIRE(one.exit_code == 0);
  const ProcessResult ranks = run_trainer({"run", folder.config(), "--json", "--ranks", "3", folder.output("three")});
  INFO(ranks.err);
  REQUIRE(ranks.exit_code == 0);
  CHECK(ranks.err.empty());
  check_near(losses_of(events_of(ranks.out)), losses_of(events_of(one.out)));
  CHECK(events_named(events_of(ranks.out), "start").size() == 1);
  for (const char* rank : {"1", "2"}) {
    const std::vector<nlohmann::json> told =
        events_in_file(folder / ("three/ranks/" + std::string(rank) + "/events.jsonl"));
    CHECK(losses_of(told) == losses_of(events_of(ranks.out)));
    CHECK(told.back()["status"] == "done");
  }
  // With fewer ranks in its place nothing of the third is left.
  REQUIRE(
      run_trainer({"run", folder.config(), "-q", "--ranks", "2", "--overwrite", folder.output("three")}).exit_code ==
      0);
  CHECK(std::filesystem::exists(folder / "three/ranks/1/events.jsonl"));
  CHECK_FALSE(std::filesystem::exists(folder / "three/ranks/2"));
  // --ranks is what counts beside a configuration that says another number.
  const ProcessResult other =
      run_trainer({"run", folder.config(), "-q", "--ranks", "2", "parallel.data=4", folder.output("other")});
  INFO(other.err);
  CHECK(other.exit_code == 0);
  CHECK_FALSE(std::filesystem::exists(folder / "other/ranks/2"));
  // A command of one process takes what they have saved.
  CHECK(run_trainer({"eval", folder / "three", "-q"}).exit_code == 0);
}

TEST_CASE(
    "deterministic ranks have the same bits whatever their number, with the threads that they have by themselves") {
  const RanksFolder folder;
  {
    std::ofstream yaml(folder / "images.yaml");
    yaml << "name: images\ndata: {type: synthetic, shape: [28, 28, 1], classes: 10, samples: 160, validation_samples: "
            "30}\n"
            "model: {layers: [{conv2d: {out: 32, kernel: 3, padding: 1}}, relu, {conv2d: {out: 64, kernel: 3, padding: "
            "1}}, batchnorm2d, relu, maxpool2d, flatten, {linear: {out: 10}}]}\n"
            "train: {batch_size: 64, epochs: 2, clip_norm: 1}\nparallel: {deterministic: true, parts: 2}\n";
  }
  std::vector<std::vector<double>> losses;
  for (const char* ranks : {"1", "2"}) {
    const ProcessResult run =
        run_trainer({"run", folder / "images.yaml", "--json", "--ranks", ranks, folder.output(ranks)});
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
    losses.push_back(losses_of(events_of(run.out)));
    for (const nlohmann::json& event : events_named(events_of(run.out), "eval"))
      losses.back().push_back(event["loss"].get<double>());
  }
  CHECK(losses[0].size() == 8);
  CHECK(losses[0] == losses[1]);
  const ProcessResult refused = run_trainer({"run", folder / "images.yaml", "--ranks", "3", folder.output("refused")});
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Contains("2 parts of a batch cannot be shared evenly by 3 ranks"));
}

TEST_CASE("ranks that mpirun, srun and torchrun start find each other by their variables") {
  const RanksFolder folder;
  const std::vector<std::vector<std::string>> starters = {
      {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_MCA_ess_base_jobid=31 OMPI_COMM_WORLD_LOCAL_SIZE=2",
       "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_MCA_ess_base_jobid=31 OMPI_COMM_WORLD_LOCAL_SIZE=2"},
      {"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=0 SLURM_JOB_ID=32 SLURM_STEP_NODELIST=nowhere",
       "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=1 SLURM_JOB_ID=32 SLURM_STEP_NODELIST=nowhere"},
      {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=21733",
       "RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=21733"}};
  REQUIRE(run_trainer({"run", folder.config(), "-q", folder.output("one")}).exit_code == 0);
  const std::vector<double> expected = losses_of(events_in_file(folder / "one/events.jsonl"));
  for (std::size_t i = 0; i < starters.size(); ++i) {
    const std::string run = "run" + std::to_string(i);
    const auto [out, codes] = start_with(folder, starters[i], "run " + folder.config() + " -q " + folder.output(run));
    INFO(out);
    CHECK(codes == std::vector<int>{0, 0});
    check_near(losses_of(events_in_file(folder / (run + "/events.jsonl"))), expected);
  }
}

TEST_CASE("ranks that are not alike are told, and none begins") {
  const RanksFolder folder;
  const std::string variables = "WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=21744 ";
  std::ofstream(folder / "start2.sh") << "true";
  const auto [out, codes] =
      start_with(folder, {"RANK=0 " + variables, "RANK=1 " + variables},
                 "run " + folder.config() + " -q " + folder.output("none") + " train.batch_size=$((30 + RANK))");
  // `env` sets the variable for trainer alone, so the shell's own RANK is empty: both are alike.
  CHECK(codes == std::vector<int>{0, 0});
  CHECK(out.empty());
  std::ofstream(folder / "other.yaml") << "extends: small.yaml\ntrain: {batch_size: 40}\ncheckpoint: {every: 3}\n";
  const std::string script = "(RANK=0 " + variables + TRAINER_BINARY + " run " + folder.config() + " -q " +
                             folder.output("unlike") + " 2>" + (folder / "e0") + "; echo $? >" + (folder / "c0") +
                             ") & RANK=1 " + variables + TRAINER_BINARY + " run " + (folder / "other.yaml") +
                             " name=small -q " + folder.output("unlike") + " 2>" + (folder / "e1") + "; echo $? >" +
                             (folder / "c1") + "; wait";
  std::ofstream(folder / "unlike.sh") << script;
  REQUIRE(std::system(("bash " + (folder / "unlike.sh")).c_str()) == 0);
  std::ostringstream err;
  for (const char* file : {"e0", "e1"}) err << std::ifstream(folder / file).rdbuf();
  CHECK_THAT(err.str(),
             Contains("rank 1 runs another configuration than rank 0: checkpoint.every, train.batch_size\n"));
  for (const char* file : {"c0", "c1"}) {
    int code = -1;
    std::ifstream(folder / file) >> code;
    CHECK(code == 2);
  }
  CHECK_FALSE(std::filesystem::exists(folder / "unlike/checkpoints"));
  CHECK_THAT(run_trainer({"run", folder.config(), "--ranks", "51", folder.output("none")}).err,
             Contains("51 ranks share a batch, and train.batch_size is 50"));
}

TEST_CASE("ranks of a long configuration compare all of it") {
  const RanksFolder folder;
  std::ofstream yaml(folder / "long.yaml");
  yaml << "name: long\ndevice: {type: cpu, threads: 1}\ndata: {type: digits}\n"
          "train: {batch_size: 50, epochs: null, steps: 1}\n"
          "model:\n  layers:\n    - flatten\n    - linear: {out: 10}\n";
  for (int i = 0; i < 900; ++i) yaml << "    - relu\n";
  yaml.close();
  const ProcessResult done = run_trainer({"run", folder / "long.yaml", "-q", "--ranks", "2", folder.output("long")});
  INFO(done.err);
  CHECK(done.exit_code == 0);
}

TEST_CASE("memory that runs out on ranks is told once, and all end with 3") {
  const RanksFolder folder;
  const ProcessResult planned = run_trainer({"run", folder.config(), "--ranks", "2", "memory.limit=200KiB",
                                             "memory.allocator=caching", folder.output("oom")});
  CHECK(planned.exit_code == 3);
  const std::string& report = planned.err;
  CHECK(report.find("\nWhere\n") == report.rfind("\nWhere\n"));
  CHECK_THAT(report, Contains("rank                0 of 2"));
  CHECK_FALSE(std::filesystem::exists(folder / "oom/checkpoints"));
  const ProcessResult running =
      run_trainer({"run", folder.config(), "--ranks", "2", "memory.limit=200KiB", "memory.allocator=caching",
                   "memory.preflight=false", "-q", folder.output("running")});
  CHECK(running.exit_code == 3);
  // Both run out of it.
  CHECK(running.err.find("\nWhere\n") != std::string::npos);
  CHECK(running.err.find("\nWhere\n") == running.err.rfind("\nWhere\n"));
  CHECK_THAT(running.err, Contains("rank                0 of 2"));
  // Where they share the model, too; sharing more is among what would fit, and keeps the numbers.
  const ProcessResult shared =
      run_trainer({"run", folder.config(), "--ranks", "2", "memory.limit=200KiB", "memory.allocator=caching",
                   "parallel.shard=optimizer", "memory.preflight=false", "-q", folder.output("shared")});
  CHECK(shared.exit_code == 3);
  CHECK(shared.err.find("\nWhere\n") != std::string::npos);
  CHECK(shared.err.find("\nWhere\n") == shared.err.rfind("\nWhere\n"));
}

TEST_CASE("a rank that is killed ends the others at once, and the run goes on from its checkpoint with other ranks") {
  const std::string shard = GENERATE("none", "parameters");
  CAPTURE(shard);
  const RanksFolder folder;
  const std::vector<std::string> words = {"run",
                                          folder.config(),
                                          "train.epochs=400",
                                          "checkpoint.every=10",
                                          "parallel.shard=" + shard,
                                          folder.output("run")};
  std::vector<std::string> first = words;
  first.insert(first.end(), {"--ranks", "3", "--json"});
  bool was_sent = false;
  const auto begin = std::chrono::steady_clock::now();
  const ProcessResult killed = run_trainer(first, signal_rank(SIGKILL, was_sent));
  CHECK(was_sent);
  CHECK(killed.exit_code == 75);
  CHECK_THAT(unfolded(killed.err), Contains("rank 2 was killed, or its machine is gone The last checkpoint is ") &&
                                       Contains("/checkpoints/step-000000") && Contains(". Continue with: ") &&
                                       Contains("parallel.data=3 --resume"));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  std::vector<std::string> again = words;
  again.insert(again.end(), {"--ranks", "2", "--json", "--resume", "train.steps=200"});
  const ProcessResult resumed = run_trainer(again);
  INFO(resumed.err);
  REQUIRE(resumed.exit_code == 0);
  // The steps of both, each once, are those of one process.
  const ProcessResult one =
      run_trainer({"run", folder.config(), "train.epochs=400", "train.steps=200", "--json", folder.output("one")});
  check_near(losses_of(events_in_file(folder / "run/events.jsonl")), losses_of(events_of(one.out)));
}

TEST_CASE("where rank 0 is gone, or never comes, another tells of it, once") {
  const RanksFolder folder;
  bool was_sent = false;
  const ProcessResult killed =
      run_trainer({"run", folder.config(), "train.epochs=100000", "--ranks", "3", "--json", folder.output("run")},
                  signal_rank(SIGKILL, was_sent, /*is_last=*/false));
  CHECK(was_sent);
  CHECK(killed.exit_code == 75);
  CHECK(killed.err.starts_with("error: rank 0 was killed, or its machine is gone\nThe last checkpoint is "));
  CHECK_THAT(unfolded(killed.err), Contains("parallel.data=3 --resume"));
  CHECK(std::count(killed.err.begin(), killed.err.end(), '\n') < 8);
  was_sent = false;
  const ProcessResult unsaved = run_trainer({"run", folder.config(), "train.epochs=100000", "train.eval_every=100000",
                                             "--ranks", "2", "--json", folder.output("unsaved")},
                                            signal_rank(SIGKILL, was_sent));
  CHECK(was_sent);
  CHECK_THAT(unfolded(unsaved.err), Contains("its machine is gone No checkpoint was saved before; checkpoint.every="));
  const auto [out, codes] = start_with(folder, {"RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=21755"},
                                       "run " + folder.config() + " parallel.timeout=1 " + folder.output("none"));
  CHECK(codes == std::vector<int>{7});
  CHECK_THAT(out, Contains("no rank answers at 127.0.0.1, port 21755, within 1 s"));
}

TEST_CASE("a rank that goes silent is given up after parallel.timeout") {
  const RanksFolder folder;
  bool was_sent = false;
  const ProcessResult silent = run_trainer({"run", folder.config(), "train.epochs=100000", "--ranks", "2", "--json",
                                            "parallel.timeout=2", folder.output("run")},
                                           signal_rank(SIGSTOP, was_sent));
  CHECK(was_sent);
  CHECK(silent.exit_code == 75);
  CHECK_THAT(silent.err, Contains("rank 1 has not answered for 2 s"));
}

TEST_CASE("a signal that is sent to what started the ranks reaches them") {
  for (const int signal : {SIGINT, SIGHUP, SIGTERM}) {
    INFO("signal " << signal);
    const RanksFolder folder;
    bool was_sent = false;
    ProcessOptions options;
    options.on_output = [&](pid_t launcher, const std::string& out) {
      if (was_sent || out.find("\"step\":40,") == std::string::npos) return;
      // To each of them, as a process group gets it, counts once.
      for (const pid_t rank : children_of(launcher))
        if (signal == SIGTERM) kill(rank, signal);
      was_sent = kill(launcher, signal) == 0;
    };
    const ProcessResult stopped = run_trainer(
        {"run", folder.config(), "train.epochs=3000", "--ranks", "2", "--json", folder.output("run")}, options);
    CHECK(was_sent);
    CHECK(stopped.exit_code == 75);
    CHECK_THAT(stopped.err, Contains("--resume"));
  }
}

TEST_CASE("a signal that is passed on late does not kill ranks that have stopped for it") {
  const RanksFolder folder;
  bool was_sent = false;
  ProcessOptions options;
  options.on_output = [&](pid_t launcher, const std::string& out) {
    if (was_sent || out.find("\"step\":40,") == std::string::npos) return;
    was_sent = true;
    // As what started them passes it on, at every moment until they are gone.
    sigval asked_once{};
    asked_once.sival_int = 1;
    for (std::vector<pid_t> ranks = children_of(launcher); !ranks.empty(); ranks = children_of(launcher))
      for (const pid_t rank : ranks) sigqueue(rank, SIGTERM, asked_once);
  };
  const ProcessResult stopped = run_trainer(
      {"run", folder.config(), "train.epochs=3000", "--ranks", "2", "--json", folder.output("run")}, options);
  CHECK(was_sent);
  CHECK(stopped.exit_code == 75);
  CHECK_THAT(stopped.err, Contains("--resume"));
}

TEST_CASE("a signal to any rank ends all behind the step, with a checkpoint") {
  const RanksFolder folder;
  bool was_sent = false;
  const ProcessResult stopped =
      run_trainer({"run", folder.config(), "train.epochs=100000", "--ranks", "2", "--json", folder.output("run")},
                  signal_rank(SIGTERM, was_sent));
  CHECK(was_sent);
  CHECK(stopped.exit_code == 75);
  CHECK_THAT(stopped.err, Contains("--resume"));
  const std::vector<nlohmann::json> events = events_of(stopped.out);
  CHECK(events.back()["status"] == "interrupted");
  CHECK(std::filesystem::exists(folder / "run/checkpoints/latest"));
}

TEST_CASE("a plan for ranks of GPUs leaves room for NCCL, by an estimate that says so") {
  const RanksFolder folder;
  const auto plan_with = [&](const std::string& ranks, const std::string& deterministic = "false") {
    const ProcessResult result =
        run_trainer({"plan", folder.config(), "device.type=auto", "--ranks", ranks, "--gpu", "t4", "--json",
                     "parallel.deterministic=" + deterministic, "parallel.parts=8"});
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    return events_of(result.out).front();
  };
  const nlohmann::json one = plan_with("1"), two = plan_with("2");
  const auto outside = [](const nlohmann::json& plan) {
    return plan["outside_allocator"]["bytes"].get<std::int64_t>();
  };
  const auto capacity = [](const nlohmann::json& plan) { return plan["capacity"].get<std::int64_t>(); };
  const nlohmann::json& nccl = two["outside_allocator"]["parts"].back();
  CHECK(nccl["name"] == "estimated NCCL buffers");
  CHECK(nccl["bytes"].get<std::int64_t>() > 0);
  CHECK(outside(two) - outside(one) == nccl["bytes"].get<std::int64_t>());
  CHECK(capacity(one) - capacity(two) == nccl["bytes"].get<std::int64_t>());
  CHECK_THAT(two["notes"].dump(), Contains("estimate") && Contains("NCCL_MAX_CTAS"));
  CHECK_THAT(one["notes"].dump(), !Contains("NCCL"));
  // Of four each has two neighbours in a ring, and exchanges with two others where the order of sums is kept.
  const nlohmann::json four = plan_with("4"), in_order = plan_with("4", "true");
  CHECK(outside(in_order) - outside(one) == 2 * (outside(four) - outside(one)));
  CHECK_THAT(in_order["notes"].dump(), Contains("2 ranks to exchange with"));
  CHECK(outside(plan_with("2", "true")) == outside(two));
}

TEST_CASE("a run that replaces another and fails before it has saved does not tell to go on from the other") {
  const RanksFolder folder;
  const std::vector<std::string> words = {"run", folder.config(), "--ranks", "2", "--json", folder.output("run")};
  REQUIRE(run_trainer(words).exit_code == 0);
  std::vector<std::string> again = words;
  again.insert(again.end(), {"--overwrite", "train.epochs=100000", "parallel.shard=parameters",
                             "train.eval_every=1000000", "checkpoint.every=1000000"});
  bool was_sent = false;
  const ProcessResult killed = run_trainer(again, signal_rank(SIGKILL, was_sent));
  CHECK(was_sent);
  CHECK(killed.err ==
        "error: rank 1 was killed, or its machine is gone\n"
        "No checkpoint was saved before; checkpoint.every=STEPS saves some on the way.\n");
}
