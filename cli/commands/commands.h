#pragma once

#include <functional>

#include "engine/errors.h"

namespace CLI {
class App;
}

namespace trainer {

/// What the parsed command line asks for; set by the command that was named, called once parsing has succeeded.
using Action = std::function<ExitCode()>;

/// One for each command: describes it and its flags to `app`, and sets `action` when it is named. `action` and what it
/// captures must outlive the parsing.
void add_run_command(CLI::App& app, Action& action);
void add_plan_command(CLI::App& app, Action& action);
void add_fit_command(CLI::App& app, Action& action);
void add_lr_find_command(CLI::App& app, Action& action);
void add_bench_command(CLI::App& app, Action& action);
void add_sweep_command(CLI::App& app, Action& action);
void add_report_command(CLI::App& app, Action& action);
void add_top_command(CLI::App& app, Action& action);
void add_compare_command(CLI::App& app, Action& action);
void add_plot_command(CLI::App& app, Action& action);
void add_summary_command(CLI::App& app, Action& action);
void add_data_command(CLI::App& app, Action& action);
void add_check_command(CLI::App& app, Action& action);
void add_config_command(CLI::App& app, Action& action);
void add_init_command(CLI::App& app, Action& action);
void add_eval_command(CLI::App& app, Action& action);
void add_generate_command(CLI::App& app, Action& action);
void add_export_command(CLI::App& app, Action& action);
void add_export_trace_command(CLI::App& app, Action& action);
void add_predict_command(CLI::App& app, Action& action);
void add_tokenizer_command(CLI::App& app, Action& action);
void add_doctor_command(CLI::App& app, Action& action);

}  // namespace trainer
