#pragma once

#include <map>
#include <string>

namespace trainer::cuda {

/// The functions of this program by their addresses, demangled, as its own file's symbols tell.
std::map<const void*, std::string> function_names();

}  // namespace trainer::cuda
