#include "cli/bounded_spin.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {
namespace {

constexpr const char* spin_variable = "GOMP_SPINCOUNT";
constexpr const char* policy_variable = "OMP_WAIT_POLICY";
/// About a microsecond: longer than threads of a balanced loop wait for each other, far shorter than a time slice.
constexpr const char* spin_count = "1000";

/// The words of this process's command line, each ended by a zero; empty where the system does not tell.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!text.empty() && text.back() != '\0') text += '\0';
  return text;
}

}  // namespace

void bound_spinning() {
  prctl(PR_SET_NAME, "trainer");  // replaced by /proc/self/exe, a process is listed as "exe"
  if (std::getenv(spin_variable) != nullptr || std::getenv(policy_variable) != nullptr) return;
  std::string text = command_line();
  std::vector<char*> words;
  for (std::size_t begin = 0; begin < text.size(); begin = text.find('\0', begin) + 1) words.push_back(&text[begin]);
  if (words.empty()) return;
  words.push_back(nullptr);
  setenv(spin_variable, spin_count, 1);
  execv("/proc/self/exe", words.data());
  unsetenv(spin_variable);  // what it says would not be so
}

const char* waiting_of_threads() {
  if (std::getenv(policy_variable) != nullptr) return "as OMP_WAIT_POLICY says";
  const char* const count = std::getenv(spin_variable);
  if (count == nullptr) return "spin as OpenMP's library has it: the variable that shortens it could not be set";
  return std::string_view(count) == spin_count ? "spin briefly, then sleep" : "as GOMP_SPINCOUNT says";
}

}  // namespace trainer
