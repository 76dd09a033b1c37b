#include "engine/ranks/rank_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/device/thread_limit.h"
#include "engine/ranks/untold_rank_error.h"

namespace trainer {
namespace {

// The words of ranks. What follows an end: the exit code (4 bytes), the number of bytes of the reason (4), these.
constexpr std::byte lives{0}, is_through_word{1}, ends{2};
constexpr std::size_t end_header = 9;
constexpr std::size_t longest_reason = 4096;
constexpr auto between_words = std::chrono::milliseconds(200);
constexpr double between_words_seconds = std::chrono::duration<double>(between_words).count();

}  // namespace

RankWatch::RankWatch(int rank, std::vector<Socket> sockets, double timeout_seconds)
    : rank_(rank), timeout_seconds_(timeout_seconds), peers_(sockets.size()) {
  if (::pipe2(wake_, O_CLOEXEC | O_NONBLOCK) != 0)
    throw RankError(ExitCode::device, fmt::format("cannot watch other ranks: {}", std::strerror(errno)));
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    peers_[i].socket = std::move(sockets[i]);
    peers_[i].heard = Clock::now();
    if (peers_[i].socket.is_open()) peers_[i].socket.set_blocking(false);
  }
  thread_ = start_thread([this] { watch(); });
}

RankWatch::~RankWatch() {
  stop_ = true;
  thread_.join();
  say(is_through_word);
  for (const int each : wake_) ::close(each);
}

void RankWatch::say(std::byte word) {
  const std::lock_guard lock(saying_);
  for (const Peer& peer : peers_)  // one that takes no more words is found out by its silence
    if (peer.socket.is_open()) ::send(peer.socket.descriptor(), &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool RankWatch::tell_end(ExitCode code, const std::string& reason) {
  std::vector<std::byte> words = {ends};
  const auto add = [&](std::uint32_t number) {
    const auto bytes = std::bit_cast<std::array<std::byte, 4>>(number);
    words.insert(words.end(), bytes.begin(), bytes.end());
  };
  const std::string told = reason.substr(0, longest_reason);
  add(static_cast<std::uint32_t>(code));
  add(static_cast<std::uint32_t>(told.size()));
  const auto* const text = reinterpret_cast<const std::byte*>(told.data());
  words.insert(words.end(), text, text + told.size());
  bool is_told = false;
  {
    const std::lock_guard lock(saying_);
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (!peers_[i].socket.is_open()) continue;
      const ssize_t sent =
          ::send(peers_[i].socket.descriptor(), words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      is_told = is_told || (i == 0 && sent == static_cast<ssize_t>(words.size()));
    }
  }
  return is_told || (rank_ > 0 && has_told_of_its_end(peers_[0]));
}

bool RankWatch::has_told_of_its_end(const Peer& peer) {
  constexpr auto longest = std::chrono::seconds(1);
  const Clock::time_point begin = Clock::now();
  while (peer.code < 0 && !peer.is_through && Clock::now() - begin < longest)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return peer.code >= 0;
}

bool RankWatch::ends_before(ExitCode code) const {
  const auto first = peers_.begin(), own = peers_.begin() + rank_;
  constexpr auto longest = std::chrono::seconds(5);
  const Clock::time_point begin = Clock::now();
  while (Clock::now() - begin < longest) {
    if (std::all_of(first, own, [](const Peer& peer) { return peer.is_through.load(); })) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return std::any_of(first, own, [&](const Peer& peer) { return peer.code == static_cast<int>(code); });
}

void RankWatch::wait_for_end_of_first() const {
  if (!peers_[0].socket.is_open() || peers_[0].is_lost) return;
  constexpr int longest = 5000;  // milliseconds
  pollfd closed{peers_[0].socket.descriptor(), POLLRDHUP, 0};
  ::poll(&closed, 1, longest);
}

void RankWatch::note(ExitCode code, std::string reason, bool is_untold) {
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    code_ = code;
    reason_ = std::move(reason);
    is_untold_ = is_untold;
    failed_.store(true, std::memory_order_release);
  }
  constexpr char word = 0;
  [[maybe_unused]] const ssize_t written = ::write(wake_[1], &word, 1);
}

void RankWatch::note_silent(Clock::time_point now) {
  // With one all whose last word was as long ago, but for the time between two: they may be on one machine.
  const double almost = timeout_seconds_ - std::min(timeout_seconds_ / 2, 3 * between_words_seconds);
  std::vector<int> silent;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    if (!peer.socket.is_open() || peer.is_through) continue;
    if (std::chrono::duration<double>(now - peer.heard).count() < almost) continue;
    peer.is_lost = true;
    silent.push_back(static_cast<int>(i));
  }
  note_lost(silent[0], fmt::format("{} {} {} not answered for {:.0f} s", silent.size() == 1 ? "rank" : "ranks",
                                   fmt::join(silent, ", "), silent.size() == 1 ? "has" : "have", timeout_seconds_));
}

void RankWatch::note_lost(int rank, std::string reason) {
  // One that was heard of a moment ago is still there.
  const double a_moment = std::min(timeout_seconds_ / 2, 2.0);
  const auto is_there = [&](const Peer& peer) {
    return peer.socket.is_open() && !peer.is_through &&
           std::chrono::duration<double>(Clock::now() - peer.heard).count() < a_moment;
  };
  const bool others_tell = std::any_of(peers_.begin(), peers_.begin() + rank_, is_there);
  note(ExitCode::interrupted, std::move(reason), /*is_untold=*/rank == 0 && !others_tell);
}

void RankWatch::check() const {
  if (!has_failed()) return;
  const std::lock_guard lock(mutex_);
  if (is_untold_) throw UntoldRankError(code_, reason_);
  throw RankError(code_, reason_);
}

void RankWatch::fail(int rank) const {
  constexpr int tries = 200;
  for (int i = 0; i < tries; ++i) {
    check();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  throw RankError(ExitCode::interrupted, fmt::format("rank {} has ended before this one", rank));
}

void RankWatch::watch() {
  Clock::time_point spoke = Clock::now() - between_words;
  std::vector<pollfd> waiting;
  std::vector<int> ranks;
  while (!stop_) {
    Clock::time_point now = Clock::now();
    if (now - spoke >= between_words) {
      // Who did not run itself does not know how long others were silent.
      if (now - spoke > 10 * between_words)
        for (Peer& peer : peers_) peer.heard = now;
      say(lives);
      spoke = now;
    }
    waiting.clear();
    ranks.clear();
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (!peers_[i].socket.is_open() || peers_[i].is_through) continue;
      waiting.push_back({peers_[i].socket.descriptor(), POLLIN, 0});
      ranks.push_back(static_cast<int>(i));
    }
    constexpr int look_again = 50;  // milliseconds
    ::poll(waiting.data(), waiting.size(), look_again);
    now = Clock::now();
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      Peer& peer = peers_[static_cast<std::size_t>(ranks[i])];
      if (waiting[i].revents != 0) hear(ranks[i], peer);
      if (!peer.is_through && std::chrono::duration<double>(now - peer.heard).count() > timeout_seconds_)
        note_silent(now);
    }
  }
}

