#include "engine/cpu/dnnl_call.h"

#include <omp.h>

#include <string>

#include "engine/errors.h"

namespace trainer {

namespace {

const char* meaning_of(dnnl_status_t status) {
  switch (status) {
    case dnnl_out_of_memory:
      return "it could not allocate memory of its own";
    case dnnl_invalid_arguments:
      return "invalid arguments";
    case dnnl_unimplemented:
      return "not implemented for these shapes";
    default:
      return "it failed";
  }
}

}  // namespace

void require_dnnl(dnnl_status_t status, const char* what) {
  if (status == dnnl_out_of_memory) throw HostOutOfMemory(std::string("oneDNN, to ") + what, 0);
  if (status != dnnl_success)
    throw DeviceError("oneDNN: " + std::string(what) + ": " + meaning_of(status) + ", status " +
                      std::to_string(status));
}

DnnlCall::DnnlCall(const_dnnl_primitive_desc_t description) {
  dnnl_primitive_t primitive = nullptr;
  require_dnnl(dnnl_primitive_create(&primitive, description), "create a primitive");
  primitive_.reset(primitive);
}

void DnnlCall::add_argument(int argument, const dnnl_memory_desc_t& description, const CpuContext& context) {
  require_internal(num_arguments_ < arguments_.size(), "a oneDNN call has at most six arguments");
  dnnl_memory_t memory = nullptr;
  require_dnnl(dnnl_memory_create(&memory, &description, context.engine, DNNL_MEMORY_NONE), "describe an operand");
  memories_[num_arguments_].reset(memory);
  arguments_[num_arguments_] = {argument, memory};
  ++num_arguments_;
}

void DnnlCall::set_address(std::size_t position, void* address) {
  require_dnnl(dnnl_memory_set_data_handle(memories_[position].get(), address), "set an operand's address");
}

void DnnlCall::execute(const CpuContext& context) const {
  // A setting of the calling thread, which need not be the one that made the primitive.
  omp_set_num_threads(context.num_threads);
  require_dnnl(
      dnnl_primitive_execute(primitive_.get(), context.stream, static_cast<int>(num_arguments_), arguments_.data()),
      "run a primitive");
}

}  // namespace trainer
