#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/report/trace/byte_sink.h"

namespace trainer {

/// A text as JSON has it, quotes included.
std::string json_quoted(std::string_view text);

/// What an event tells beside its place: the members of a JSON object, in the order in which they are added.
class TraceArguments {
 public:
  TraceArguments& text(std::string_view name, std::string_view value);
  TraceArguments& number(std::string_view name, std::int64_t value);
  /// Left out where it is not finite, which JSON does not know.
  TraceArguments& real(std::string_view name, double value);

  bool empty() const { return members_.empty(); }
  const std::string& members() const { return members_; }

 private:
  void key(std::string_view name);

  std::string members_;
};

/// Writes Chrome's trace event format
/// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU), which ui.perfetto.dev and
/// chrome://tracing open, event by event. Times are nanoseconds, and stand as microseconds with three decimals. Events
/// may come in any order of time; of slices that begin together the outer one first, and what one track of spans is
/// told in the order of its beginnings and ends.
class TraceEventWriter {
 public:
  /// Where a slice or instant is shown: a row of a group.
  struct Track {
    int group = 0, row = 0;  ///< the format's process and thread
  };

  explicit TraceEventWriter(ByteSink sink);

  /// Groups and rows are sorted by their numbers.
  void name_group(int group, std::string_view name);
  void name_row(Track track, std::string_view name);
  void slice(Track track, std::string_view name, std::int64_t begin, std::int64_t end,
             const TraceArguments& arguments = {});
  void instant(Track track, std::string_view name, std::int64_t time, const TraceArguments& arguments = {});
  /// Each member of `values` is a series of the counter.
  void counter(int group, std::string_view name, std::int64_t time, const TraceArguments& values);
  /// Spans of one `id` of a group nest; the first of them names their row.
  void begin_span(int group, std::string_view id, std::string_view name, std::int64_t time,
                  const TraceArguments& arguments = {});
  void end_span(int group, std::string_view id, std::string_view name, std::int64_t time);
  /// The end; what is told of the whole.
  void finish(const TraceArguments& about);

 private:
  void begin_event(char phase, int group, std::string_view name);
  void add_time(std::string_view key, std::int64_t nanoseconds);
  void add_arguments(const TraceArguments& arguments);
  void end_event();

  ByteSink sink_;
  std::string event_;
  bool is_first_ = true;
};

}  // namespace trainer
