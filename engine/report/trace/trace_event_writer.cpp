#include "engine/report/trace/trace_event_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/config/text/json_output.h"

namespace trainer {

std::string json_quoted(std::string_view text) { return json_text(nlohmann::ordered_json(text)); }

void TraceArguments::key(std::string_view name) {
  if (!members_.empty()) members_ += ',';
  members_ += json_quoted(name);
  members_ += ':';
}

TraceArguments& TraceArguments::text(std::string_view name, std::string_view value) {
  key(name);
  members_ += json_quoted(value);
  return *this;
}

TraceArguments& TraceArguments::number(std::string_view name, std::int64_t value) {
  key(name);
  fmt::format_to(std::back_inserter(members_), "{}", value);
  return *this;
}

TraceArguments& TraceArguments::real(std::string_view name, double value) {
  if (!std::isfinite(value)) return *this;
  key(name);
  fmt::format_to(std::back_inserter(members_), "{}", value);
  return *this;
}

TraceEventWriter::TraceEventWriter(ByteSink sink) : sink_(std::move(sink)) {
  sink_("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
}

void TraceEventWriter::begin_event(char phase, int group, std::string_view name) {
  event_.assign(is_first_ ? "\n" : ",\n");
  is_first_ = false;
  fmt::format_to(std::back_inserter(event_), "{{\"ph\":\"{}\",\"pid\":{},\"name\":{}", phase, group, json_quoted(name));
}

void TraceEventWriter::add_time(std::string_view key, std::int64_t nanoseconds) {
  constexpr std::int64_t of_a_microsecond = 1000;
  fmt::format_to(std::back_inserter(event_), ",\"{}\":{}.{:03}", key, nanoseconds / of_a_microsecond,
                 nanoseconds % of_a_microsecond);
}

void TraceEventWriter::add_arguments(const TraceArguments& arguments) {
  if (arguments.empty()) return;
  event_ += ",\"args\":{";
  event_ += arguments.members();
  event_ += '}';
}

void TraceEventWriter::end_event() {
  event_ += '}';
  sink_(event_);
}

void TraceEventWriter::name_group(int group, std::string_view name) {
  begin_event('M', group, "process_name");
  add_arguments(TraceArguments().text("name", name));
  end_event();
  begin_event('M', group, "process_sort_index");
  add_arguments(TraceArguments().number("sort_index", group));
  end_event();
}

void TraceEventWriter::name_row(Track track, std::string_view name) {
  const auto add_row = [&] { fmt::format_to(std::back_inserter(event_), ",\"tid\":{}", track.row); };
  begin_event('M', track.group, "thread_name");
  add_row();
  add_arguments(TraceArguments().text("name", name));
  end_event();
  begin_event('M', track.group, "thread_sort_index");
  add_row();
  add_arguments(TraceArguments().number("sort_index", track.row));
  end_event();
}

void TraceEventWriter::slice(Track track, std::string_view name, std::int64_t begin, std::int64_t end,
                             const TraceArguments& arguments) {
  begin_event('X', track.group, name);
  fmt::format_to(std::back_inserter(event_), ",\"tid\":{}", track.row);
  add_time("ts", begin);
  add_time("dur", end - begin);
  add_arguments(arguments);
  end_event();
}

void TraceEventWriter::instant(Track track, std::string_view name, std::int64_t time, const TraceArguments& arguments) {
  begin_event('i', track.group, name);
  fmt::format_to(std::back_inserter(event_), ",\"tid\":{},\"s\":\"t\"", track.row);
  add_time("ts", time);
  add_arguments(arguments);
  end_event();
}

void TraceEventWriter::counter(int group, std::string_view name, std::int64_t time, const TraceArguments& values) {
  if (values.empty()) return;
  begin_event('C', group, name);
  add_time("ts", time);
  add_arguments(values);
  end_event();
}

void TraceEventWriter::begin_span(int group, std::string_view id, std::string_view name, std::int64_t time,
                                  const TraceArguments& arguments) {
  begin_event('b', group, name);
  fmt::format_to(std::back_inserter(event_), ",\"tid\":0,\"cat\":\"buffer\",\"id2\":{{\"local\":{}}}", json_quoted(id));
  add_time("ts", time);
  add_arguments(arguments);
  end_event();
}

void TraceEventWriter::end_span(int group, std::string_view id, std::string_view name, std::int64_t time) {
  begin_event('e', group, name);
  fmt::format_to(std::back_inserter(event_), ",\"tid\":0,\"cat\":\"buffer\",\"id2\":{{\"local\":{}}}", json_quoted(id));
  add_time("ts", time);
  end_event();
}

void TraceEventWriter::finish(const TraceArguments& about) {
  sink_("\n],\"otherData\":{");
  sink_(about.members());
  sink_("}}\n");
}

}  // namespace trainer
