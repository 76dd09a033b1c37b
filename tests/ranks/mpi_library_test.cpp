#include "engine/ranks/mpi_library.h"

#include <catch2/catch.hpp>

#include "engine/errors.h"

using namespace trainer;
using Catch::Contains;

TEST_CASE("a library that is not there, or is no MPI, is told with what to do") {
  CHECK_THROWS_WITH(Mpi("/nowhere/libmpi.so.40"),
                    Contains("MPI is not found (/nowhere/libmpi.so.40:") && Contains("parallel.transport=tcp"));
  CHECK_THROWS_WITH(Mpi("libz.so.1"), Contains("libz.so.1 is not Open MPI: it has no MPI_Get_library_version"));
  CHECK_THROWS_AS(Mpi("libz.so.1"), DeviceError);
}
