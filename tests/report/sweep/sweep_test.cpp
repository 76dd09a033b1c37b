#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "engine/config/sweep/sweep_grid.h"
#include "engine/errors.h"
#include "engine/report/sweep/sweep_findings.h"
#include "engine/report/sweep/sweep_json.h"
#include "engine/report/sweep/sweep_table.h"
#include "tests/report/sweep/sweep_rows.h"

using namespace trainer;
using Catch::Contains;

namespace {

using Texts = std::vector<std::string>;

/// The values of the one key that is swept.
Texts values_of(const std::string& value) {
  const SweepGrid grid({"key=" + value});
  return grid.keys().front().values;
}

std::string mistake_of(const Texts& arguments) {
  try {
    const SweepGrid grid(arguments);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no mistake";
}

}  // namespace

TEST_CASE("a sweep's lists are parted at commas outside brackets, braces and quotes") {
  CHECK(values_of("16,32,64") == Texts{"16", "32", "64"});
  CHECK(values_of(" 16 , 32 ") == Texts{"16", "32"});
  CHECK(values_of("[1,2],[3,4]") == Texts{"[1,2]", "[3,4]"});
  CHECK(values_of("{a: 1, b: [2,3]},off") == Texts{"{a: 1, b: [2,3]}", "off"});
  CHECK(values_of("\"a,b\",'c,d'") == Texts{"\"a,b\"", "'c,d'"});
  CHECK(values_of(R"("a\",b",c)") == Texts{R"("a\",b")", "c"});
  CHECK(values_of("don't,won't") == Texts{"don't", "won't"});
  CHECK(values_of("64,16") == Texts{"64", "16"});
}

TEST_CASE("a sweep's ranges count from end to end") {
  CHECK(values_of("16..512:*2") == Texts{"16", "32", "64", "128", "256", "512"});
  CHECK(values_of("16..511:*2") == Texts{"16", "32", "64", "128", "256"});
  CHECK(values_of("1..1:*2") == Texts{"1"});
  CHECK(values_of("1..7:+3") == Texts{"1", "4", "7"});
  CHECK(values_of("-3..3:+2") == Texts{"-3", "-1", "1", "3"});
  CHECK(values_of("0.1..0.5:+0.1") == Texts{"0.1", "0.2", "0.3", "0.4", "0.5"});
  CHECK(values_of("1e-4..0.1:*10") == Texts{"0.0001", "0.001", "0.01", "0.1"});
  CHECK(values_of("2..20:*1.5") == Texts{"2", "3", "4", "7", "10", "15"});
  CHECK(values_of("1..3:*1.2") == Texts{"1", "2", "3"});
  CHECK(values_of("1GiB..8GiB:*2") == Texts{"1GiB", "2GiB", "4GiB", "8GiB"});
  CHECK(values_of("1MB..2MB:+0.5MB") == Texts{"1MB", "1.5MB", "2MB"});
  CHECK(values_of("1,2,8..32:*2") == Texts{"1", "2", "8", "16", "32"});
  CHECK(values_of("4611686018427387904..9223372036854775807:*2") == Texts{"4611686018427387904"});
  CHECK(values_of("9223372036854775806..9223372036854775807:+1").size() == 2);
}

TEST_CASE("a sweep runs all combinations, the last key fastest, and leaves other arguments in their places") {
  const SweepGrid grid({"data.shape=[1,2]", "train.batch_size=16,32", "data.root=../x", "train.amp=off,bf16"});
  const std::vector<SweepPoint> points = grid.points();
  REQUIRE(points.size() == 4);
  CHECK(points[1].values == Texts{"16", "bf16"});
  CHECK(points[2].values == Texts{"32", "off"});
  CHECK(points[2].overrides == Texts{"data.shape=[1,2]", "train.batch_size=32", "data.root=../x", "train.amp=off"});
  CHECK(points[2].name == "batch_size=32,amp=off");
  CHECK(grid.point({"64", "off"}).overrides[1] == "train.batch_size=64");
}

TEST_CASE("points of a sweep have names that serve as folders and differ") {
  const SweepGrid grid({"model.layers.1.linear.out=8,9", "model.layers.3.linear.out=8", "data.shape=[1/2],[1 2]",
                        "name=" + std::string(200, 'x') + "," + std::string(201, 'x')});
  CHECK(grid.keys()[0].label == "out");
  Texts names;
  for (const SweepPoint& point : grid.points()) {
    CHECK(point.name.find('/') == std::string::npos);
    CHECK(point.name.size() < 120);
    names.push_back(point.name);
  }
  std::sort(names.begin(), names.end());
  CHECK(std::unique(names.begin(), names.end()) == names.end());
  const SweepGrid both({"model.layers.1.linear.out=8,9", "model.layers.3.linear.out=8,9"});
  CHECK(both.points()[1].name == "model.layers.1.linear.out=8,model.layers.3.linear.out=9");
}

TEST_CASE("each mistake in a sweep's values is pointed at") {
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"16..512", "the range '16..512' does not say how it counts"},
      {"1GiB..2GiB", "expected: 1GiB..2GiB:*2, doubling, or 1GiB..2GiB:+1GiB"},
      {"16..", "the range '16..' has no number behind '..'"},
      {"16..x:*2", "the range '16..x:*2' has no number behind '..'"},
      {"16..512*2", "'16..512*2' is no range"},
      {"16..512:2", "'16..512:2' is no range"},
      {"16..512:*", "the range '16..512:*' counts by no number"},
      {"16..512:*2x", "the range '16..512:*2x' counts by no number"},
      {"16..512:*1", "the range '16..512:*1' multiplies by 1"},
      {"16..512:+0", "the range '16..512:+0' adds 0"},
      {"16..512:+-1", "the range '16..512:+-1' adds -1"},
      {"0..512:*2", "the range '0..512:*2' multiplies from 0"},
      {"512..16:*2", "the range '512..16:*2' ends below its beginning"},
      {"1GiB..16:*2", "the range '1GiB..16:*2' mixes units"},
      {"1GiB..2GiB:+1MiB", "the range '1GiB..2GiB:+1MiB' mixes units"},
      {"1..1000000:+1", "the range '1..1000000:+1' has more than 10000 values"},
      {"1..2:*1.0000000001", "has more than 10000 values"},
      {"16,,32", "a value is missing between commas"},
      {"16,", "a value is missing between commas"},
      {"16,32,16", "the value 16 comes twice"},
      {"16,8..32:*2", "the value 16 comes twice"},
  };
  for (const auto& [value, message] : mistakes)
    CHECK_THAT(mistake_of({"a=1", "train.batch_size=" + value}), Contains(message));
  const std::string located = mistake_of({"train.batch_size=1,16..8:*2"});
  CHECK_THAT(located, Contains("argument 'train.batch_size=1,16..8:*2': error:") &&
                          Contains("\n  |                    ^~~~~~~~\n"));
  CHECK_THAT(mistake_of({"a=1..2", "b=2..1:+1"}), Contains("'1..2'") && Contains("'2..1:+1'"));
  CHECK_THAT(mistake_of({"a=1", "b=[1,2]"}), Contains("nothing is swept") && Contains("train.batch_size=16..512:*2"));
  CHECK_THAT(mistake_of({}), Contains("nothing is swept"));
  CHECK_THAT(mistake_of({"a=1,2", "a=3"}), Contains("'a' is given twice"));
  CHECK_THAT(mistake_of({"a.b=1,2", "a={b: 3}"}), Contains("'a' replaces 'a.b', which stands before it"));
  CHECK(mistake_of({"a={b: 3}", "a.b=1,2", "ab=1"}) == "no mistake");
  CHECK_THAT(mistake_of({"output=a,b"}), Contains("'output' cannot be swept"));
  CHECK_THAT(mistake_of({"a=1..101:+1", "b=1..100:+1"}), Contains("more than 10000 points"));
}

