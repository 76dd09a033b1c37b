#include "cuda/library/cublaslt_descriptors.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <span>

#include "cuda/device/cuda_call.h"
#include "engine/errors.h"
#include "engine/trainer_command.h"

namespace trainer::cuda {

namespace {

cudaDataType_t type_of(DType type) {
  switch (type) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      throw InternalError("internal error: a product of elements that are no floating-point numbers");
  }
}

cublasComputeType_t compute_type_of(CublasLtCompute compute) {
  return compute == CublasLtCompute::f32 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32;
}

cublasLtEpilogue_t epilogue_of(CublasLtEpilogue epilogue) {
  switch (epilogue) {
    case CublasLtEpilogue::standard:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case CublasLtEpilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case CublasLtEpilogue::relu:
      return CUBLASLT_EPILOGUE_RELU;
    case CublasLtEpilogue::relu_bias:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case CublasLtEpilogue::relu_aux:
      return CUBLASLT_EPILOGUE_RELU_AUX;
    case CublasLtEpilogue::relu_aux_bias:
      return CUBLASLT_EPILOGUE_RELU_AUX_BIAS;
    case CublasLtEpilogue::drelu:
      return CUBLASLT_EPILOGUE_DRELU;
    case CublasLtEpilogue::gelu_aux:
      return CUBLASLT_EPILOGUE_GELU_AUX;
    case CublasLtEpilogue::gelu_aux_bias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case CublasLtEpilogue::dgelu:
      return CUBLASLT_EPILOGUE_DGELU;
    case CublasLtEpilogue::bgradb:
      return CUBLASLT_EPILOGUE_BGRADB;
  }
  throw InternalError("internal error: a product with no known epilogue");
}

template <typename Value>
void set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  require_cublas(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof(value)), "describe a product");
}

template <typename Value>
void set(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const Value& value) {
  require_cublas(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)),
                 "describe what it may choose from");
}

void make_layout(cublasLtMatrixLayoutOpaque_t& layout, DType type, const CublasLtLayout& described) {
  require_cublas(cublasLtMatrixLayoutInit(&layout, type_of(type), static_cast<std::uint64_t>(described.rows),
                                          static_cast<std::uint64_t>(described.columns), described.leading_dimension),
                 "describe a matrix");
}

/// Only what gives the same bits on every run: one sequence, or parts of the sum in f32 in the workspace, added up by a
/// pass of their own. "In place" lets blocks add in the order in which they end.
constexpr std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

}  // namespace

void require_cublas(cublasStatus_t status, const char* doing) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  // Any stream tells of a fault, whatever it was queued on.
  require_no_fault(nullptr, doing);
  const char* const name = cublasLtGetStatusName(status);
  switch (status) {
    case CUBLAS_STATUS_ALLOC_FAILED:
      throw DeviceError(
          fmt::format("cuBLASLt could not {} ({}): it found no memory for itself; end other programs that use the GPU "
                      "(`{}` lists them), or lower memory.limit, or use device.type=cpu",
                      doing, name, trainer_command("doctor")));
    case CUBLAS_STATUS_NOT_INITIALIZED:
      throw DeviceError(fmt::format(
          "cuBLASLt could not {} ({}): the driver does not serve it, or the GPU has no memory left for it; "
          "`{}` shows versions and who uses the GPU; install the CUDA toolkit that this build was made with, "
          "or end other programs, or use device.type=cpu",
          doing, name, trainer_command("doctor")));
    case CUBLAS_STATUS_ARCH_MISMATCH:
      throw DeviceError(
          fmt::format("cuBLASLt could not {} ({}): this GPU is too old for it; use device.type=cpu", doing, name));
    default:
      throw DeviceError(
          fmt::format("cuBLASLt could not {} ({}: {}); the run's last checkpoint is intact: continue it with --resume. "
                      "--debug-sync names the op that fails",
                      doing, name, cublasLtGetStatusString(status)));
  }
}

std::string text_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm.data) text += fmt::format("{:016x}", word);
  return text;
}

