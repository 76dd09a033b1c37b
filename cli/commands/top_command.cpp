#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/terminal/curses_screen.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/terminal.h"
#include "cli/terminal/terminal_signals.h"
#include "cuda/device/nvml.h"
#include "engine/report/live/live_frame.h"
#include "engine/report/live/live_runs.h"
#include "engine/report/text/style.h"

namespace trainer {
namespace {

using Clock = std::chrono::steady_clock;

struct TopArguments {
  std::vector<std::string> runs;
  double every = 1;
  bool once = false;
};

std::vector<GpuUsage> gpus_now() {
  const cuda::NvmlCalls* const nvml = cuda::load_nvml();
  return nvml == nullptr ? std::vector<GpuUsage>{} : cuda::gpu_usages(*nvml);
}

/// COLUMNS and LINES of the environment, as shells set them; else those of a terminal of old.
ScreenSize size_of_print() {
  constexpr std::size_t most = 1000;
  ScreenSize size;
  const auto take = [&](const char* name, std::size_t& number) {
    const char* const text = std::getenv(name);
    if (const long value = text == nullptr ? 0 : std::strtol(text, nullptr, 10); value > 0)
      number = std::min(static_cast<std::size_t>(value), most);
  };
  if (is_terminal(stdout)) size.columns = static_cast<std::size_t>(terminal_width(stdout));
  take("COLUMNS", size.columns);
  take("LINES", size.rows);
  return size;
}

ExitCode print_once(LiveRuns& runs, LiveView view) {
  runs.search();
  runs.read(Clock::time_point::max());
  LiveScene scene = runs.scene();
  scene.gpus = gpus_now();
  write_text(stdout, live_frame(scene, view, size_of_print()).text());
  return ExitCode::done;
}

/// The runs on a screen, until its reader or a signal ends it.
class TopScreen {
 public:
  TopScreen(LiveRuns& runs, LiveView view, std::chrono::milliseconds every)
      : runs_(runs), view_(view), every_(every), screen_(style_for(stdout).color) {}

  /// The signal that ended it; 0: a key.
  int show(TerminalSignals& signals) {
    while (true) {
      if (const Clock::time_point now = Clock::now(); !is_read_ || now >= next_refresh_) refresh(now);
      draw();
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_refresh_ - Clock::now());
      const ScreenHappenings happened =
          signals.wait(is_read_ ? std::max(left, std::chrono::milliseconds(0)) : std::chrono::milliseconds(0));
      if (happened.to_end == SIGINT) return 0;
      if (happened.to_end != 0) return happened.to_end;
      if (happened.is_hung_up) return SIGHUP;
      if (happened.is_to_stop) {
        screen_.leave();
        signals.stop_here();
        screen_.take_over();
      } else if (happened.was_continued || happened.was_resized) {
        screen_.take_over();
      }
      if (happened.has_input && !take_keys()) return 0;
    }
  }

 private:
  void refresh(Clock::time_point now) {
    constexpr std::chrono::milliseconds work_at_once{50}, between_searches{2000};
    constexpr int slow_search_pauses = 9;  // so that searching takes at most a tenth of the time
    Clock::time_point begin = now;
    if (now >= next_search_) {
      runs_.search();
      begin = Clock::now();
      next_search_ = begin + std::max<Clock::duration>(between_searches, slow_search_pauses * (begin - now));
      index_of_chosen_.reset();  // places are those of the last scene
    }
    is_read_ = runs_.read(begin + work_at_once, index_of_chosen_.value_or(0));
    if (now >= next_refresh_) {
      gpus_ = gpus_now();
      next_refresh_ = now + every_;
    }
    scene_ = runs_.scene();
    scene_.gpus = gpus_;
    // A run stays the selected one wherever it stands in the list by now.
    const auto chosen =
        std::ranges::find_if(scene_.runs, [&](const SceneRun& run) { return run.run->folder() == chosen_; });
    if (chosen != scene_.runs.end()) view_.selected = static_cast<std::size_t>(chosen - scene_.runs.begin());
    select(view_.selected);
  }

  void select(std::size_t index) {
    view_.selected = scene_.runs.empty() ? 0 : std::min(index, scene_.runs.size() - 1);
    chosen_ = has_chosen_ && !scene_.runs.empty() ? scene_.runs[view_.selected].run->folder() : "";
    if (!has_chosen_) view_.selected = 0;
    index_of_chosen_ = view_.selected;
  }

  void draw() { screen_.draw(live_frame(scene_, view_, screen_.size())); }

  /// False where one of them ends it, and where nobody types any more.
  bool take_keys() {
    bool any = false;
    while (const std::optional<KeyPress> press = screen_.next_key()) {
      any = true;
      if (!take(*press)) return false;
    }
    // What can be read without holding anything is the end of all keys; now and then it was half a key.
    constexpr int most_empty = 20;
    num_empty_ = any ? 0 : num_empty_ + 1;
    return num_empty_ < most_empty;
  }

