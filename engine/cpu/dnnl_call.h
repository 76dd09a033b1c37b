#pragma once

#include <oneapi/dnnl/dnnl.h>

#include <array>
#include <cstddef>
#include <memory>

#include "engine/cpu/cpu_context.h"

namespace trainer {

/// Throws DeviceError naming `what` and oneDNN's status unless it is success.
void require_dnnl(dnnl_status_t status, const char* what);

/// A oneDNN primitive with memory objects of its own whose addresses are set anew for each call, so that nothing of
/// ours allocates when it runs.
class DnnlCall {
 public:
  DnnlCall() = default;
  /// `description` is cloned into the primitive.
  explicit DnnlCall(const_dnnl_primitive_desc_t description);

  /// Adds an argument (DNNL_ARG_…). At most six.
  void add_argument(int argument, const dnnl_memory_desc_t& description, const CpuContext& context);
  /// Address of the argument added `position`-th.
  void set_address(std::size_t position, void* address);
  void execute(const CpuContext& context) const;

 private:
  struct DestroyPrimitive {
    void operator()(dnnl_primitive* primitive) const noexcept { dnnl_primitive_destroy(primitive); }
  };
  struct DestroyMemory {
    void operator()(dnnl_memory* memory) const noexcept { dnnl_memory_destroy(memory); }
  };
  std::unique_ptr<dnnl_primitive, DestroyPrimitive> primitive_;
  std::array<std::unique_ptr<dnnl_memory, DestroyMemory>, 6> memories_;
  std::array<dnnl_exec_arg_t, 6> arguments_{};
  std::size_t num_arguments_ = 0;
};

}  // namespace trainer
