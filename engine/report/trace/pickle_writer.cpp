#include "engine/report/trace/pickle_writer.h"

#include <bit>
#include <limits>
#include <utility>

#include "engine/config/text/utf8_text.h"
#include "engine/errors.h"

namespace trainer {
namespace {

/// As Python's pickler does; the page hands a piece over as arguments of one call.
constexpr int most_pending_items = 1000;

constexpr char pickle_mark = '(', pickle_appends = 'e', pickle_set_items = 'u';

}  // namespace

PickleWriter::PickleWriter(ByteSink sink) : sink_(std::move(sink)) { put(std::string_view("\x80\x02", 2)); }

void PickleWriter::put_number(char opcode, std::uint64_t value, std::size_t num_bytes) {
  std::string bytes(1, opcode);
  for (std::size_t i = 0; i < num_bytes; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  put(bytes);
}

PickleWriter::Shared PickleWriter::remember() {
  const Shared value = num_shared_++;
  if (value <= 0xFF)
    put_number('q', value, 1);
  else
    put_number('r', value, 4);
  return value;
}

void PickleWriter::recall(Shared value) {
  if (value <= 0xFF)
    put_number('h', value, 1);
  else
    put_number('j', value, 4);
}

void PickleWriter::before_item() {
  if (containers_.empty()) return;
  Container& container = containers_.back();
  if (container.is_list && container.num_pending++ == 0) put({&pickle_mark, 1});
}

void PickleWriter::after_value() {
  if (containers_.empty()) return;
  Container& container = containers_.back();
  if (!container.is_list || container.num_pending < most_pending_items) return;
  put({&pickle_appends, 1});
  container.num_pending = 0;
}

void PickleWriter::begin(bool is_list) {
  before_item();
  put(is_list ? "]" : "}");
  containers_.push_back({.is_list = is_list});
}

void PickleWriter::begin_dict() { begin(/*is_list=*/false); }
void PickleWriter::begin_list() { begin(/*is_list=*/true); }

PickleWriter::Shared PickleWriter::begin_shared_list() {
  begin(/*is_list=*/true);
  return remember();
}

PickleWriter::Shared PickleWriter::begin_shared_dict() {
  begin(/*is_list=*/false);
  return remember();
}

void PickleWriter::key(std::string_view name) {
  Container& container = containers_.back();
  if (container.num_pending++ == 0) put({&pickle_mark, 1});
  text(name);
}

void PickleWriter::end_dict() {
  if (containers_.back().num_pending > 0) put({&pickle_set_items, 1});
  containers_.pop_back();
  after_value();
}

void PickleWriter::end_list() {
  if (containers_.back().num_pending > 0) put({&pickle_appends, 1});
  containers_.pop_back();
  after_value();
}

void PickleWriter::share(Shared value) {
  before_item();
  recall(value);
  after_value();
}

void PickleWriter::put_integer(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  if (value >= 0 && value <= 0xFF) {
    put_number('K', bits, 1);
  } else if (value >= 0 && value <= 0xFFFF) {
    put_number('M', bits, 2);
  } else if (value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max()) {
    put_number('J', bits, 4);
  } else {
    put(std::string_view("\x8A", 1));
    put_number(8, bits, 8);
  }
}

void PickleWriter::number(std::int64_t value) {
  before_item();
  put_integer(value);
  after_value();
}

void PickleWriter::real(double value) {
  before_item();
  const auto bits = std::bit_cast<std::uint64_t>(value);
  std::string bytes = "G";
  for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(bits >> shift));
  put(bytes);
  after_value();
}

void PickleWriter::flag(bool value) {
  before_item();
  put(std::string_view(value ? "\x88" : "\x89", 1));
  after_value();
}

void PickleWriter::pair(std::int64_t first, std::int64_t second) {
  before_item();
  put_integer(first);
  put_integer(second);
  put(std::string_view("\x86", 1));
  after_value();
}

void PickleWriter::text(std::string_view value) {
  before_item();
  const auto found = texts_.find(std::string(value));
  if (found != texts_.end()) {
    recall(found->second);
  } else {
    const std::string shown = escaped(value);
    put_number('X', shown.size(), 4);
    put(shown);
    texts_.emplace(value, remember());
  }
  after_value();
}

void PickleWriter::finish() {
  require_internal(containers_.empty(), "every dict and list of a pickle has ended");
  put(".");
}

}  // namespace trainer
