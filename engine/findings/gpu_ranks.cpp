#include "engine/findings/gpu_ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "engine/config/experiment.h"
#include "engine/errors.h"

namespace trainer {
namespace {

GpuRanks read_one(const std::string& entry) {
  const std::size_t star = entry.rfind('*');
  GpuRanks read{entry.substr(0, star), 0};
  const char* const end = entry.data() + entry.size();
  const auto [stopped, error] = std::from_chars(entry.data() + star + 1, end, read.num_ranks);
  if (error != std::errc() || stopped != end || read.num_ranks < 1 || read.num_ranks > most_ranks || read.gpu.empty())
    throw ConfigError(fmt::format("--gpu '{}': write the name of a GPU and how many there are, 1 to {}, such as h100*4",
                                  entry, most_ranks));
  return read;
}

}  // namespace

bool has_number_of_ranks(const std::string& entry) { return entry.find('*') != std::string::npos; }

std::vector<GpuRanks> read_gpu_ranks(const std::vector<std::string>& entries) {
  if (std::none_of(entries.begin(), entries.end(), has_number_of_ranks)) return {};
  std::vector<GpuRanks> gpus;
  for (const std::string& entry : entries) {
    if (!has_number_of_ranks(entry))
      throw ConfigError(
          fmt::format("--gpu '{}': '{}' has no number behind it, and others have; write {}*1, or give no "
                      "numbers to compare GPUs",
                      fmt::join(entries, ","), entry, entry));
    gpus.push_back(read_one(entry));
  }
  if (num_ranks_of(gpus) > most_ranks)
    throw ConfigError(fmt::format("--gpu '{}' is {} GPUs, and there may be {}", fmt::join(entries, ","),
                                  num_ranks_of(gpus), most_ranks));
  return gpus;
}

std::int64_t num_ranks_of(const std::vector<GpuRanks>& gpus) {
  std::int64_t sum = 0;
  for (const GpuRanks& each : gpus) sum += each.num_ranks;
  return sum;
}

std::string gpu_ranks_text(const std::vector<GpuRanks>& gpus) {
  std::string text;
  for (const GpuRanks& each : gpus) text += fmt::format("{}{}*{}", text.empty() ? "" : ",", each.gpu, each.num_ranks);
  return text;
}

}  // namespace trainer
