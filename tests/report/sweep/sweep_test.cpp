#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "engine/config/sweep/sweep_grid.h"
#include "engine/errors.h"
#include "engine/report/sweep/plot_axis.h"
#include "engine/report/sweep/sweep_findings.h"
#include "engine/report/sweep/sweep_json.h"
#include "engine/report/sweep/sweep_plot.h"
#include "engine/report/sweep/sweep_table.h"

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

/// What is wrong with a text as XML, as far as the plot uses it; empty: nothing.
std::string xml_mistake(const std::string& text) {
  Texts open;
  std::size_t at = 0;
  while (at < text.size()) {
    if (text[at] == '&') {
      const std::string entity = text.substr(at, text.find(';', at) - at + 1);
      if (entity != "&amp;" && entity != "&lt;" && entity != "&gt;" && entity != "&quot;") return "entity " + entity;
    }
    if (static_cast<unsigned char>(text[at]) < 0x20 && text[at] != '\n') return "a control character";
    if (text[at] != '<') {
      if (open.empty() && text[at] != '\n') return "text outside the root";
      ++at;
      continue;
    }
    const std::size_t end = text.find('>', at);
    if (end == std::string::npos) return "a tag without its end";
    const std::string tag = text.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "</" + tag.substr(1) + "> closes nothing";
      open.pop_back();
      continue;
    }
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0 || tag.find('<') != std::string::npos) return "<" + tag;
    if (tag.back() != '/') open.push_back(tag.substr(0, tag.find(' ')));
  }
  return open.empty() ? "" : open.back() + " is not closed";
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

SweepRow measured(const Texts& values, std::int64_t allocated, double speed) {
  SweepRow row;
  row.point = values.front() + (values.size() > 1 ? "," + values[1] : "");
  row.values = values;
  row.capacity = 64 << 20;
  row.peak_requested = allocated - 100;
  row.peak_allocated = allocated;
  row.peak_reserved = allocated + (2 << 20);
  row.peak_used = 2 * allocated;
  row.by_category = {1, 2, 3, 4, 5, 6, 7, 8};
  row.samples_per_second = speed;
  row.step_seconds = 1 / speed;
  row.loss = 0.25;
  row.train_loss = 0.5;
  row.steps = 7;
  row.seconds = 1.5;
  return row;
}