bool read_algorithm(const std::string& text, cublasLtMatmulAlgo_t& algorithm) {
  constexpr std::size_t digits = 16;
  if (text.size() != digits * std::size(algorithm.data)) return false;
  for (std::size_t i = 0; i < std::size(algorithm.data); ++i) {
    const char* const begin = text.data() + i * digits;
    const auto [end, error] = std::from_chars(begin, begin + digits, algorithm.data[i], 16);
    if (error != std::errc() || end != begin + digits) return false;
  }
  return true;
}

CublasLtDescriptors::CublasLtDescriptors(const CublasLtCall& call) : beta_(call.beta) {
  require_cublas(cublasLtMatmulDescInit(&operation_, compute_type_of(call.compute), CUDA_R_32F), "describe a product");
  const cublasOperation_t operation_a = call.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t operation_b = call.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, operation_a);
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, operation_b);
  set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(call.epilogue));
  if (call.has_bias_pointer) {
    const auto type = static_cast<std::int32_t>(type_of(call.result_type));
    set(operation_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
  }
  if (call.aux_leading_dimension > 0)
    set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{call.aux_leading_dimension});
  make_layout(a_, call.type, call.a);
  make_layout(b_, call.type, call.b);
  make_layout(d_, call.result_type, call.d);
}

void CublasLtDescriptors::set_bias(const void* address) { set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, address); }
void CublasLtDescriptors::set_aux(const void* address) {
  set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, address);
}

void CublasLtDescriptors::set_aligned(const CublasLtCall& call) {
  constexpr std::uintptr_t vector_alignment = 16;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const auto* const aligned = reinterpret_cast<const void*>(vector_alignment);
  if (call.has_bias_pointer) set_bias(aligned);
  if (call.aux_leading_dimension > 0) set_aux(aligned);
}

std::vector<CublasLtAlgorithm> CublasLtDescriptors::find_algorithms(cublasLtHandle_t handle, const CublasLtCall& call,
                                                                    int most) {
  set_aligned(call);
  cublasLtMatmulPreferenceOpaque_t preference{};
  require_cublas(cublasLtMatmulPreferenceInit(&preference), "describe what it may choose from");
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(call.workspace_bytes));
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(preference, attribute, static_cast<std::uint32_t>(call.min_alignment));
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int num_results = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, &operation_, &a_, &b_, &d_, &d_, &preference,
                                                               most, results.data(), &num_results);
  // How it says that nothing serves; INVALID_VALUE too, where an epilogue sets conditions.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
  require_cublas(status, "choose an algorithm");
  std::vector<CublasLtAlgorithm> found;
  for (const cublasLtMatmulHeuristicResult_t& result : std::span(results).first(static_cast<std::size_t>(num_results)))
    if (result.state == CUBLAS_STATUS_SUCCESS)
      found.push_back({result.algo, static_cast<std::int64_t>(result.workspaceSize)});
  return found;
}

bool CublasLtDescriptors::serves(cublasLtHandle_t handle, const CublasLtCall& call,
                                 const cublasLtMatmulAlgo_t& algorithm, std::int64_t workspace_bytes) {
  set_aligned(call);
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(handle, &operation_, &a_, &b_, &d_, &d_, &algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS && static_cast<std::int64_t>(result.workspaceSize) <= workspace_bytes;
}

cublasStatus_t CublasLtDescriptors::run(cublasLtHandle_t handle, const CublasLtOperands& operands,
                                        const cublasLtMatmulAlgo_t& algorithm, std::size_t workspace_bytes,
                                        cudaStream_t stream) {
  if (operands.bias != nullptr) set_bias(operands.bias);
  if (operands.aux != nullptr) set_aux(operands.aux);
  const float one = 1;
  return cublasLtMatmul(handle, &operation_, &one, operands.a, &a_, operands.b, &b_, &beta_, operands.d, &d_,
                        operands.d, &d_, &algorithm, operands.workspace, workspace_bytes, stream);
}

}  // namespace trainer::cuda