  void move_by(long steps) {
    has_chosen_ = true;
    const long last = static_cast<long>(scene_.runs.size()) - 1;
    select(static_cast<std::size_t>(std::clamp(static_cast<long>(view_.selected) + steps, 0L, std::max(last, 0L))));
  }

  bool take(const KeyPress& press) {
    constexpr long page = 10, all = 1L << 30;
    const bool was_help = view_.help;
    view_.help = false;
    switch (press.key) {
      case ScreenKey::up:
        move_by(-1);
        return true;
      case ScreenKey::down:
        move_by(1);
        return true;
      case ScreenKey::page_up:
        move_by(-page);
        return true;
      case ScreenKey::page_down:
        move_by(page);
        return true;
      case ScreenKey::home:
        move_by(-all);
        return true;
      case ScreenKey::end:
        move_by(all);
        return true;
      case ScreenKey::enter:
      case ScreenKey::tab:
        view_.detail = !view_.detail;
        return true;
      case ScreenKey::letter:
        break;
      case ScreenKey::other:
        return true;
    }
    switch (press.letter) {
      case 'q':
        return false;
      case 'k':
        move_by(-1);
        break;
      case 'j':
        move_by(1);
        break;
      case 'g':
        move_by(-all);
        break;
      case 'G':
        move_by(all);
        break;
      case 'l':
        view_.log_scale = !view_.log_scale;
        break;
      case 'm':
        view_.memory = !view_.memory;
        break;
      case '?':
      case 'h':
        view_.help = !was_help;
        break;
      default:
        break;
    }
    return true;
  }

  LiveRuns& runs_;
  LiveView view_;
  const std::chrono::milliseconds every_;
  CursesScreen screen_;
  LiveScene scene_;
  std::vector<GpuUsage> gpus_;
  bool is_read_ = false;
  Clock::time_point next_refresh_ = Clock::now(), next_search_ = next_refresh_;
  bool has_chosen_ = false;  ///< until then the first is selected, whichever that is
  std::string chosen_;       ///< its folder
  std::optional<std::size_t> index_of_chosen_;
  int num_empty_ = 0;
};

void require_screen() {
  const char* const what = !is_terminal(stdout) ? "stdout" : isatty(STDIN_FILENO) != 1 ? "stdin" : nullptr;
  if (what != nullptr)
    throw ConfigError(std::string(what) + " is no terminal; '--once' prints what would be shown, and ends");
}

CLI::Validator seconds_between_frames() {
  return CLI::Validator(
      [](std::string& text) {
        constexpr double least = 0.1, most = 3600;
        double seconds = 0;
        const bool is_number = CLI::detail::lexical_cast(text, seconds);
        return is_number && seconds >= least && seconds <= most
                   ? std::string()
                   : "'" + text + "' is no number of seconds from 0.1 to 3600";
      },
      "");
}

ExitCode watch(const TopArguments& arguments) {
  LiveRuns runs(arguments.runs);
  const LiveView view{.ascii = !locale_takes_utf8()};
  if (arguments.once) return print_once(runs, view);
  require_screen();
  int ended_by = 0;
  {
    TerminalSignals signals;
    TopScreen screen(runs, view, std::chrono::milliseconds(static_cast<long>(arguments.every * 1000)));
    ended_by = screen.show(signals);
  }
  // As one that knows nothing of signals ends by them, which who waits for it may want to know.
  if (ended_by != 0) {
    std::signal(ended_by, SIG_DFL);
    std::raise(ended_by);
  }
  return ExitCode::done;
}

}  // namespace

void add_top_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<TopArguments>();
  CLI::App* command = app.add_subcommand("top", "Show runs as they go on, on the whole terminal");
  command->add_option("RUN", arguments->runs, "Folders of runs, or folders below which runs are; else runs/")
      ->type_name("...");
  command->add_option("--every", arguments->every, "Look again after so many seconds, 1 if not given")
      ->type_name("SECONDS")
      ->check(seconds_between_frames());
  command->add_flag("--once", arguments->once, "Print it once, as text of COLUMNS x LINES, 80 x 24 if not set");
  command->footer(
      "Progress, losses and evaluations, memory by category against the capacity, GPUs\nand the process, out of the "
      "events that runs write; a run is neither asked nor\nslowed. q ends it, ? tells all keys. New runs below the "
      "folders appear by\nthemselves.\n\n" +
      examples({"top", "top runs/quickstart --every 0.5", "top runs --once"}));
  command->callback([arguments, &action] { action = [arguments] { return watch(*arguments); }; });
}

}  // namespace trainer
