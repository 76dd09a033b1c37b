#pragma once
// cuDNN's frontend with what its callers share. It takes most of a minute to compile: no other header includes this.

#include <cudnn_frontend.h>

#include <string>

#include "engine/dtype.h"
#include "engine/errors.h"

// The frontend has an RMS-norm engine of its own, compiled at run time, which nothing here asks for: these may stay
// undefined, so that libnvrtc (100 MB) is not loaded for them.
#pragma weak nvrtcCompileProgram
#pragma weak nvrtcCreateProgram
#pragma weak nvrtcDestroyProgram
#pragma weak nvrtcGetCUBIN
#pragma weak nvrtcGetCUBINSize
#pragma weak nvrtcGetProgramLog
#pragma weak nvrtcGetProgramLogSize

namespace trainer::cuda {

namespace fe = cudnn_frontend;

/// Throws InternalError for what is no floating-point number.
inline fe::DataType_t frontend_type_of(DType type) {
  switch (type) {
    case DType::f32:
      return fe::DataType_t::FLOAT;
    case DType::f16:
      return fe::DataType_t::HALF;
    case DType::bf16:
      return fe::DataType_t::BFLOAT16;
    default:
      throw InternalError("internal error: cuDNN is asked about elements that are no floating-point numbers");
  }
}

/// cuDNN's messages are long and end with lines of JSON.
inline std::string first_line_of(const fe::error_t& error) { return error.err_msg.substr(0, error.err_msg.find('\n')); }

/// Throws DeviceError.
inline void require_cudnn(const fe::error_t& error, const char* doing) {
  if (error.is_bad()) throw DeviceError(std::string("cuDNN could not ") + doing + ": " + first_line_of(error));
}

}  // namespace trainer::cuda
