#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

struct ompi_communicator_t;
struct ompi_datatype_t;
struct ompi_errhandler_t;
struct ompi_request_t;

namespace trainer {

/// MPI_Status, as Open MPI has it.
struct MpiStatus {
  int source = 0, tag = 0, error = 0;
  int is_cancelled = 0;
  std::size_t num_bytes = 0;
};

/// The functions and objects of MPI that are used, by the binary interface that Open MPI has kept from 3.0 on
/// (libmpi.so.40). Functions return 0 where nothing failed.
struct MpiCalls {
  using Comm = ompi_communicator_t*;
  using Type = ompi_datatype_t*;
  using Request = ompi_request_t*;

  int (*library_version)(char* text, int* length) = nullptr;
  int (*init_thread)(int* argc, char*** argv, int required, int* provided) = nullptr;
  int (*finalize)() = nullptr;
  int (*set_errors)(Comm comm, ompi_errhandler_t* handler) = nullptr;
  int (*rank)(Comm comm, int* rank) = nullptr;
  int (*size)(Comm comm, int* size) = nullptr;
  int (*broadcast)(void* bytes, int count, Type type, int root, Comm comm) = nullptr;
  int (*send)(const void* bytes, int count, Type type, int to, int tag, Comm comm, Request* request) = nullptr;
  int (*receive)(void* bytes, int count, Type type, int from, int tag, Comm comm, Request* request) = nullptr;
  int (*test_some)(int count, Request* requests, int* num_done, int* done, MpiStatus* statuses) = nullptr;
  int (*make_pieces)(int count, const int* sizes, const std::ptrdiff_t* places, Type type, Type* made) = nullptr;
  int (*commit_type)(Type* type) = nullptr;
  int (*free_type)(Type* type) = nullptr;

  Comm world = nullptr;
  Type byte = nullptr;
  ompi_errhandler_t* errors_return = nullptr;

  // MPI_THREAD_SERIALIZED, MPI_ERR_IN_STATUS, MPI_MAX_LIBRARY_VERSION_STRING.
  static constexpr int one_at_a_time = 2, error_in_status = 19, longest_version = 256;
};

/// Open MPI, which is loaded where its mpirun has started ranks, and linked nowhere. Stays loaded.
class Mpi {
 public:
  /// Throws DeviceError, a sentence that tells what to do, where `file` is not found or is no Open MPI.
  explicit Mpi(const std::string& file);

  const MpiCalls& calls() const { return calls_; }
  const std::string& version() const { return version_; }  ///< "4.1.4"
  const std::string& path() const { return path_; }

 private:
  MpiCalls calls_;
  std::string version_, path_;
};

/// The file that the variable TRAINER_MPI names, or libmpi.so.40, wherever the system's loader finds it.
std::string mpi_file();
/// That of mpi_file(), loaded once.
const Mpi& mpi();
/// Null where it is not there.
const Mpi* mpi_or_null();

}  // namespace trainer
