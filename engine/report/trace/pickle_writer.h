#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/report/trace/byte_sink.h"

namespace trainer {

/// Writes plain values as a pickle of protocol 2 (PEP 307; opcodes as Python's pickletools describes them): dicts,
/// lists, pairs, integers, floats, booleans and texts, which a reader makes without importing anything. Nothing is held
/// but texts, each of which is written once, so that a trace of any length can be written. Uses those opcodes alone
/// that the unpickler of PyTorch's memory_viz page knows, and lists in the pieces that it takes.
///
/// Values are written in order: `number(1)` where a value stands; in a dict each behind its `key()`.
class PickleWriter {
 public:
  /// What has been written and can stand again in other places, as the same object.
  using Shared = std::uint32_t;

  explicit PickleWriter(ByteSink sink);

  void begin_dict();
  void end_dict();
  void key(std::string_view name);
  void begin_list();
  void end_list();
  /// A list, or dict, that can be shared from here on.
  Shared begin_shared_list();
  Shared begin_shared_dict();
  void share(Shared value);

  void number(std::int64_t value);
  void real(double value);
  void flag(bool value);
  void pair(std::int64_t first, std::int64_t second);
  /// UTF-8; what is none, and control characters, stand as escaped() writes them.
  void text(std::string_view value);
  /// The end, behind the one value that a pickle is.
  void finish();

 private:
  struct Container {
    bool is_list = false;
    int num_pending = 0;  ///< items since the last mark
  };
  void before_item();
  void after_value();
  void begin(bool is_list);
  void put(std::string_view bytes) { sink_(bytes); }
  void put_number(char opcode, std::uint64_t value, std::size_t num_bytes);
  void put_integer(std::int64_t value);
  Shared remember();
  void recall(Shared value);

  ByteSink sink_;
  std::vector<Container> containers_;
  std::unordered_map<std::string, Shared> texts_;
  Shared num_shared_ = 0;
};

}  // namespace trainer
