#include "engine/train/files/shared_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <random>
#include <thread>

#include "engine/errors.h"
#include "engine/train/agreement.h"
#include "engine/train/files/durable_file.h"

namespace trainer {
namespace {

/// A file that is removed.
class TokenFile {
 public:
  TokenFile(std::string path, std::string_view text) : path_(std::move(path)) { write_file_durably(path_, text); }
  ~TokenFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

 private:
  std::string path_;
};

constexpr const char* token_name = ".seen_by_all_ranks";
constexpr std::size_t longest_token = 100;

std::string machine_name() {
  char name[256] = "";
  return gethostname(name, sizeof(name) - 1) == 0 && name[0] != '\0' ? name : "its machine";
}

/// A network's file system may show others a new file a moment later.
bool sees(const std::string& path, const std::string& text) {
  constexpr int most_looks = 30;
  for (int look = 0; look < most_looks; ++look) {
    if (look > 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    try {
      if (read_text_file(path, longest_token) == text) return true;
    } catch (const DataError&) {  // it is not there yet
    }
  }
  return false;
}

/// What a check that was killed has left.
void remove_old_tokens(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    std::error_code ignored;
    if (entry.is_regular_file(ignored) && entry.path().filename().string().starts_with(token_name))
      std::filesystem::remove(entry.path(), ignored);
  }
}

/// What is wrong on this rank; empty: nothing.
std::string folder_mistake(const std::string& folder, const std::string& token, int rank) {
  const auto mistake = [&](std::string_view what) {
    return fmt::format(
        "checkpoint.sharded needs a folder in which all ranks see and write the same files, and rank {} on {} {} {}; "
        "set output to a folder of a file system that all machines share, or checkpoint.sharded: false, with which "
        "rank 0 alone writes checkpoints",
        rank, machine_name(), what, std::filesystem::absolute(folder).string());
  };
  const std::string path = fmt::format("{}/{}", folder, token_name);
  if (!sees(path, token)) return mistake("does not see what rank 0 has written in");
  try {
    const TokenFile own(fmt::format("{}.{}", path, rank), token);
  } catch (const DataError&) {
    return mistake("cannot write in");
  }
  return "";
}

}  // namespace

void require_shared_folder(const std::string& folder, Communicator& ranks) {
  const bool leads = ranks.rank() == 0;
  std::string failure, token;
  std::unique_ptr<const TokenFile> file;
  if (leads) {
    remove_old_tokens(folder);
    std::random_device random;
    token = fmt::format("{:08x}{:08x}", random(), random());
    try {
      file = std::make_unique<const TokenFile>(fmt::format("{}/{}", folder, token_name), token);
    } catch (const DataError& error) {
      failure = fmt::format("rank 0: {}", error.what());
    }
  }
  fail_together(&ranks, failure);
  token = text_of_rank(ranks, 0, token);
  fail_together(&ranks, leads ? "" : folder_mistake(folder, token, ranks.rank()));
}

}  // namespace trainer
