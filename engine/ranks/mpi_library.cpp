#include "engine/ranks/mpi_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "engine/errors.h"

namespace trainer {
namespace {

constexpr const char* mpi_variable = "TRAINER_MPI";
constexpr const char* how_to_get_mpi =
    "install Open MPI (Debian's package openmpi-bin), or set TRAINER_MPI to the libmpi.so.40 of the one whose mpirun "
    "starts ranks; or use parallel.transport=tcp";

template <typename Symbol>
void find_symbol(void* library, const std::string& file, const char* name, Symbol& symbol) {
  symbol = reinterpret_cast<Symbol>(::dlsym(library, name));
  if (symbol == nullptr)
    throw DeviceError(fmt::format("{} is not Open MPI: it has no {}; {}", file, name, how_to_get_mpi));
}

/// "4.1.4" of "Open MPI v4.1.4, package: …".
std::string version_of(std::string_view text) {
  constexpr std::string_view name = "Open MPI v";
  if (!text.starts_with(name)) return "";
  text.remove_prefix(name.size());
  return std::string(text.substr(0, text.find_first_of(", ")));
}

}  // namespace

Mpi::Mpi(const std::string& file) {
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw DeviceError(fmt::format("MPI is not found ({}): {}", ::dlerror(), how_to_get_mpi));
  find_symbol(library, file, "MPI_Get_library_version", calls_.library_version);
  find_symbol(library, file, "MPI_Init_thread", calls_.init_thread);
  find_symbol(library, file, "MPI_Finalize", calls_.finalize);
  find_symbol(library, file, "MPI_Comm_set_errhandler", calls_.set_errors);
  find_symbol(library, file, "MPI_Comm_rank", calls_.rank);
  find_symbol(library, file, "MPI_Comm_size", calls_.size);
  find_symbol(library, file, "MPI_Bcast", calls_.broadcast);
  find_symbol(library, file, "MPI_Isend", calls_.send);
  find_symbol(library, file, "MPI_Irecv", calls_.receive);
  find_symbol(library, file, "MPI_Testsome", calls_.test_some);
  find_symbol(library, file, "MPI_Type_create_hindexed", calls_.make_pieces);
  find_symbol(library, file, "MPI_Type_commit", calls_.commit_type);
  find_symbol(library, file, "MPI_Type_free", calls_.free_type);
  find_symbol(library, file, "ompi_mpi_comm_world", calls_.world);
  find_symbol(library, file, "ompi_mpi_byte", calls_.byte);
  find_symbol(library, file, "ompi_mpi_errors_return", calls_.errors_return);
  std::array<char, MpiCalls::longest_version + 1> text{};
  int length = 0;
  calls_.library_version(text.data(), &length);
  version_ = version_of(text.data());
  if (version_.empty())
    throw DeviceError(fmt::format("{} is not Open MPI, but '{}': {}", file, text.data(), how_to_get_mpi));
  Dl_info found{};
  if (::dladdr(reinterpret_cast<void*>(calls_.init_thread), &found) != 0) path_ = found.dli_fname;
}

std::string mpi_file() {
  const char* const given = std::getenv(mpi_variable);
  return given != nullptr && *given != '\0' ? given : "libmpi.so.40";
}

const Mpi& mpi() {
  static const Mpi library(mpi_file());
  return library;
}

const Mpi* mpi_or_null() {
  try {
    return &mpi();
  } catch (const DeviceError&) {
    return nullptr;
  }
}

}  // namespace trainer
