#include "tests/memory/allocator_trace.h"

#include <zlib.h>

#include <array>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "engine/memory/caching_allocator.h"
#include "engine/memory/simulated_source.h"

namespace trainer::test {

namespace {

using File = std::unique_ptr<gzFile_s, int (*)(gzFile)>;

std::string read_gzip(const std::filesystem::path& path) {
  const File file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw std::runtime_error("cannot open " + path.string());
  std::string text;
  std::array<char, 65536> part;
  int length = 0;
  while ((length = gzread(file.get(), part.data(), part.size())) > 0)
    text.append(part.data(), static_cast<std::size_t>(length));
  if (length < 0) throw std::runtime_error("damaged: " + path.string());
  return text;
}

AllocatorTrace::Action action_named(const std::string& name) {
  if (name == "alloc") return AllocatorTrace::Action::alloc;
  if (name == "free") return AllocatorTrace::Action::free;
  if (name == "release_cached") return AllocatorTrace::Action::release_cached;
  throw std::runtime_error("unknown action " + name);
}

}  // namespace

AllocatorTrace read_trace(const std::filesystem::path& path) {
  try {
    const nlohmann::json file = nlohmann::json::parse(read_gzip(path));
    if (file.at("format") != "allocator-trace" || file.at("version") != 1)
      throw std::runtime_error("not an allocator trace of version 1");
    AllocatorTrace trace;
    trace.name = file.at("name");
    trace.expandable_segments = file.at("expandable_segments");
    trace.capacity = file.at("capacity");
    for (const nlohmann::json& entry : file.at("events")) {
      AllocatorTrace::Event event;
      event.action = action_named(entry.at(0));
      event.id = entry.at(1);
      event.num_bytes = entry.at(2);
      if (!entry.at(3).is_null()) event.allocated = entry.at(3);
      event.reserved = entry.at(4);
      event.segments = entry.at(5);
      trace.events.push_back(event);
    }
    return trace;
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(path.string() + ": " + error.what());
  }
}

void write_gzip(const std::filesystem::path& path, const std::string& text) {
  const File file(gzopen(path.c_str(), "wb"), gzclose);
  if (!file || gzwrite(file.get(), text.data(), static_cast<unsigned>(text.size())) != static_cast<int>(text.size()))
    throw std::runtime_error("cannot write " + path.string());
}

std::string replay(const AllocatorTrace& trace) {
  SimulatedSource source(trace.capacity);
  CachingAllocator allocator(source, {.expandable_segments = trace.expandable_segments});
  std::map<std::int64_t, Block> live;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const AllocatorTrace::Event& event = trace.events[i];
    std::ostringstream problem;
    if (event.action == AllocatorTrace::Action::alloc) {
      if (live.count(event.id) != 0) return "event " + std::to_string(i) + " makes a block that lives\n";
      live[event.id] = allocator.allocate(event.num_bytes);
    } else if (event.action == AllocatorTrace::Action::free) {
      const auto block = live.find(event.id);
      if (block == live.end()) return "event " + std::to_string(i) + " frees a block that does not live\n";
      if (block->second.requested != event.num_bytes) problem << "bytes of the freed block\n";
      allocator.free(block->second);
      live.erase(block);
    } else {
      allocator.release_cached();
    }
    const MemoryStatistics& statistics = allocator.statistics();
    const auto compare = [&](const char* what, std::int64_t actual, std::int64_t expected) {
      if (actual != expected) problem << what << " is " << actual << ", recorded " << expected << "\n";
    };
    if (event.allocated) compare("allocated", statistics.allocated_bytes.all.current, *event.allocated);
    compare("reserved", statistics.reserved_bytes.all.current, event.reserved);
    compare("segments", statistics.segment.all.current, event.segments);
    if (!problem.str().empty()) return trace.name + ", event " + std::to_string(i) + ":\n" + problem.str();
  }
  return "";
}

}  // namespace trainer::test