void RankWatch::hear(int rank, Peer& peer) {
  std::array<std::byte, 4096> bytes;
  const ssize_t got = ::recv(peer.socket.descriptor(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    peer.is_through = true;  // there is nothing more to hear
    return note_lost(rank, fmt::format("rank {} was killed, or its machine is gone", rank));
  }
  peer.heard = Clock::now();
  peer.unread.insert(peer.unread.end(), bytes.begin(), bytes.begin() + got);
  std::size_t at = 0;
  while (at < peer.unread.size()) {
    if (peer.unread[at] == is_through_word) {
      peer.is_through = true;
    } else if (peer.unread[at] == ends) {
      if (peer.unread.size() - at < end_header) break;
      std::uint32_t code = 0, size = 0;
      std::memcpy(&code, &peer.unread[at + 1], sizeof code);
      std::memcpy(&size, &peer.unread[at + 5], sizeof size);
      if (peer.unread.size() - at < end_header + size) break;
      peer.code = static_cast<int>(code);
      peer.is_through = true;
      note(static_cast<ExitCode>(code),
           fmt::format("rank {}: {}", rank,
                       std::string_view(reinterpret_cast<const char*>(&peer.unread[at + end_header]), size)));
      at += end_header - 1 + size;
    }
    ++at;
  }
  peer.unread.erase(peer.unread.begin(),
                    peer.unread.begin() + static_cast<std::ptrdiff_t>(std::min(at, peer.unread.size())));
}

}  // namespace trainer
