#include "datasets/reader_threads.h"

#include <algorithm>
#include <new>
#include <system_error>

#include "engine/device/aligned_memory.h"
#include "engine/device/thread_limit.h"
#include "engine/errors.h"

namespace trainer {

void ReaderThreads::start(int count, const std::function<void()>& work) {
  threads_.reserve(static_cast<std::size_t>(count));
  try {
    for (int i = 0; i < count; ++i) threads_.emplace_back(work);
  } catch (const std::system_error&) {
    const int num_started = num_running_threads();
    throw thread_limit_error(num_started, num_started + 1);
  }
}

ReaderThreads::~ReaderThreads() {
  stop_();
  for (std::thread& thread : threads_) thread.join();
}

std::unique_ptr<HostMemory> make_batch_memory(
    const std::function<std::unique_ptr<HostMemory>(std::int64_t num_bytes)>& make, std::int64_t num_bytes,
    const std::string& what) {
  num_bytes = std::max<std::int64_t>(1, num_bytes);
  try {
    if (make) return make(num_bytes);
    return std::make_unique<AlignedMemory>(num_bytes);
  } catch (const std::bad_alloc&) {
    throw HostOutOfMemory(what, num_bytes);
  }
}

}  // namespace trainer