TEST_CASE("a sweep's rows come back from its log as they were") {
  const Texts keys = {"train.batch_size", "train.amp"};
  SweepHeader header;
  header.version = "1.2.3";
  header.plan_only = true;
  header.gpu = "t4";
  header.keys = keys;
  header.values = {"16", "off"};
  header.config_json = R"({"name":"x","output":"runs/x","train":{"steps":20}})";
  SweepRow crashed = without_memory({"1e-3", "a \"b\", c"});
  crashed.status = PointStatus::crashed;
  crashed.signal = 11;
  crashed.error = "ended by\na signal";
  SweepRow again = measured({"16", "off"}, 20 << 20, 500);
  again.status = PointStatus::diverged;
  std::string text = sweep_header_json(header) + '\n';
  for (const SweepRow& row : {measured({"16", "off"}, 10 << 20, 1000), crashed, again})
    text += sweep_row_json(keys, row) + '\n';
  CHECK_THAT(text, Contains(R"("values":{"train.batch_size":16,"train.amp":"off"})") && Contains(R"("loss":null)") &&
                       Contains(R"("peak_allocated":10485760)") && !Contains("runs/x"));

  const std::optional<SweepLog> log = read_sweep_log(text + R"({"event":"point","po)", "sweep.jsonl");
  REQUIRE(log.has_value());
  CHECK(log->header.values == header.values);
  CHECK(log->header.plan_only);
  CHECK(log->header.gpu == "t4");
  REQUIRE(log->rows.size() == 2);  // of two rows of a point the later
  std::string written = sweep_row_json(keys, log->rows[0]) + '\n' + sweep_row_json(keys, log->rows[1]) + '\n';
  CHECK(written == sweep_row_json(keys, again) + '\n' + sweep_row_json(keys, crashed) + '\n');

  CHECK(log->begun.empty());
  header.plan_only = false;
  const std::optional<SweepLog> run =
      read_sweep_log(sweep_header_json(header) + '\n' + sweep_begun_json("a=1") + '\n' + sweep_begun_json("a=2") +
                         '\n' + sweep_row_json(keys, measured({"16", "off"}, 1, 1)) + '\n',
                     "sweep.jsonl");
  REQUIRE(run.has_value());
  CHECK(run->begun == std::set<std::string>{"16,off", "a=1", "a=2"});
  CHECK(run->rows.size() == 1);
  CHECK_THROWS_WITH(read_sweep_log(text + "{\"event\":\"start\"}\n", "sweep.jsonl"), Contains("an unknown event"));

  CHECK_FALSE(read_sweep_log("", "sweep.jsonl").has_value());
  CHECK_FALSE(read_sweep_log(R"({"event":"sweep")", "sweep.jsonl").has_value());
  CHECK_THROWS_WITH(read_sweep_log(text + "{}\n", "a/sweep.jsonl"),
                    Contains("a/sweep.jsonl:5: this line is not what a sweep writes"));
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& line :
       {deep, R"({"event":"begun","point":)" + deep + "}", std::string(R"({"event":"begun","point":5})"),
        std::string(R"({"event":"begun","point":"\u001b[31m"})")})
    CHECK_THROWS_WITH(read_sweep_log(text + line + '\n', "sweep.jsonl"), Contains("sweep.jsonl:5: this line is not"));
  CHECK_THROWS_WITH(read_sweep_log(deep + '\n', "sweep.jsonl"), Contains("sweep.jsonl:1: this line is not"));
  const auto with = [](std::string line, const std::string& from, const std::string& to) {
    REQUIRE(line.find(from) != std::string::npos);
    return line.replace(line.find(from), from.size(), to) + '\n';
  };
  const std::string row = sweep_row_json(keys, measured({"16", "off"}, 10 << 20, 1000));
  for (const char* changed : {R"("exit_code":1e99)", R"("exit_code":4294967296)", R"("exit_code":-7)"})
    CHECK_THROWS_WITH(read_sweep_log(text + with(row, R"("exit_code":0)", changed), "sweep.jsonl"),
                      Contains("sweep.jsonl:5: ") && Contains("'exit_code'"));
  CHECK_THROWS_WITH(
      read_sweep_log(text + with(row, R"("peak_allocated":10485760)", R"("peak_allocated":9223372036854775808)"),
                     "sweep.jsonl"),
      Contains("'peak_allocated'"));
  CHECK(find_differences(header.config_json, R"({"name":"x","output":"y","train":{"steps":50},"seed":1,
                                               "logging":{"tensorboard":true}})") ==
        Texts{"train.steps (was 20, is 50)", "seed (was null, is 1)"});
}

