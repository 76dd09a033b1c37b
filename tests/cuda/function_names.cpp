#include "tests/cuda/function_names.h"

#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "engine/errors.h"

namespace trainer::cuda {
namespace {

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : name;
}

/// Where the program's file is loaded: 0 where its addresses are fixed.
std::uintptr_t load_address() {
  std::uintptr_t address = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        *static_cast<std::uintptr_t*>(result) = info->dlpi_addr;
        return 1;  // the program itself comes first
      },
      &address);
  return address;
}

template <typename T>
T read_at(const std::vector<char>& file, std::size_t offset) {
  require_internal(offset + sizeof(T) <= file.size(), "a program's file holds what its headers say");
  T value;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

}  // namespace

std::map<const void*, std::string> function_names() {
  std::ifstream stream("/proc/self/exe", std::ios::binary);
  const std::vector<char> file{std::istreambuf_iterator<char>(stream), {}};
  const auto header = read_at<ElfW(Ehdr)>(file, 0);
  const auto section = [&](std::size_t i) {
    return read_at<ElfW(Shdr)>(file, header.e_shoff + i * header.e_shentsize);
  };
  const std::uintptr_t base = load_address();
  std::map<const void*, std::string> names;
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const auto symbols = section(i);
    if (symbols.sh_type != SHT_SYMTAB) continue;
    const auto texts = section(symbols.sh_link);
    for (std::size_t at = 0; at + sizeof(ElfW(Sym)) <= symbols.sh_size; at += sizeof(ElfW(Sym))) {
      const auto symbol = read_at<ElfW(Sym)>(file, symbols.sh_offset + at);
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_value == 0) continue;
      names.emplace(reinterpret_cast<const void*>(base + symbol.st_value),
                    demangled(file.data() + texts.sh_offset + symbol.st_name));
    }
  }
  return names;
}

}  // namespace trainer::cuda
