#include "engine/report/live/live_frame.h"

#include <clocale>
#include <cwchar>

#include <catch2/catch.hpp>
#include <cmath>
#include <deque>
#include <limits>

#include "tests/report/live/recorded_folder.h"

namespace trainer {
namespace {

/// Columns of a line as the C library counts them, and whether it is nothing but letters.
struct CountedLine {
  int columns = 0;
  bool is_plain = true;
};

CountedLine counted(const std::string& line) {
  const locale_t unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  REQUIRE(unicode != nullptr);
  const locale_t before = uselocale(unicode);
  CountedLine result;
  std::mbstate_t state{};
  for (std::size_t offset = 0; offset < line.size();) {
    wchar_t letter = 0;
    const std::size_t length = std::mbrtowc(&letter, line.data() + offset, line.size() - offset, &state);
    const int width = length == 0 || length > line.size() - offset ? -1 : ::wcwidth(letter);
    if (width < 0) {
      result.is_plain = false;
      break;
    }
    result.columns += width;
    offset += length;
  }
  uselocale(before);
  freelocale(unicode);
  return result;
}

std::vector<std::string> lines_of(const Frame& frame) {
  std::vector<std::string> lines;
  for (const FrameLine& line : frame.lines) lines.push_back(line.text());
  return lines;
}

std::string all_of(const Frame& frame) { return frame.text(); }

const std::vector<ScreenSize> frame_sizes = {{80, 24}, {120, 40}, {40, 10}, {41, 11}, {60, 17}, {200, 60},
                                             {80, 10}, {40, 60},  {39, 24}, {80, 9},  {1, 1},   {300, 12}};

void check_within(const LiveScene& scene, LiveView view) {
  for (const ScreenSize size : frame_sizes) {
    for (int choice = 0; choice < 16; ++choice) {
      view.memory = (choice & 1) != 0;
      view.log_scale = (choice & 2) != 0;
      view.detail = (choice & 4) != 0;
      view.ascii = (choice & 8) != 0;
      const Frame frame = live_frame(scene, view, size);
      INFO(size.columns << " x " << size.rows << ", choice " << choice << '\n' << frame.text());
      CHECK(frame.lines.size() <= size.rows);
      bool fits = true, is_plain = true, is_ascii = true;
      for (const std::string& line : lines_of(frame)) {
        const CountedLine line_count = counted(line);
        fits = fits && line_count.columns <= static_cast<int>(size.columns);
        is_plain = is_plain && line_count.is_plain;
        for (const char letter : line) is_ascii = is_ascii && static_cast<unsigned char>(letter) < 0x7F;
      }
      CHECK(fits);
      CHECK(is_plain);
      CHECK((is_ascii || !view.ascii));
    }
  }
}

/// Runs that are read, in scenes made by hand.
class SceneOfRuns {
 public:
  LiveRun& add(const std::string& name, LiveState state, const std::string& label = "") {
    runs_.emplace_back(folder_.of(name));
    runs_.back().update();
    scene_.runs.push_back({.run = &runs_.back(), .label = label.empty() ? name : label, .state = state});
    return runs_.back();
  }
  const FolderOfRuns& folder() const { return folder_; }
  LiveScene& scene() { return scene_; }