TEST_CASE("a run's events become a row: peaks of the run, speed without the first step") {
  RunEventReader reader;
  for (
      const char* line :
      {R"({"event":"start","total_steps":3,"device":{"capacity":1000}})", "no event", "[1]", R"({"event":7})",
       R"({"event":"step","step":1,"loss":3,"samples":10,"step_seconds":9,"memory":{"peak_allocated":5,"peak_reserved":8,"device_used":70}})",
       R"({"event":"step","step":2,"loss":2,"samples":10,"step_seconds":0.5,"memory":{"peak_allocated":6,"peak_reserved":8,"device_used":71}})",
       R"({"event":"eval","step":2,"loss":1.5,"accuracy":0.25})",
       R"({"event":"eval","step":3,"loss":1.25,"accuracy":null})",
       R"({"event":"step","step":3,"loss":null,"samples":20,"step_seconds":1,"memory":{"peak_allocated":4,"peak_reserved":8,"device_used":60}})"})
    reader.read(line);
  SweepRow row;
  row.point = "p";
  CHECK_FALSE(reader.fill(row));
  CHECK(row.peak_allocated == 6);
  CHECK(row.peak_used == 71);
  reader.read(R"({"event":"end","status":"done","loss":0.5,"accuracy":0.75,"peak_allocated":7,"peak_used":80,)"
              R"("peak_by_category":{"parameter":3,"activation":4}})");
  CHECK(reader.fill(row));
  CHECK(row.point == "p");
  CHECK(row.capacity == 1000);
  CHECK(row.peak_allocated == 7);  // the evaluation's
  CHECK(row.peak_reserved == 8);
  CHECK(row.peak_used == 80);
  CHECK(row.by_category == CategoryBytes{3, 0, 0, 4, 0, 0, 0, 0});
  CHECK(*row.samples_per_second == Approx(20));
  CHECK(*row.step_seconds == Approx(0.75));
  CHECK(row.accuracy == 0.75);
  CHECK_FALSE(row.train_loss.has_value());
  CHECK(row.steps == 3);
  // A loss that is not finite is no point of the curve.
  REQUIRE(row.train_losses.size() == 2);
  CHECK((row.train_losses[1].step == 2 && row.train_losses[1].value == 2));
  REQUIRE(row.evaluations.size() == 2);
  CHECK((row.evaluations[0].step == 2 && row.evaluations[0].loss == 1.5 && row.evaluations[0].accuracy == 0.25));
  CHECK((row.evaluations[1].step == 3 && !row.evaluations[1].accuracy));
}

