#include "engine/report/trace/trace_file.h"

#include <utility>

namespace trainer {
namespace {

constexpr std::size_t pending_trace_bytes = std::size_t{1} << 18;

}  // namespace

TraceFile::TraceFile(const std::string& path) : file_(path) {
  if (path.ends_with(".gz")) compressor_.emplace();
}

void TraceFile::write(std::string_view bytes) {
  pending_ += bytes;
  if (pending_.size() >= pending_trace_bytes) flush(/*is_end=*/false);
}

void TraceFile::finish() {
  flush(/*is_end=*/true);
  file_.finish();
}

void TraceFile::flush(bool is_end) {
  if (compressor_) {
    std::string compressed;
    compressor_->compress(pending_, is_end, compressed);
    pending_ = std::move(compressed);
  }
  file_.write(pending_.data(), pending_.size());
  num_bytes_ += static_cast<std::int64_t>(pending_.size());
  pending_.clear();
}

}  // namespace trainer
