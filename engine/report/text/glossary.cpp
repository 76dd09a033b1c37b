#include "engine/report/text/glossary.h"

#include <array>
#include <string_view>

namespace trainer {

std::string memory_glossary(const Style& style) {
  struct Entry {
    std::string_view word, meaning;
  };
  constexpr std::array<Entry, 9> entries = {{
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
  std::string text;
  for (const Entry& entry : entries) {
    text += "  " + paint(style, Ink::cyan, pad_right(entry.word, 19));
    text += entry.meaning;
    text += '\n';
  }
  return text;
}

}  // namespace trainer