TEST_CASE("the curves of a long run stay short, end where it ends, and survive the sweep's log") {
  RunEventReader reader;
  for (int step = 1; step <= 10'000; ++step) {
    reader.read(R"({"event":"step","step":)" + std::to_string(step) + R"(,"loss":)" + std::to_string(step % 2) + "}");
    reader.read(R"({"event":"eval","step":)" + std::to_string(step) + R"(,"loss":1,"accuracy":0.5})");
  }
  SweepRow row = measured({"1"}, 1000, 4);
  reader.fill(row);
  CHECK(row.train_losses.size() <= most_curve_points);
  CHECK(row.train_losses.size() >= most_curve_points / 4);
  CHECK(row.train_losses.back().step == 10'000);
  for (const CurvePoint& point : row.train_losses) CHECK(point.value == Approx(0.5).margin(0.1));
  CHECK(row.evaluations.size() <= most_curve_points + 1);
  CHECK(row.evaluations.size() >= most_curve_points / 4);
  CHECK(row.evaluations.front().step == 1);
  CHECK(row.evaluations.back().step == 10'000);
  for (std::size_t i = 1; i < row.evaluations.size(); ++i) CHECK(row.evaluations[i].step > row.evaluations[i - 1].step);
  SweepHeader header;
  header.keys = {"seed"};
  header.values = {"1"};
  header.config_json = "{}";
  const std::string text = sweep_header_json(header) + '\n';
  const std::optional<SweepLog> log = read_sweep_log(text + sweep_row_json(header.keys, row) + '\n', "sweep.jsonl");
  REQUIRE((log && log->rows.size() == 1));
  CHECK(sweep_row_json(header.keys, log->rows[0]) == sweep_row_json(header.keys, row));
  for (const char* wrong : {R"([[1]])", R"([[1,"x"]])", R"([[-1,2]])", R"([7])", R"({})"}) {
    std::string line = sweep_row_json(header.keys, measured({"1"}, 1000, 4));
    const std::string empty = R"("train_losses":[])";
    REQUIRE(line.find(empty) != std::string::npos);
    line.replace(line.find(empty) + empty.size() - 2, 2, wrong);
    CHECK_THROWS_WITH(read_sweep_log(text + line + '\n', "sweep.jsonl"), Contains("sweep.jsonl:2: "));
  }
}

TEST_CASE("a sweep as CSV has a field for each figure and quotes what CSV needs quoted") {
  SweepRow failed = without_memory({"a,\"b\""});
  failed.error = "two\nlines";
  const std::string csv = sweep_csv({"optimizer.lr"}, {measured({"0.1"}, 1000, 4), failed});
  CHECK(csv ==
        "point,optimizer.lr,status,exit_code,signal,capacity,peak_requested,peak_allocated,peak_reserved,peak_used,"
        "samples_per_second,step_seconds,loss,accuracy,train_loss,steps,seconds,error,parameter,gradient,"
        "optimizer_state,activation,input,workspace,temporary,communication,frozen,batch_size,tokens_per_second\n"
        "0.1,0.1,done,0,0,67108864,900,1000,2098152,2000,4,0.25,0.25,,0.5,7,1.5,,1,2,3,4,5,6,7,8,0,,\n"
        "\"a,\"\"b\"\"\",\"a,\"\"b\"\"\",oom,3,0,67108864,,,,,,,,,,0,0,\"two\nlines\",,,,,,,,,,,\n");
}

TEST_CASE("a sweep's table keeps its columns and its width") {
  const SweepGrid grid({"train.batch_size=8..4096:*2", "train.amp=off,bf16"});
  for (const bool plan_only : {false, true}) {
    for (const int width : {60, 100, 200}) {
      const SweepTable table(grid.keys(), plan_only, {false, width});
      const std::string titles = table.titles();
      const std::string line = table.line(measured({"4096", "bf16"}, std::int64_t{1} << 40, 123456), true);
      CHECK(titles.find("status") == line.find("done"));
      CHECK(titles.find("reserved") + 8 == line.find("1.00 TiB", line.find("1.00 TiB") + 1) + 8);
      CHECK(table.line(without_memory({"8", "off"}), false).find("oom") == titles.find("status"));
      if (width >= 100) CHECK(line.size() <= static_cast<std::size_t>(width));
      CHECK_THAT(titles, Contains("samples/s"));
    }
  }
}

TEST_CASE("a sweep over tokens tells speed in tokens") {
  SweepTable table(SweepGrid({"train.batch_size=8,16"}).keys(), false, {false, 200});
  SweepRow row = measured({"8"}, 1000, 4);
  CHECK_THAT(table.line(row, false), Contains(" 4.0 "));
  row.tokens_per_second = 256;
  table.count_tokens();
  CHECK_THAT(table.titles(), Contains("tokens/s") && !Contains("samples/s"));
  CHECK_THAT(table.line(row, false), Contains(" 256.0 "));
  row.tokens_per_second = std::nullopt;
  CHECK_THAT(table.line(row, false), Contains(" - "));

  SweepHeader header;
  for (const auto& [config, expected] : {std::pair{R"({"data":{"type":"tokens"}})", true},
                                         {R"({"data":{"type":"text"}})", true},
                                         {R"({"data":{"type":"csv"}})", false},
                                         {R"({"data":7})", false},
                                         {"[]", false}}) {
    header.config_json = config;
    CHECK(is_of_tokens(header) == expected);
  }
  RunEventReader reader;
  reader.read(R"({"event":"start","total_steps":2,"tokens_per_sample":64})");
  reader.read(R"({"event":"step","step":1,"loss":1,"samples":4,"step_seconds":2})");
  SweepRow filled;
  reader.fill(filled);
  CHECK(filled.samples_per_second == 2.0);
  CHECK(filled.tokens_per_second == 128.0);
  row.tokens_per_second = 256;
  header.keys = {"train.batch_size"};
  header.values = {"8"};
  header.config_json = "{}";
  const std::optional<SweepLog> log =
      read_sweep_log(sweep_header_json(header) + '\n' + sweep_row_json(header.keys, row) + '\n', "sweep.jsonl");
  REQUIRE(log);
  CHECK(log->rows.at(0).tokens_per_second == 256.0);
}

TEST_CASE("rows are ordered by number, then text, and say what is the largest that fits") {
  CHECK(value_is_less("2", "10"));
  CHECK(value_is_less("512MiB", "1GiB"));
  CHECK(value_is_less("1e-4", "0.01"));
  CHECK(value_is_less("10", "all"));
  CHECK_FALSE(value_is_less("10", "10"));
  CHECK(grows_memory("train.batch_size", {"1", "2e3", "64"}));
  CHECK_FALSE(grows_memory("train.batch_size", {"1", "all"}));
  CHECK_FALSE(grows_memory("memory.limit", {"1GiB", "2GiB"}));
  const std::vector<SweepRow> rows =
      sorted_rows({without_memory({"64", "off"}), measured({"8", "off"}, 1, 1), measured({"64", "on"}, 1, 1),
                   without_memory({"8", "on"}), measured({"16", "off"}, 1, 1)});
  const std::vector<SweepSeries> all = series_of(rows);
  REQUIRE(all.size() == 2);
  CHECK(all[0].others == Texts{"off"});
  CHECK(all[0].rows.size() == 3);
  CHECK(all[0].largest_that_fits()->values.front() == "16");
  CHECK(all[1].largest_that_fits()->values.front() == "64");
  CHECK(all[0].lacks_memory_somewhere());
}
