#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/terminal.h"
#include "cli/terminal/usage_error.h"
#include "engine/device/thread_limit.h"
#include "engine/errors.h"
#include "engine/report/memory/process_report.h"
#include "engine/report/text/shell_words.h"
#include "engine/report/text/style.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

constexpr const char* introduction =
    R"(trainer trains neural networks described in YAML, and says where the memory goes.)";

std::string more_help() {
  return examples({"init cnn", "run configs/quickstart.yaml", "plan configs/quickstart.yaml",
                   "run configs/quickstart.yaml train.batch_size=32 output=runs/batch32"}) +
         "\n\n'" + trainer_command("run --help") + R"(' tells more, and so does every command.

Exit codes: 0 done, 1 unexpected failure, or a check of compare that fails,
2 usage or configuration, 3 out of memory, 4 planned and does not fit,
5 diverged, 6 data or file, 7 device not available,
75 interrupted, resumable)";
}

void print_error(const std::string& message) {
  write_text(stderr, fmt::format("{} {}\n", paint(style_for(stderr), Ink::red, "error:"), message));
}

/// Diagnostics say "error" themselves, after the file's name.
void print_config_error(const ConfigError& error) {
  if (error.diagnostics().empty()) return print_error(error.what());
  write_text(stderr, std::string(error.what()) + '\n');
}

/// Else the next files would take the numbers of standard streams that are closed, and what is printed would go there.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF) open("/dev/null", O_RDWR);  // takes the lowest number
}

bool can_start_thread() {
  try {
    std::thread([] {}).join();
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

/// OpenMP ends the process where one of its threads cannot start that could when the device was made, and says so. Who
/// started trainer hears it in trainer's words and by its exit code. What else a library ends it for it says itself.
std::atomic<bool> ends_by_itself{false};
void end_without_threads() {
  if (ends_by_itself || can_start_thread()) return;
  const DeviceError error = thread_limit_error(num_running_threads(), num_running_threads() + 1);
  print_error(error.what());
  std::fflush(stdout);
  _exit(static_cast<int>(error.exit_code()));
}

ExitCode run_command_line(int argc, const char* const* argv) {
  CLI::App app{introduction, trainer_command()};
  app.set_version_flag("--version", std::string("trainer ") + TRAINER_VERSION, "Print the version");
  app.formatter(make_help_formatter());
  app.set_help_flag("-h,--help", "Print this");
  app.footer(more_help());
  app.require_subcommand(1);

  Action action;
  add_run_command(app, action);
  add_plan_command(app, action);
  add_fit_command(app, action);
  add_lr_find_command(app, action);
  add_bench_command(app, action);
  add_sweep_command(app, action);
  add_report_command(app, action);
  add_top_command(app, action);
  add_compare_command(app, action);
  add_plot_command(app, action);
  add_summary_command(app, action);
  add_data_command(app, action);
  add_check_command(app, action);
  add_config_command(app, action);
  add_init_command(app, action);
  add_eval_command(app, action);
  add_generate_command(app, action);
  add_export_command(app, action);
  add_export_trace_command(app, action);
  add_predict_command(app, action);
  add_tokenizer_command(app, action);
  add_doctor_command(app, action);
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) command->group("Commands");

  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "help") {  // "help run" is "run --help"
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  if (words.empty()) {
    write_text(stdout, app.help());
    return ExitCode::done;
  }
  if (const std::string message = unknown_command_message(app, words); !message.empty()) {
    print_error(message);
    return ExitCode::config;
  }
  if (const std::string message = empty_value_message(words); !message.empty()) {
    print_error(message);
    return ExitCode::config;
  }
  try {
    // CLI11 takes the words last first.
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    // Help and version are parse "errors" with code 0, which CLI11 prints.
    if (error.get_exit_code() == 0) {
      app.exit(error);
      return ExitCode::done;
    }
    print_error(usage_message(app, error, words));
    return ExitCode::config;
  }
  const ExitCode code = action();
  // Who closed a pipe has read enough; a full disk has lost something.
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  // A terminal that went has interrupted a run, whose code says so.
  if (failed && !is_pipe(stdout) && code != ExitCode::interrupted)
    throw DataError("cannot write to the standard output");
  return code;
}

}  // namespace
}  // namespace trainer

/// The only place that catches what nothing else could handle.
int main(int argc, char** argv) {
  using trainer::ExitCode;
  // One heap for all threads, which allocate little: each of its own takes 64 MiB of addresses, which a limit may not
  // leave, and libraries do not survive it where there is no memory for what they compile in a thread.
  mallopt(M_ARENA_MAX, 1);
  trainer::open_standard_streams();
  std::atexit(trainer::end_without_threads);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of the write
  ExitCode code = ExitCode::unexpected;
  try {
    if (argc > 0 && *argv[0] != '\0') trainer::set_called_as(trainer::shell_words({argv[0]}));
    code = trainer::run_command_line(argc, argv);
  } catch (const trainer::ConfigError& error) {
    trainer::print_config_error(error);
    code = error.exit_code();
  } catch (const trainer::HostOutOfMemory& error) {
    trainer::print_error(trainer::host_out_of_memory_message(error));
    code = error.exit_code();
  } catch (const trainer::Error& error) {
    trainer::print_error(error.what());
    trainer::write_text(stderr, error.advice());
    code = error.exit_code();
  } catch (const std::length_error&) {
    trainer::print_error(trainer::host_out_of_memory_message({"trainer itself", 0, /*depends_on_batches=*/false}));
    code = ExitCode::out_of_memory;
  } catch (const std::bad_alloc&) {
    trainer::print_error(trainer::host_out_of_memory_message({"trainer itself", 0, /*depends_on_batches=*/false}));
    code = ExitCode::out_of_memory;
  } catch (const std::system_error& error) {
    trainer::print_error(error.what());  // a full disk behind stdout, for one
    code = ExitCode::data;
  } catch (const std::exception& error) {
    trainer::print_error(fmt::format("unexpected failure: {}", error.what()));
  }
  trainer::ends_by_itself = true;
  return static_cast<int>(code);
}
