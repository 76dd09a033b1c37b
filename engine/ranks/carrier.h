#pragma once

#include <cstdint>

namespace trainer {

/// What carries bytes from one rank to another. All ranks have the same.
enum class Carrier : std::int32_t { tcp, mpi };

inline const char* carrier_name(Carrier carrier) { return carrier == Carrier::tcp ? "TCP" : "MPI"; }

}  // namespace trainer
