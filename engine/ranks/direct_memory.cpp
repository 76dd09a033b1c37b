#include "engine/ranks/direct_memory.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

namespace trainer {
namespace {

std::uint64_t probed_number = 0;

/// All of it.
bool read_memory(std::int64_t process, std::uint64_t address, void* to, std::size_t num_bytes) {
  iovec local{to, num_bytes}, remote{reinterpret_cast<void*>(address), num_bytes};
  return ::process_vm_readv(static_cast<pid_t>(process), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(num_bytes);
}

}  // namespace

DirectProbe make_direct_probe() {
  static const bool is_made = [] {
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // of those that the system lets read at all
    std::random_device random;
    probed_number = (std::uint64_t{random()} << 32U) | random();
    return true;
  }();
  return {is_made ? ::getpid() : 0, reinterpret_cast<std::uint64_t>(&probed_number), probed_number};
}

bool can_read(const DirectProbe& probe) {
  std::uint64_t number = ~probe.number;
  return read_memory(probe.process, probe.address, &number, sizeof number) && number == probe.number;
}

bool read_directly(std::int64_t process, const DirectPlace& place, std::span<const ReceivedBytes> receives) {
  std::vector<iovec> remote(place.count), local;
  if (!read_memory(process, place.pieces, remote.data(), remote.size() * sizeof(iovec))) return false;
  for (const ReceivedBytes& each : receives) local.push_back({each.bytes, static_cast<std::size_t>(each.num_bytes)});
  // The system takes so many at once.
  constexpr std::size_t most = 1024;
  std::size_t l = 0, r = 0;
  const auto pass = [](std::vector<iovec>& pieces, std::size_t& at, std::size_t num_bytes) {
    while (at < pieces.size() && num_bytes >= pieces[at].iov_len) num_bytes -= pieces[at++].iov_len;
    if (num_bytes == 0) return;
    pieces[at].iov_base = static_cast<std::byte*>(pieces[at].iov_base) + num_bytes;
    pieces[at].iov_len -= num_bytes;
  };
  while (l < local.size()) {
    if (r == remote.size()) return false;
    const ssize_t got = ::process_vm_readv(static_cast<pid_t>(process), &local[l], std::min(most, local.size() - l),
                                           &remote[r], std::min(most, remote.size() - r), 0);
    if (got <= 0) return false;
    pass(local, l, static_cast<std::size_t>(got));
    pass(remote, r, static_cast<std::size_t>(got));
  }
  return true;
}

}  // namespace trainer
