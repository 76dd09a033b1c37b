#include "cuda/device/profiler_ranges.h"

#include <nvtx3/nvToolsExt.h>

namespace trainer::cuda {

namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t made = nvtxDomainCreateA("trainer");
  return made;
}

}  // namespace

void push_profiler_range(const char* name) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &attributes);
}

void pop_profiler_range() { nvtxDomainRangePop(domain()); }

}  // namespace trainer::cuda
