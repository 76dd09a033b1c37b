#include "engine/report/logging/event_message.h"

#include "engine/config/text/utf8_text.h"
#include "engine/report/logging/crc32c.h"

namespace trainer {
namespace {

// Fields by their numbers in event.proto, summary.proto, tensor.proto and the plugins' plugin_data.proto.
constexpr int event_wall_time = 1, event_step = 2, event_file_version = 3, event_summary = 5, event_session_log = 7;
constexpr int summary_value = 1;
constexpr int value_tag = 1, value_simple = 2, value_histogram = 5, value_tensor = 8, value_metadata = 9;
constexpr int metadata_plugin = 1, plugin_name = 1, plugin_content = 2;
constexpr int tensor_dtype = 1, tensor_shape = 2, tensor_strings = 8, shape_dimension = 2, dimension_size = 1;
constexpr int dtype_float = 1, dtype_string = 7;
constexpr int session_log_status = 1, session_log_start = 1;
constexpr int hparams_start = 3, hparams_end = 4;
constexpr int session_hparams = 1, session_start_time = 5, session_status = 1, session_end_time = 2;
constexpr int session_success = 1;
constexpr int map_key = 1, map_value = 2, any_number = 2, any_string = 3, any_bool = 4;

ProtobufMessage event_at(double wall_time, std::int64_t step) {
  ProtobufMessage event;
  event.add_double(event_wall_time, wall_time);
  if (step != 0) event.add_integer(event_step, step);
  return event;
}

std::string event_of_value(double wall_time, std::int64_t step, const ProtobufMessage& value) {
  ProtobufMessage summary, event = event_at(wall_time, step);
  summary.add_bytes(summary_value, value.bytes());
  event.add_bytes(event_summary, summary.bytes());
  return event.bytes();
}

void add_plugin(std::string_view name, std::string_view content, ProtobufMessage& value) {
  ProtobufMessage plugin, metadata;
  plugin.add_bytes(plugin_name, name);
  if (!content.empty()) plugin.add_bytes(plugin_content, content);
  metadata.add_bytes(metadata_plugin, plugin.bytes());
  value.add_bytes(value_metadata, metadata.bytes());
}

/// Of one axis.
ProtobufMessage tensor_of(int dtype, std::int64_t size) {
  ProtobufMessage dimension, shape, tensor;
  if (size != 0) dimension.add_integer(dimension_size, size);
  shape.add_bytes(shape_dimension, dimension.bytes());
  tensor.add_integer(tensor_dtype, dtype);
  tensor.add_bytes(tensor_shape, shape.bytes());
  return tensor;
}

/// What the hparams plugin reads is the content of the metadata, beside a tensor without numbers.
std::string hparams_event(double wall_time, std::int64_t step, std::string_view tag, int kind,
                          const ProtobufMessage& info) {
  ProtobufMessage data, value;
  data.add_bytes(kind, info.bytes());
  value.add_bytes(value_tag, tag);
  value.add_bytes(value_tensor, tensor_of(dtype_float, 0).bytes());
  add_plugin("hparams", data.bytes(), value);
  return event_of_value(wall_time, step, value);
}

}  // namespace

std::string version_event(double wall_time) {
  ProtobufMessage event = event_at(wall_time, 0);
  event.add_bytes(event_file_version, "brain.Event:2");
  return event.bytes();
}

std::string session_start_event(double wall_time, std::int64_t first_step) {
  ProtobufMessage log, event = event_at(wall_time, first_step);
  log.add_integer(session_log_status, session_log_start);
  event.add_bytes(event_session_log, log.bytes());
  return event.bytes();
}

void write_scalars_event(double wall_time, std::int64_t step, std::span<const LiveScalar> scalars,
                         ProtobufMessage& event) {
  // Each is a tag and four bytes, whose sizes are known, so that nothing is nested in memory of its own. A length of
  // less than 128 takes one byte, as all but hostile tags have.
  const auto size_of_varint = [](std::size_t value) {
    std::size_t bytes = 1;
    for (; value >= 0x80; value >>= 7U) ++bytes;
    return bytes;
  };
  const auto size_of_value = [&](const LiveScalar& scalar) {
    return 1 + size_of_varint(scalar.tag.size()) + scalar.tag.size() + 1 + sizeof(float);
  };
  std::size_t summary_bytes = 0;
  for (const LiveScalar& scalar : scalars) {
    const std::size_t bytes = size_of_value(scalar);
    summary_bytes += 1 + size_of_varint(bytes) + bytes;
  }
  event.clear();
  event.add_double(event_wall_time, wall_time);
  event.add_integer(event_step, step);
  event.begin_bytes(event_summary, static_cast<std::int64_t>(summary_bytes));
  for (const LiveScalar& scalar : scalars) {
    event.begin_bytes(summary_value, static_cast<std::int64_t>(size_of_value(scalar)));
    event.add_bytes(value_tag, scalar.tag);
    event.add_float(value_simple, static_cast<float>(scalar.value));
  }
}

std::string histogram_event(double wall_time, std::int64_t step, std::string_view tag, std::string_view histogram) {
  ProtobufMessage value;
  value.add_bytes(value_tag, escaped(tag));
  value.add_bytes(value_histogram, histogram);
  return event_of_value(wall_time, step, value);
}

std::string text_event(double wall_time, std::int64_t step, std::string_view tag, std::string_view markdown) {
  ProtobufMessage value, tensor = tensor_of(dtype_string, 1);
  tensor.add_bytes(tensor_strings, escaped(markdown));
  value.add_bytes(value_tag, tag);
  value.add_bytes(value_tensor, tensor.bytes());
  add_plugin("text", "", value);
  return event_of_value(wall_time, step, value);
}

std::string hyperparameters_event(double wall_time, std::span<const Hyperparameter> all) {
  ProtobufMessage info;
  for (const Hyperparameter& each : all) {
    ProtobufMessage any, entry;
    switch (each.kind) {
      case Hyperparameter::Kind::number:
        any.add_double(any_number, each.number);
        break;
      case Hyperparameter::Kind::boolean:
        any.add_integer(any_bool, each.number != 0 ? 1 : 0);
        break;
      case Hyperparameter::Kind::text:
        any.add_bytes(any_string, escaped(each.text));
        break;
    }
    entry.add_bytes(map_key, escaped(each.name));
    entry.add_bytes(map_value, any.bytes());
    info.add_bytes(session_hparams, entry.bytes());
  }
  info.add_double(session_start_time, wall_time);
  return hparams_event(wall_time, 0, "_hparams_/session_start_info", hparams_start, info);
}

std::string session_end_event(double wall_time, std::int64_t step) {
  ProtobufMessage info;
  info.add_integer(session_status, session_success);
  info.add_double(session_end_time, wall_time);
  return hparams_event(wall_time, step, "_hparams_/session_end_info", hparams_end, info);
}

void append_event_record(std::string_view data, std::string& records) {
  const auto add = [&](auto bits) {
    for (std::size_t i = 0; i < sizeof(bits); ++i, bits >>= 8U) records += static_cast<char>(bits & 0xffU);
  };
  const std::size_t begin = records.size();
  add(static_cast<std::uint64_t>(data.size()));
  add(masked_crc32c(std::string_view(records).substr(begin, sizeof(std::uint64_t))));
  records += data;
  add(masked_crc32c(data));
}

}  // namespace trainer
