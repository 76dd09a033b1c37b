#pragma once

#include <cstdint>
#include <span>

namespace trainer {

/// Bytes for another rank.
struct SentBytes {
  int to = 0;
  const void* bytes = nullptr;
  std::int64_t num_bytes = 0;
};

/// Bytes from another rank.
struct ReceivedBytes {
  int from = 0;
  void* bytes = nullptr;
  std::int64_t num_bytes = 0;
};

/// How processes that train together, ranks 0 … size − 1, reach one another. What runs over it is the same on all of
/// them and in the same order, so nothing tells one exchange from the next.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Sends and receives all of it; of two ranks, what one sends to the other comes in the order in which it stands
  /// here, in pieces of any size, and is what the other receives in its exchange, no less and no more. The memory of
  /// both is the caller's. Throws RankError where a rank has ended or does not answer.
  virtual void exchange(std::span<const SentBytes> sends, std::span<const ReceivedBytes> receives) = 0;

  /// What exchange() does by itself, for what carries bytes in another way: throws RankError where a rank has ended or
  /// does not answer.
  virtual void check() const = 0;
  /// A file that poll() finds readable once check() throws.
  virtual int failure_descriptor() const = 0;

 protected:
  Communicator() = default;
};

}  // namespace trainer
