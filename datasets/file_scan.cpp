#include "datasets/file_scan.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "engine/device/processor.h"
#include "engine/errors.h"

namespace trainer {
namespace {

/// Encoded images and masks are smaller.
constexpr std::uint64_t largest_file = std::uint64_t{1} << 30;

class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  ~FileDescriptor() {
    if (number_ >= 0) close(number_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace

FilePath::FilePath(std::string_view root, std::string_view path) {
  const bool is_below = !root.empty() && !path.starts_with('/');
  if (root.size() + path.size() + 2 > text_.size())
    throw DataError(fmt::format("the path '{}' is longer than {} bytes", path, text_.size()));
  char* to = text_.data();
  if (is_below) {
    to = std::copy(root.begin(), root.end(), to);
    *to++ = '/';
  }
  *std::copy(path.begin(), path.end(), to) = '\0';
}

std::uint64_t read_file(const FilePath& file, std::vector<std::byte>& memory, std::uint64_t most_bytes) {
  const char* const path = file.c_str();
  // A pipe is not waited for.
  const FileDescriptor opened(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (opened.number() < 0) throw DataError(fmt::format("cannot open '{}': {}", path, std::strerror(errno)));
  struct stat facts {};
  if (fstat(opened.number(), &facts) != 0)
    throw DataError(fmt::format("cannot read the size of '{}': {}", path, std::strerror(errno)));
  if (!S_ISREG(facts.st_mode)) throw DataError(fmt::format("'{}' is not a file", path));
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  if (size > largest_file && most_bytes > largest_file)
    throw DataError(fmt::format("'{}' has {} bytes; an image file has at most {}", path, size, largest_file));
  const auto wanted = static_cast<std::size_t>(std::min(size, most_bytes));
  memory.reserve(wanted);  // and no more: a plan counts it
  memory.resize(wanted);
  std::size_t filled = 0;
  while (filled < memory.size()) {
    const ssize_t got = ::read(opened.number(), memory.data() + filled, memory.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw DataError(fmt::format("cannot read '{}' at offset {}: {}", path, filled, std::strerror(errno)));
    if (got == 0) throw DataError(fmt::format("'{}' ends at offset {}, expected {} bytes", path, filled, size));
    filled += static_cast<std::size_t>(got);
  }
  return size;
}

void scan_in_parallel(std::int64_t count, const std::function<Look()>& make_look) {
  constexpr std::int64_t most_threads = 16, least_for_a_thread = 64;
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  std::int64_t first_failed = count;
  std::exception_ptr error;
  const auto work = [&] {
    std::int64_t i = 0;
    try {
      const Look look = make_look();
      // What comes before a failure is looked at all the same, by others: it may hold the one that is told.
      for (i = next++; i < count; i = next++) look(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (i < first_failed) error = std::current_exception();
      first_failed = std::min(first_failed, i);
    }
  };
  const std::int64_t num_threads =
      std::clamp<std::int64_t>(count / least_for_a_thread, 1, std::min<std::int64_t>(usable_threads(), most_threads));
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(num_threads - 1));
  try {
    for (std::int64_t i = 1; i < num_threads; ++i) threads.emplace_back(work);
  } catch (const std::system_error&) {  // fewer do the same
  } catch (const std::bad_alloc&) {     // likewise
  }
  work();
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace trainer
