#include "engine/report/text/glossary.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace trainer {
namespace {

constexpr std::array<ReportWord, 9> counter_words = {{
    {"requested", "bytes the program asked for"},
    {"allocated", "requested, rounded to blocks of 512 B: what live buffers occupy"},
    {"reserved", "segments held from the device: allocated + cached; this is what must fit"},
    {"cached", "reserved but not allocated: ready for the next request"},
    {"capacity", "what may be reserved: free device memory at the start, or memory.limit"},
    {"free", "capacity − reserved: what could still be asked of the device"},
    {"largest free block", "the largest request that the cache can serve"},
    {"fragmentation", "share of the cache that one request cannot use: 1 − largest free block / cached"},
    {"used", "the device's count for this process; used − reserved is outside the allocator"},
}};

// Categories, phases and what else a report names.
constexpr std::array<ReportWord, 28> other_words = {{
    {"parameter", "the category of weights, biases and running statistics"},
    {"gradient", "the category of the gradients of parameters; those of activations are temporary"},
    {"optimizer state", "the category of what the optimizer keeps a parameter: momentum, moments"},
    {"activation", "the category of what the forward pass computes; kept where the backward pass reads it"},
    {"input", "the category of the batch: images or features, and targets"},
    {"workspace", "the category of what one op needs while it runs, such as a convolution's scratch"},
    {"temporary", "the category of gradients of activations, loss statistics and norms"},
    {"communication", "the category of buffers that devices exchange"},
    {"frozen", "the category of the weights of networks that are not trained: those of a loss on features"},
    {"peak", "the moment of a step at which most is allocated, or reserved; a run's is that of its highest step"},
    {"checkpoint", "a folder of a run that it can be resumed from: parameters, optimizer and position in the data"},
    {"to spare",
     "capacity − reserved: what is left where a run fits, what is missing (with a minus) where it does not"},
    {"retries", "how often the cache was given back because the device had no more, and the device asked again"},
    {"resident peak", "the most memory that the operating system counted for the whole process"},
    {"samples/s", "training samples a second, in the steps since the line before"},
    {"tokens/s", "the same in tokens: a sample has data.sequence_length of them"},
    {"tokens seen",
     "all that the model was trained on since step 0, again in each epoch, and what fills samples up (data.pad_token)"},
    {"MFU",
     "model FLOPs utilization (PaLM, appendix B): the FLOPs of forward and backward for what a step trains on, by what "
     "the device could do in its time at most; what is computed again to save memory counts for nothing"},
    {"epoch", "once through the training samples; the last batch of one may be smaller (data.drop_last leaves it out)"},
    {"step", "one batch through the network, forward and backward"},
    {"top-5", "the share of samples whose class is among the five that the model finds most likely"},
    {"segment", "a piece of memory that the allocator has from the device, and cuts into blocks"},
    {"block", "a part of a segment: one buffer, rounded up to a multiple of 512 B, or free"},
    {"outside the allocator",
     "what the process holds of a GPU that no allocator counts: the driver's context, "
     "kernels and libraries; estimated for a GPU that is only described"},
    {"forward", "the phase of a step that computes the loss"},
    {"backward", "the phase of a step that computes gradients"},
    {"recompute", "the phase of a step that computes dropped activations again, for train.checkpointing"},
    {"update", "the phase of a step in which the optimizer changes the parameters"},
}};

bool is_same_word(std::string_view a, std::string_view b) {
  const auto letters = [](std::string_view text) {
    std::string plain;
    for (const char letter : text)
      if (std::isalnum(static_cast<unsigned char>(letter)) != 0)
        plain += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    return plain;
  };
  return letters(a) == letters(b);
}

}  // namespace

const ReportWord* find_report_word(std::string_view word) {
  const auto is_called_so = [&](const ReportWord& entry) {
    return is_same_word(entry.word, word) || is_same_word(std::string(entry.word) + "s", word);
  };
  const auto* const counter = std::find_if(counter_words.begin(), counter_words.end(), is_called_so);
  if (counter != counter_words.end()) return counter;
  const auto* const other = std::find_if(other_words.begin(), other_words.end(), is_called_so);
  return other != other_words.end() ? other : nullptr;
}

std::vector<std::string> report_words() {
  std::vector<std::string> words;
  words.reserve(counter_words.size() + other_words.size());
  for (const ReportWord& entry : counter_words) words.emplace_back(entry.word);
  for (const ReportWord& entry : other_words) words.emplace_back(entry.word);
  return words;
}

std::string memory_glossary(const Style& style) {
  std::string text;
  for (const ReportWord& entry : counter_words) {
    text += "  " + paint(style, Ink::cyan, pad_right(entry.word, 19));
    text += entry.meaning;
    text += '\n';
  }
  return text;
}

}  // namespace trainer
