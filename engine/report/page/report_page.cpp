#include "engine/report/page/report_page.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "engine/config/text/json_output.h"
#include "engine/embedded_files.h"
#include "engine/files/gzip.h"
#include "engine/report/page/base64.h"
#include "engine/report/page/page_comparison.h"
#include "engine/report/page/page_plan.h"
#include "engine/report/page/page_run.h"
#include "engine/report/page/sha256.h"

namespace trainer {
namespace {

/// Each needs those before it.
constexpr std::array script_order = {"texts",  "elements", "columns",    "palette",      "memory_data", "map_view",
                                     "raster", "stack",    "memory_map", "map_controls", "live_table",  "tables",
                                     "curves", "sections", "compared",   "page"};

/// Without the line that names a file with its sources, which browsers would look for.
std::string without_source_map(std::string_view text) {
  const std::size_t mark = text.rfind("sourceMappingURL=");
  if (mark == std::string_view::npos) return std::string(text);
  return std::string(text.substr(0, text.rfind('\n', mark) + 1));
}

std::string page_script() {
  std::string script = "(() => {\n\"use strict\";\n";
  for (const char* const name : script_order) script += text_of(page_script_files(), name);
  return script + "})();\n";
}

std::string hash_source(std::string_view text) { return fmt::format("'sha256-{}'", base64_of(sha256_of(text))); }

/// As it may stand in a script element.
std::string script_json(const Json& json) {
  const std::string text = json_text(json);
  std::string safe;
  safe.reserve(text.size());
  for (const char letter : text) {
    if (letter == '<')
      safe += "\\u003c";
    else
      safe += letter;
  }
  return safe;
}

std::string input_label(const ReportedInput& input) {
  std::string label = input.path;
  for (const std::string& word : input.overrides) label += ' ' + word;
  return label;
}

}  // namespace

void ReportPage::add(ReportedInput input) {
  Json json = {{"label", input_label(input)},
               {"path", input.path},
               {"overrides", input.overrides},
               {"kind", input.run ? "run" : "plan"},
               {"name", input.run ? input.run->name : input.config.value("name", "")},
               {"rank", input.rank},
               {"num_ranks", input.num_ranks},
               {"config", input.config_text},
               {"no_plan", input.no_plan},
               {"run", input.run ? page_run(*input.run, input.plans, columns_) : Json(nullptr)},
               {"plans", Json::array()}};
  has_curves_ = has_curves_ || input.run;
  for (TracedPlan& traced : input.plans) {
    json["plans"].push_back(plans_.size());
    plans_.push_back(page_plan(std::move(traced), columns_));
    plans_.back()["input"] = inputs_.size();
  }
  configs_.push_back(std::move(input.config));
  inputs_.push_back(std::move(json));
}

bool ReportPage::fits() const {
  for (const Json& plan : plans_)
    if (!plan.at("event").at("fits").get<bool>()) return false;
  return true;
}

Json ReportPage::comparison() const {
  Json growths = Json::array();
  for (std::size_t i = 1; i < plans_.size(); ++i)
    growths.push_back(plan_growth(plans_.front().at("event"), plans_[i].at("event")));
  return {{"growth", std::move(growths)}, {"config", inputs_.size() > 1 ? config_rows(configs_) : Json::array()}};
}

std::string ReportPage::html() const {
  const Json data = {{"version", version_}, {"inputs", inputs_}, {"plans", plans_}, {"comparison", comparison()}};
  std::string style(text_of(page_style_files(), "page"));
  std::string library;
  if (has_curves_) {
    style += without_source_map(text_of(dygraph_style_files(), "dygraph"));
    library = without_source_map(text_of(dygraph_script_files(), "dygraph"));
  }
  const std::string script = page_script();
  const std::string policy =
      fmt::format("default-src 'none'; script-src {} {}; style-src {}; base-uri 'none'; form-action 'none'",
                  hash_source(library), hash_source(script), hash_source(style));
  const std::array<std::pair<std::string_view, std::string>, 6> parts = {
      {{"policy", policy},
       {"style", style},
       {"data", script_json(data)},
       {"columns", base64_of(gzip_of(columns_.bytes()))},
       {"library", library},
       {"script", script}}};
  // Marks are looked for in the template alone, not in what was put in place of one.
  std::string_view rest = text_of(page_template_files(), "page");
  std::string html;
  for (const auto& [name, part] : parts) {
    const std::string mark = fmt::format("{{{{{}}}}}", name);
    const std::size_t at = rest.find(mark);
    require_internal(at != std::string_view::npos, "the page's template has each mark, in order");
    html += rest.substr(0, at);
    html += part;
    rest.remove_prefix(at + mark.size());
  }
  html += rest;
  return html;
}

}  // namespace trainer
