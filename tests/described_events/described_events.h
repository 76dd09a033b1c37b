#pragma once

#include <string>
#include <string_view>

#include "engine/train/events.h"

namespace trainer {

// Note [Described events]
// ~~~~~~~~~~~~~~~~~~~~~~~
// Whatever tests see of the machine interface is held against configs/events.schema.json: what sinks take in whole runs
// (DescribedSink), and what trainer prints and leaves in files (tests/cli/process.h). The keywords that the schema uses
// are read by code of the tests' own, any other is an error; tests/scripts/events_schema_test.py asks Python's
// jsonschema about runs of each kind, and that each field that is described occurs.

/// What of a line is not as the schema says, with its place; empty: it is one of the events. `line`: JSON.
std::string undescribed(std::string_view line);

/// The same of every whole line of a text or file that begins as an event does, with the line.
std::string undescribed_lines(std::string_view text);

/// Throws InternalError, which ends the run, where an event is not as the schema says; from any thread.
struct DescribedSink : EventSink {
  void take(const Event& event) override;
};

}  // namespace trainer
