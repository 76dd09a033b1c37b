#pragma once

#include <cstdint>
#include <string>

namespace trainer {

/// The process that trains, for who watches it: what stands in the start event.
struct TellingProcess {
  std::int64_t pid = 0;      ///< as it numbers itself
  std::string host;          ///< of its machine or container; empty where the system does not tell, or it is no text
  double begin_seconds = 0;  ///< when it was asked, in seconds since 1970
};

/// This process, now.
TellingProcess this_process();

/// "gpu-box-3": what this machine or container is called; empty where the system does not tell, or it is no text.
std::string host_name();

}  // namespace trainer