 private:
  FolderOfRuns folder_;
  std::deque<LiveRun> runs_;
  LiveScene scene_{.runs = {}, .gpus = {}, .now_seconds = 1065, .clock = "12:34:56", .searched = "runs"};
};

void tell_some(const FolderOfRuns& folder, const std::string& name, int steps = 30) {
  folder.tell(name, live_start());
  for (int step = 1; step <= steps; ++step) folder.tell(name, live_step(step, 1.0 / step));
  folder.tell(name, live_evaluation(10, 0.25, true));
  folder.tell(name, live_evaluation(20, 0.5, false));
  folder.tell(name, CheckpointEvent{.step = 20, .path = "x"});
}

}  // namespace

TEST_CASE("one run fills an 80 x 24 screen with all that is asked for") {
  SceneOfRuns made;
  tell_some(made.folder(), "digits");
  made.add("digits", LiveState::running);
  const Frame frame = live_frame(made.scene(), {}, {80, 24});
  CHECK(frame.lines.size() <= 24);
  CHECK(frame.lines.size() >= 20);
  const std::string text = all_of(frame);
  INFO(text);
  for (const char* const told : {"1 run, 1 running",
                                 "12:34:56",
                                 "running",
                                 "cpu (AMD EPYC, 2 threads)",
                                 "step 30/100",
                                 "30.0 %",
                                 "elapsed 1:05",
                                 "eta 0:40",
                                 "loss 0.0333",
                                 "lr 0.01",
                                 "8.0 samples/s",
                                 "waits for data 25 %",
                                 "eval at step 20",
                                 "accuracy 50.00 %",
                                 "best loss 0.2500 at step 10",
                                 "6.00 MiB, 75 % of 8.00 MiB",
                                 "parameter 1.00 MiB",
                                 "activation 3.00 MiB",
                                 "allocated 1.00 MiB (peak 4.00 MiB)",
                                 "reserved 6.00 MiB",
                                 "used 20.00 MiB",
                                 "loss to step 30",
                                 "◆",
                                 "checkpoint at step 20"})
    CHECK_THAT(text, Catch::Contains(told));
}

TEST_CASE("a narrow screen shows the newest evaluation and the best, and leaves out what has no room whole") {
  SceneOfRuns made;
  tell_some(made.folder(), "digits");
  made.add("digits", LiveState::running);
  const std::string text = all_of(live_frame(made.scene(), {}, {66, 24}));
  INFO(text);
  CHECK_THAT(text, Catch::Contains("eval at step 20: loss 0.5000, accuracy 50.00 %  best loss 0.2500\n"));
}

TEST_CASE("the memory bar has each category's part of the capacity, then what is only reserved") {
  SceneOfRuns made;
  made.folder().tell("a", live_start());
  made.folder().tell("a", live_step(1));
  made.add("a", LiveState::running);
  std::string bar;
  for (const std::string& line : lines_of(live_frame(made.scene(), {}, {80, 24})))
    if (line.starts_with("memory")) bar = line.substr(line.find('[') + 1, line.find(']') - line.find('[') - 1);
  REQUIRE_FALSE(bar.empty());
  // Of 8 MiB: 1 of parameters, 3 of activations, 2 reserved, 2 free.
  const auto count_of = [&](const std::string& letter) {
    double count = 0;
    for (std::size_t at = bar.find(letter); at != std::string::npos; at = bar.find(letter, at + letter.size())) ++count;
    return count;
  };
  const double cells = count_of("P") + count_of("A") + count_of("░") + count_of(" ");
  CHECK(count_of("P") == Approx(cells / 8).margin(1));
  CHECK(count_of("A") == Approx(cells * 3 / 8).margin(1));
  CHECK(count_of("░") == Approx(cells / 4).margin(1));
  CHECK(bar.find('P') < bar.find('A'));
}

TEST_CASE("several runs are a list over the selected one, which Enter shows alone") {
  SceneOfRuns made;
  for (int i = 0; i < 20; ++i) {
    const std::string name = "run" + std::to_string(i);
    tell_some(made.folder(), name, i + 1);
    made.add(name, i == 0 ? LiveState::running : LiveState::done);
  }
  LiveView view{.selected = 15};
  std::string text = all_of(live_frame(made.scene(), view, {80, 24}));
  INFO(text);
  CHECK_THAT(text, Catch::Contains("status") && Catch::Contains("run15") && Catch::Contains("16/100"));
  CHECK_THAT(text, Catch::Contains("step 16/100"));
  bool is_reversed = false;
  const Frame frame = live_frame(made.scene(), view, {80, 24});
  for (const FrameLine& line : frame.lines)
    if (line.text().starts_with("run15")) is_reversed = is_reversed || line.pieces().at(0).look.is_reversed;
  CHECK(is_reversed);
  view.detail = true;
  text = all_of(live_frame(made.scene(), view, {80, 24}));
  CHECK_THAT(text, !Catch::Contains("status") && Catch::Contains("run15"));
  view.selected = 1000;
  CHECK_THAT(all_of(live_frame(made.scene(), view, {80, 24})), Catch::Contains("run19"));
}

TEST_CASE("what became of a run is told with what there is to do") {
  SceneOfRuns made;
  const auto text_of = [&](LiveState state) {
    return all_of(live_frame({.runs = {{.run = made.scene().runs[0].run, .label = "a", .state = state}},
                              .gpus = {},
                              .now_seconds = 2000,
                              .clock = "",
                              .searched = ""},
                             {}, {100, 30}));
  };
  tell_some(made.folder(), "a");
  LiveRun& run = made.add("a", LiveState::running);
  CHECK_THAT(text_of(LiveState::killed), Catch::Contains("--resume"));
  CHECK_THAT(text_of(LiveState::interrupted), Catch::Contains("--resume"));
  made.folder().tell("a", DivergedEvent{.step = 31, .loss = 1, .layer = "4.weight", .tensor = "x"});
  run.update();
  CHECK_THAT(text_of(LiveState::diverged), Catch::Contains("diverged in step 31, first in 4.weight"));
  OutOfMemoryEvent oom;
  oom.context.step = 32;
  oom.context.layer = "2 (conv2d)";
  made.folder().tell("a", oom);
  run.update();
  CHECK_THAT(text_of(LiveState::out_of_memory), Catch::Contains("out of memory in step 32") &&
                                                    Catch::Contains("2 (conv2d)") &&
                                                    Catch::Contains("out_of_memory.txt"));
  made.folder().tell("a", std::string("nonsense\n"));
  run.update();
  CHECK_THAT(text_of(LiveState::damaged), Catch::Contains("events.jsonl: line"));
}

TEST_CASE("GPUs are shown with what uses them, and the run's process among it") {
  SceneOfRuns made;
  tell_some(made.folder(), "a");
  made.add("a", LiveState::running);
  made.scene().runs[0].process =
      ProcessUsage{.pid = 77, .name = "trainer", .resident_bytes = 1 << 20, .num_threads = 3};
  made.scene().runs[0].busy_processors = 1.5;
  made.scene().gpus = {{.index = 1,
                        .name = "NVIDIA H200",
                        .used_bytes = std::int64_t{3} << 30,
                        .total_bytes = std::int64_t{140} << 30,
                        .busy_percent = 97,
                        .celsius = 61,
                        .watts = 320.4,
                        .processes = {{77, "trainer", std::int64_t{2} << 30}, {78, "other", std::int64_t{1} << 30}}}};
  const std::string text = all_of(live_frame(made.scene(), {}, {100, 40}));
  INFO(text);
  for (const char* const told : {"process 77 (trainer): 150 % of a processor, 1.00 MiB resident, 3 threads",
                                 "GPU 1 NVIDIA H200  busy 97 %  3.00 GiB of 140.00 GiB  61 °C  320 W",
                                 "77    2.00 GiB  trainer  (this run)", "78    1.00 GiB  other"})
    CHECK_THAT(text, Catch::Contains(told));
  check_within(made.scene(), {});
}

TEST_CASE("no frame is wider or higher than its screen, whatever there is to tell") {
  SceneOfRuns made;
  made.folder().tell("unbegun", "");
  made.add("unbegun", LiveState::waiting);
  made.folder().tell("no-steps", live_start());
  made.add("no-steps", LiveState::running);
  tell_some(made.folder(), "some");
  made.add("some", LiveState::killed);
  made.folder().tell("one", live_start(1));
  made.folder().tell("one", live_step(1));
  made.add("one", LiveState::done);
  const double most = std::numeric_limits<double>::max();
  StartEvent start = live_start(std::numeric_limits<std::int64_t>::max());
  start.capacity = std::numeric_limits<std::int64_t>::max();
  made.folder().tell("extreme", start);
  for (const double loss : {most, -most, 0.0, std::nan(""), 1e-300, most}) {
    static std::int64_t number = std::numeric_limits<std::int64_t>::max() - 10;
    StepEvent step = live_step(++number, loss);
    step.epoch = std::numeric_limits<std::int64_t>::max();
    step.seconds = number % 2 == 0 ? most : 0;
    step.learning_rate = most;
    step.memory.step.peak_reserved = step.memory.step.peak_allocated = std::numeric_limits<std::int64_t>::max();
    made.folder().tell("extreme", step);
  }
  made.add("extreme", LiveState::running);
  check_within({}, {});
  check_within({.runs = {}, .gpus = {}, .now_seconds = 0, .clock = "", .searched = std::string(500, 'x')}, {});
  LiveView view;
  for (view.selected = 0; view.selected < made.scene().runs.size(); ++view.selected) check_within(made.scene(), view);
  check_within(made.scene(), {.help = true});
  made.scene().is_whole = false;
  for (view.selected = 0; view.selected < made.scene().runs.size(); ++view.selected) check_within(made.scene(), view);
}

TEST_CASE("a search that met its limit says so, with and without runs") {
  constexpr const char* said = "too many files to look through them all";
  SceneOfRuns made;
  CHECK_THAT(all_of(live_frame(made.scene(), {}, {80, 24})), !Catch::Contains(said));
  made.scene().is_whole = false;
  CHECK_THAT(all_of(live_frame(made.scene(), {}, {80, 24})), Catch::Contains(said));
  tell_some(made.folder(), "some");
  made.add("some", LiveState::running);
  CHECK_THAT(all_of(live_frame(made.scene(), {}, {80, 24})), Catch::Contains(said) && Catch::Contains("some"));
}

TEST_CASE("hostile names and messages are harmless text, cut to the width") {
  std::string long_name;
  while (long_name.size() < 10000) long_name += "模\x1b[2Je\u0301\u0301\u0301\u202e🚀\r";
  for (const std::string& hostile :
       {std::string("\x1b]0;owned\x07"), std::string("a\nb\rc\td"), std::string("\u202egnp.exe"), long_name,
        std::string("\u0301\u0301\u0301"), std::string("👩‍👩‍👧‍👦 家族"), std::string("\u009b31m")}) {
    SceneOfRuns made;
    StartEvent start = live_start();
    start.device_name = hostile;
    made.folder().tell("a", start);
    StepEvent step = live_step(1);
    step.stage = hostile;
    StageEvent stage;
    stage.name = hostile;
    made.folder().tell("a", stage);
    made.folder().tell("a", step);
    made.folder().tell("a", WarningEvent{.step = 1, .message = hostile});
    EndEvent end;
    end.status = "failed";
    end.error = hostile;
    made.folder().tell("a", end);
    made.add("a", LiveState::failed, hostile);
    made.add("a", LiveState::damaged, hostile);
    made.scene().gpus = {{.index = 0, .name = hostile, .processes = {{1, hostile, 1}}}};
    made.scene().runs[0].process = ProcessUsage{.pid = 1, .name = hostile};
    made.scene().clock = hostile;
    check_within(made.scene(), {});
  }
}

TEST_CASE("a screen that is too small says what it takes") {
  CHECK_THAT(all_of(live_frame({}, {}, {80, 9})), Catch::Contains("too small: 80 x 9, needs 40 x 10"));
  CHECK(live_frame({}, {}, {0, 0}).lines.empty());
}

TEST_CASE("a line is cut at its last column, also between pieces") {
  FrameLine line;
  line.add("abc", {.is_bold = true}).add("def");
  line.cut(6);
  CHECK(line.text() == "abcdef");
  line.cut(3);
  CHECK(line.text() == "ab…");
  CHECK(line.width() == 3);
  FrameLine wide;
  wide.add("模型").add("x");
  wide.cut(4);
  CHECK(wide.text() == "模…");
  wide.reverse(6);
  CHECK(wide.text() == "模…   ");
}

}  // namespace trainer
