#include "engine/report/data/tokenizer_report.h"
#include "engine/report/memory/memory_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/bytes.h"
#include "engine/config/text/json_output.h"

namespace trainer {
namespace {

std::string count_text(std::uint64_t count) { return format_count(static_cast<std::int64_t>(count)); }

/// 0 where nothing is divided by.
double ratio(std::uint64_t a, std::uint64_t b) {
  return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
}

std::string report_line(std::string_view name, const std::string& value) {
  return fmt::format("  {}  {}\n", pad_right(name, 10), value);
}

}  // namespace

std::string tokenizer_training_report(const TokenizerTrainingReport& report, const Style& style) {
  std::string text = report_line(
      "vocabulary", fmt::format("{} tokens: {} special, 256 bytes, {} merges", count_text(report.vocabulary_size),
                                count_text(report.num_special), count_text(report.num_merges)));
  text += report_line("learned", fmt::format("from {} in {}, {} pieces that differ, in {}",
                                             format_bytes(static_cast<std::int64_t>(report.num_bytes)),
                                             format_number_of(static_cast<std::int64_t>(report.num_files), "file"),
                                             count_text(report.num_pieces), format_duration(report.seconds)));
  if (report.vocabulary_size < report.asked_size)
    text += report_line("remark", fmt::format("no pair is left to be merged: {} fewer than asked for",
                                              format_number_of(report.asked_size - report.vocabulary_size, "token")));
  text += report_line("written", report.output);
  return wrap_lines(text, static_cast<std::size_t>(style.width));
}

std::string tokenizer_training_json(const TokenizerTrainingReport& report) {
  return json_text({{"event", "tokenizer"},
                    {"schema", event_schema_version},
                    {"vocabulary", report.vocabulary_size},
                    {"special", report.num_special},
                    {"merges", report.num_merges},
                    {"files", report.num_files},
                    {"bytes", report.num_bytes},
                    {"pieces", report.num_pieces},
                    {"seconds", report.seconds},
                    {"output", report.output}});
}

std::string encoding_report(const EncodingReport& report, const Style& style) {
  std::string text = report_line(
      "text", fmt::format("{}, {}", report.file, format_bytes(static_cast<std::int64_t>(report.num_bytes))));
  text += report_line(
      "tokens",
      fmt::format("{}{}, {:.4f} a byte, {:.2f} bytes each", count_text(report.num_tokens),
                  report.num_special > 0 ? fmt::format(", {} of them special", count_text(report.num_special)) : "",
                  ratio(report.num_tokens, report.num_bytes), ratio(report.num_bytes, report.num_tokens)));
  text += report_line("vocabulary", fmt::format("{} of {} tokens occur", count_text(report.num_distinct),
                                                count_text(report.vocabulary_size)));
  const double seconds = std::max(report.seconds, 1e-9);
  text += report_line("speed",
                      fmt::format("{:.1f} MB/s, on one core", 1e-6 * static_cast<double>(report.num_bytes) / seconds));
  if (!report.output.empty())
    text += report_line("written", fmt::format("{}: {}, {} bits each", report.output, report.format, report.bits));
  return wrap_lines(text, static_cast<std::size_t>(style.width));
}

std::string encoding_json(const EncodingReport& report) {
  nlohmann::ordered_json json = {{"event", "encoding"},
                                 {"schema", event_schema_version},
                                 {"tokenizer", report.tokenizer},
                                 {"file", report.file},
                                 {"vocabulary", report.vocabulary_size},
                                 {"bytes", report.num_bytes},
                                 {"tokens", report.num_tokens},
                                 {"special_tokens", report.num_special},
                                 {"distinct_tokens", report.num_distinct},
                                 {"tokens_per_byte", ratio(report.num_tokens, report.num_bytes)},
                                 {"seconds", report.seconds}};
  if (!report.output.empty()) {
    json["output"] = report.output;
    json["format"] = report.format;
    json["bits"] = report.bits;
  }
  return json_text(json);
}

}  // namespace trainer