SweepRow without_memory(const Texts& values) {
  SweepRow row;
  row.point = values.front() + (values.size() > 1 ? "," + values[1] : "");
  row.values = values;
  row.status = PointStatus::out_of_memory;
  row.exit_code = 3;
  row.capacity = 64 << 20;
  return row;
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
  CHECK(find_differences(header.config_json, R"({"name":"x","output":"y","train":{"steps":50},"seed":1})") ==
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
        "optimizer_state,activation,input,workspace,temporary,communication\n"
        "0.1,0.1,done,0,0,67108864,900,1000,2098152,2000,4,0.25,0.25,,0.5,7,1.5,,1,2,3,4,5,6,7,8\n"
        "\"a,\"\"b\"\"\",\"a,\"\"b\"\"\",oom,3,0,67108864,,,,,,,,,,0,0,\"two\nlines\",,,,,,,,\n");
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

TEST_CASE("axes have round ends and spread values evenly") {
  for (const double highest : {1.0, 1000.0, 1025.0, 7.5e6, 3.1e9}) {
    const HeightAxis bytes = bytes_axis(highest);
    CHECK(bytes.end >= highest);
    CHECK(bytes.end <= std::max(2 * highest, 1.0));
    CHECK(bytes.ticks.size() >= 2);
    CHECK(bytes.ticks.size() <= 8);
    CHECK(bytes.ticks.front().label == "0 B");
    CHECK(number_axis(highest).end >= highest);
    CHECK(number_axis(highest).ticks.size() <= 8);
  }
  CHECK(bytes_axis(double{3 << 20}).ticks[1].label == "512.00 KiB");
  CHECK(number_axis(0).ticks.size() >= 2);

  const ValueAxis doubling = value_axis({"8", "16", "32", "64"});
  CHECK(doubling.is_logarithmic);
  CHECK(doubling.positions[1] - doubling.positions[0] == Approx(doubling.positions[3] - doubling.positions[2]));
  const ValueAxis even = value_axis({"10", "20", "30", "40"});
  CHECK_FALSE(even.is_logarithmic);
  CHECK(even.positions[1] - even.positions[0] == Approx(even.positions[3] - even.positions[2]));
  CHECK_FALSE(value_axis({"0", "1", "10", "100"}).is_logarithmic);
  CHECK_FALSE(value_axis({"8", "all"}).is_continuous);
  CHECK(value_axis({"off"}).positions == std::vector<double>{0.5});
}

TEST_CASE("the plot of a sweep is XML that holds every point") {
  const std::vector<SweepRow> rows = {measured({"8"}, 10 << 20, 500), measured({"16"}, 20 << 20, 900),
                                      measured({"32"}, 40 << 20, 1000), without_memory({"64"})};
  const std::string svg = sweep_plot("a < \"b\" & c\x01", SweepGrid({"train.batch_size=8..64:*2"}).keys(), rows);
  CHECK(xml_mistake(svg) == "");
  CHECK_THAT(svg, Contains("a &lt; &quot;b&quot; &amp; c") && Contains("train.batch_size (logarithmic)") &&
                      Contains("capacity 64.00 MiB") && Contains("out of memory") && Contains("samples/s") &&
                      Contains("peak memory"));
  // Allocated, reserved and speed of what was measured; a cross for what was not.
  CHECK(count_of(svg, "batch_size=8: done, allocated 10.00 MiB, reserved 12.00 MiB, 500.0 samples/s") == 3);
  CHECK(count_of(svg, "batch_size=64: oom") == 1);
  CHECK(count_of(svg, "<polyline") == 4);  // and the capacity

  // Heights are the values': the reserved line ends, at 42 MiB, as far above 22 MiB as that is above 12 MiB, doubled.
  std::size_t line = 0;
  for (int i = 0; i < 3; ++i) line = svg.find("<polyline points=", line + 1);  // behind capacity and allocated
  CHECK(svg.find("class=\"line k0\"", line) < svg.find('\n', line));
  std::vector<double> heights;
  for (std::size_t at = svg.find(',', line); heights.size() < 3; at = svg.find(',', at + 1))
    heights.push_back(std::stod(svg.substr(at + 1)));
  CHECK(heights[1] - heights[2] == Approx(2 * (heights[0] - heights[1])).margin(0.3));
}

TEST_CASE("an axis of a range begins near its lowest, and is logarithmic where the range is wide") {
  const HeightAxis near = range_axis(0.90, 0.99);
  CHECK((near.begin <= 0.90 && near.begin >= 0.85 && near.end >= 0.99 && near.end <= 1.05));
  CHECK(near.at(near.begin) == Approx(0).margin(1e-12));
  CHECK(near.at(near.end) == Approx(1));
  CHECK(range_axis(0.1, 2.3).begin == 0);
  const HeightAxis wide = range_axis(0.003, 20);
  CHECK(wide.is_logarithmic);
  CHECK((wide.begin == Approx(0.001) && wide.end == Approx(100)));
  CHECK(wide.at(0.1) == Approx(0.4));
  CHECK(wide.at(0) == 0);
  CHECK(range_axis(1e-30, 1e30).ticks.size() <= 8);
  for (const double same : {0.0, 0.5}) CHECK(range_axis(same, same).ticks.size() >= 2);
  const HeightAxis negative = range_axis(-3, -1);
  CHECK((negative.begin == -3 && negative.end == Approx(-1)));
}

TEST_CASE("the plot of runs draws the loss of each over its steps, and what evaluations found") {
  std::vector<SweepRow> rows = {measured({"0.01"}, 10 << 20, 500), measured({"1"}, 10 << 20, 500)};
  rows[0].train_losses = {{10, 2.0}, {20, 1.0}, {30, 0.5}};
  rows[1].train_losses = {{10, 2.0}, {20, 900.0}};  // it diverges
  rows[0].evaluations = {{30, 0.75, 0.9}};
  const std::vector<SweptKey> keys = SweepGrid({"optimizer.lr=0.01,1"}).keys();
  const std::string svg = sweep_plot("lr", keys, rows);
  CHECK(xml_mistake(svg) == "");
  CHECK_THAT(svg, Contains(">training loss<") && Contains(">validation loss<") && Contains(">accuracy<") &&
                      Contains(">lr=0.01<") && Contains(">lr=1<") && Contains(">step<") &&
                      Contains("lr=0.01: validation loss 0.75 at step 30"));
  // Equal steps are equal widths, and equal falls equal heights: 2, 1, 0.5.
  std::size_t line = svg.find("lr=0.01: training loss 2 at step 10");
  line = svg.rfind("<polyline", line);
  std::vector<double> numbers;
  std::size_t at = svg.find('"', line) + 1;
  for (int i = 0; i < 6; ++i) {
    std::size_t length = 0;
    numbers.push_back(std::stod(svg.substr(at), &length));
    at += length + 1;
  }
  CHECK(numbers[2] - numbers[0] == Approx(numbers[4] - numbers[2]).margin(0.2));
  CHECK(numbers[3] - numbers[1] == Approx(2 * (numbers[5] - numbers[3])).margin(0.3));
  // What diverges ends at the upper edge, and the others are not flattened.
  CHECK(numbers[5] - numbers[1] > 60);

  std::vector<SweepRow> many;
  for (int i = 10; i < 30; ++i) {
    many.push_back(measured({std::to_string(i)}, 10 << 20, 500));
    many.back().train_losses = {{1, 2.0}, {2, 1.0}};
  }
  const std::string cut = sweep_plot("seeds", SweepGrid({"seed=10..29:+1"}).keys(), many);
  CHECK_THAT(cut, Contains("and 8 curves in sweep.jsonl") && Contains(">seed=21<"));
  CHECK(count_of(cut, ">seed=22<") == 0);
}

TEST_CASE("a sweep over texts is plotted as bars, many combinations as the first six, and failures by their name") {
  std::vector<SweepRow> rows;
  for (const char* value : {"bf16", "off"})
    for (int i = 0; i < 9; ++i) rows.push_back(measured({value, std::to_string(i)}, 10 << 20, 500));
  rows.front() = without_memory({"bf16", "0"});
  rows.front().status = PointStatus::crashed;
  const std::string svg = sweep_plot("bars", SweepGrid({"train.amp=bf16,off", "seed=0..8:+1"}).keys(), rows);
  CHECK(xml_mistake(svg) == "");
  CHECK(count_of(svg, "<rect") == 1 + 6 + 2 + 3 * (2 * 6 - 1));  // paper, legend, bars
  CHECK_THAT(svg, Contains("and 3 combinations in sweep.csv") && Contains(">crashed<") && Contains("seed=5") &&
                      !Contains("seed=6"));
  // Nothing measured at all is a picture too.
  CHECK(xml_mistake(sweep_plot("none", SweepGrid({"a=1,2"}).keys(), {without_memory({"1"})})) == "");
}
