#include "engine/report/page/fix_command.h"

#include "engine/report/text/shell_words.h"
#include "engine/trainer_command.h"

namespace trainer {

std::string fix_command(const FixToPlan& fix) {
  if (fix.path.empty()) return "";
  std::vector<std::string> words = {"plan", fix.path};
  for (std::string& word : merged_overrides(fix.overrides, fix.set)) words.push_back(std::move(word));
  if (!fix.gpu.empty()) words.insert(words.end(), {"--gpu", fix.gpu});
  if (!fix.capacity.empty()) words.insert(words.end(), {"--capacity", fix.capacity});
  return trainer_command(shell_words(words));
}

}  // namespace trainer
