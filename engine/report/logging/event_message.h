#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/files/protobuf_message.h"
#include "engine/report/logging/live_scalars.h"

namespace trainer {

// The messages of TensorBoard's event files (tensorboard/compat/proto/event.proto, summary.proto, and those of its
// plugins), in seconds since 1970. Texts may hold anything: what is not UTF-8, which readers refuse, is written out.

/// The first of a file.
std::string version_event(double wall_time);
/// A process begins: what former files have of this step and later ones does not count.
std::string session_start_event(double wall_time, std::int64_t first_step);
/// All of them at a step, as 32-bit numbers, in `event`, whose memory is kept.
void write_scalars_event(double wall_time, std::int64_t step, std::span<const LiveScalar> scalars,
                         ProtobufMessage& event);
/// `histogram`: WeightHistogram::message().
std::string histogram_event(double wall_time, std::int64_t step, std::string_view tag, std::string_view histogram);
/// Markdown, shown by the text plugin.
std::string text_event(double wall_time, std::int64_t step, std::string_view tag, std::string_view markdown);

/// A hyperparameter, as the HPARAMS tab shows it: a number, true or false, or a text.
struct Hyperparameter {
  enum class Kind : std::uint8_t { number, boolean, text };
  std::string name;
  Kind kind = Kind::text;
  double number = 0;  ///< of a boolean 0 or 1
  std::string text{};
};
std::string hyperparameters_event(double wall_time, std::span<const Hyperparameter> all);
/// Of one that has succeeded.
std::string session_end_event(double wall_time, std::int64_t step);

/// `data` as a record of an event file, behind what `records` holds: u64 length, masked CRC-32C of that, the data,
/// masked CRC-32C of it (TFRecord).
void append_event_record(std::string_view data, std::string& records);

}  // namespace trainer
