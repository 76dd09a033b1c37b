#include "engine/ops/send_receive.h"

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <string>

#include "engine/cpu/cpu_device.h"
#include "engine/device/group_communicator.h"
#include "engine/ops/finish_exchange.h"
#include "tests/ranks/rank_threads.h"
#include "tests/refusal.h"

using namespace trainer;

namespace {

/// Any bits, of NaNs too: each way and each message its own.
std::vector<std::byte> bytes_sent(int from, int to, std::int32_t message, std::int64_t num_bytes) {
  std::mt19937 random(static_cast<unsigned>(from * 1000 + to * 100 + message));
  std::vector<std::byte> bytes(static_cast<std::size_t>(num_bytes));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// A device of a rank, and what goes between it and others.
class PeerRank {
 public:
  explicit PeerRank(SocketCommunicator& ranks, bool starts)
      : rank_(ranks.rank()), starts_(starts), device_(make_cpu_device(1)) {
    device_->set_communicator(ranks);
  }
  ~PeerRank() { device_->settle_exchanges(); }  // before what they carry goes
  PeerRank(const PeerRank&) = delete;
  PeerRank& operator=(const PeerRank&) = delete;

  /// Takes part in a message from one rank to another, unless it is of others.
  void exchange(int from, int to, std::int32_t message, const TensorType& type) {
    if (rank_ != from && rank_ != to) return;
    const bool sends = rank_ == from;
    const PeerAttributes attributes = peer_attributes(rank_, sends ? to : from, message, false);
    Op op = sends ? send_op(type, attributes) : receive_op(type, attributes);
    if (starts_) op = started(op);
    Carried& carried = carried_.emplace_back(Carried{type, from, to, message, {}});
    carried.bytes = sends ? bytes_sent(from, to, message, type.num_bytes())
                          : std::vector(static_cast<std::size_t>(type.num_bytes()), std::byte{0x5a});
    void* const address = carried.bytes.data();
    const std::span<void*const> operand(&address, 1), none;
    if (sends)
      device_->prepare(op).run({.inputs = operand, .outputs = none, .workspace = nullptr});
    else
      device_->prepare(op).run({.inputs = none, .outputs = operand, .workspace = nullptr});
  }

  /// Finishes what was started, message by message; how many have not the bytes that were sent.
  int num_wrong() {
    int num_wrong = 0;
    for (Carried& carried : carried_) {
      void* const address = carried.bytes.data();
      if (starts_)
        device_->prepare(finish_exchange_op(std::array{carried.type}))
            .run({.inputs = {&address, 1}, .outputs = {}, .workspace = nullptr});
      const std::vector<std::byte> sent =
          bytes_sent(carried.from, carried.to, carried.message, carried.type.num_bytes());
      num_wrong += carried.bytes == sent ? 0 : 1;
    }
    return num_wrong;
  }

 private:
  struct Carried {
    TensorType type;
    int from = 0, to = 0;
    std::int32_t message = 0;
    std::vector<std::byte> bytes;
  };

  const int rank_;
  const bool starts_;
  const std::unique_ptr<Device> device_;
  std::vector<Carried> carried_;  ///< whose bytes stay where they are
};

/// One of several ranks, which keeps what it is told to exchange.
class RecordingCommunicator final : public Communicator {
 public:
  RecordingCommunicator(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void exchange(std::span<const SentBytes> sends, std::span<const ReceivedBytes> receives) override {
    sent.assign(sends.begin(), sends.end());
    received.assign(receives.begin(), receives.end());
    ++num_exchanges;
  }
  void check() const override { ++num_checks; }
  int failure_descriptor() const override { return 42; }

  std::vector<SentBytes> sent;
  std::vector<ReceivedBytes> received;
  int num_exchanges = 0;
  mutable int num_checks = 0;

 private:
  const int rank_, size_;
};

/// Every group of ranks at one distance from each other.
std::vector<RankGroup> strided_groups(std::int64_t num_ranks) {
  std::vector<RankGroup> groups;
  for (std::int64_t count = 1; count <= num_ranks; ++count)
    for (std::int64_t first = 0; first < num_ranks; ++first)
      for (std::int64_t stride = 1; stride <= num_ranks && first + (count - 1) * stride < num_ranks; ++stride)
        groups.push_back({count, first, stride});
  return groups;
}

/// The ranks of a group, one by one.
std::vector<int> ranks_in(const RankGroup& group) {
  std::vector<int> ranks;
  for (auto rank = group.first; std::ssize(ranks) < group.count; rank += group.stride)
    ranks.push_back(static_cast<int>(rank));
  return ranks;
}

}  // namespace

TEST_CASE("what one rank sends another receives to the bit, started or not, whatever others send each other") {
  for (const int num_ranks : {2, 3, 4})
    for (const bool starts : {false, true})
      for (const DType type : {DType::f32, DType::f16, DType::i32}) {
        std::vector<int> num_wrong(static_cast<std::size_t>(num_ranks), -1);
        on_ranks(num_ranks, [&](SocketCommunicator& ranks) {
          PeerRank own(ranks, starts);
          std::int32_t message = 0;
          for (const std::int64_t count : {1, 7, 1000, 70'001})
            for (int from = 0; from < num_ranks; ++from)
              for (int to = 0; to < num_ranks; ++to)
                if (from != to) own.exchange(from, to, message++, {type, Shape{count}});
          num_wrong[static_cast<std::size_t>(ranks.rank())] = own.num_wrong();
        });
        INFO(num_ranks << " ranks, " << name_of(type) << (starts ? ", started" : ""));
        CHECK(num_wrong == std::vector<int>(static_cast<std::size_t>(num_ranks)));
      }
}

TEST_CASE("of two ranks one may start what the other waits for") {
  for (const int starting : {0, 1}) {
    std::vector<int> num_wrong(2, -1);
    on_ranks(2, [&](SocketCommunicator& ranks) {
      PeerRank own(ranks, ranks.rank() == starting);
      for (std::int32_t message = 0; message < 6; ++message)
        own.exchange(message % 2, 1 - message % 2, message, {DType::f32, Shape{100 * message + 1, 3}});
      num_wrong[static_cast<std::size_t>(ranks.rank())] = own.num_wrong();
    });
    CHECK(num_wrong == std::vector{0, 0});
  }
}

TEST_CASE("both sides of a message name the same two ranks, lower one first, and each other") {
  for (std::int64_t rank = 0; rank < 5; ++rank)
    for (std::int64_t peer = 0; peer < 5; ++peer) {
      if (rank == peer) continue;
      const PeerAttributes attributes = peer_attributes(rank, peer, 3, true);
      CHECK(ranks_in(attributes.ranks) ==
            std::vector{static_cast<int>(std::min(rank, peer)), static_cast<int>(std::max(rank, peer))});
      CHECK(attributes.ranks.rank_at(attributes.place) == rank);
      CHECK(attributes.peer() == peer);
      CHECK((attributes.message == 3 && attributes.returns_gradient && !attributes.starts));
      CHECK(peer_attributes(peer, rank, 3, true).ranks == attributes.ranks);
    }
  CHECK(refusal_of<InternalError>([] { peer_attributes(2, 2, 0, false); }) != "it was taken");
}

TEST_CASE("a group numbers its ranks by their places and reaches them by their numbers among all") {
  for (int num_ranks = 2; num_ranks <= 6; ++num_ranks)
    for (const RankGroup& group : strided_groups(num_ranks)) {
      const std::vector<int> members = ranks_in(group);
      for (int rank = 0; rank < num_ranks; ++rank) {
        INFO(num_ranks << " ranks, " << group.count << " from " << group.first << " by " << group.stride << ", rank "
                       << rank);
        RecordingCommunicator all(rank, num_ranks);
        const auto own = std::find(members.begin(), members.end(), rank);
        if (own == members.end()) {
          CHECK_THROWS_AS(GroupCommunicator(all, group), InternalError);
          continue;
        }
        GroupCommunicator ranks(all, group);
        CHECK(ranks.rank() == own - members.begin());
        CHECK(ranks.size() == std::ssize(members));
        std::array<std::byte, 64> bytes{};
        std::vector<SentBytes> sends;
        std::vector<ReceivedBytes> receives;
        for (int place = ranks.size(); place-- > 0;) {
          if (place == ranks.rank()) continue;
          sends.push_back({place, &bytes[static_cast<std::size_t>(place)], place + 1});
          receives.push_back({place, &bytes[static_cast<std::size_t>(place) + 32], place + 7});
        }
        for (int i = 1; i <= 2; ++i) {  // the second time with the first one's lists
          ranks.exchange(sends, i == 1 ? std::span<const ReceivedBytes>(receives) : std::span<const ReceivedBytes>());
          CHECK(all.num_exchanges == i);
          REQUIRE(all.sent.size() == sends.size());
          REQUIRE(all.received.size() == (i == 1 ? receives.size() : 0));
          for (std::size_t s = 0; s < sends.size(); ++s) {
            CHECK(all.sent[s].to == members[static_cast<std::size_t>(sends[s].to)]);
            CHECK((all.sent[s].bytes == sends[s].bytes && all.sent[s].num_bytes == sends[s].num_bytes));
          }
          for (std::size_t r = 0; r < all.received.size(); ++r) {
            CHECK(all.received[r].from == members[static_cast<std::size_t>(receives[r].from)]);
            CHECK((all.received[r].bytes == receives[r].bytes && all.received[r].num_bytes == receives[r].num_bytes));
          }
        }
        ranks.check();
        CHECK(all.num_checks == 1);
        CHECK(ranks.failure_descriptor() == 42);
      }
    }
}

TEST_CASE("a group of more ranks than there are is refused") {
  RecordingCommunicator all(1, 4);
  CHECK_THROWS_AS(GroupCommunicator(all, RankGroup{5}), InternalError);
  CHECK_THROWS_AS(GroupCommunicator(all, RankGroup{3, 1, 2}), InternalError);
  CHECK_NOTHROW(GroupCommunicator(all, RankGroup{2, 1, 2}));
}
