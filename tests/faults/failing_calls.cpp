// Preloaded into a process, lets one of its calls fail:
//
//   FAILING_KIND    files: calls on files below FAILING_FOLDER · memory: allocations of 64 KiB or more · threads
//   FAILING_CALL    which of them, from 1, and of threads all after it, as at a limit; 0 or not set: none
//   FAILING_ERROR   errno of calls on files; 0: the process is killed in their place
//   FAILING_COUNT   a file to write the number of such calls to at the end
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

enum class Kind { none, files, memory, threads };

constexpr std::size_t large_allocation = std::size_t{64} << 10;

Kind kind = Kind::none;
long failing_call = -1;
int file_error = ENOSPC;
char folder[512] = "";
std::atomic<long> num_calls{0};

bool fails(Kind of) {
  if (kind != of) return false;
  const long call = ++num_calls;
  return call == failing_call || (of == Kind::threads && failing_call > 0 && call > failing_call);
}

bool is_below(const char* path) { return folder[0] != '\0' && std::strncmp(path, folder, std::strlen(folder)) == 0; }

bool file_fails(const char* path) {
  const bool is_failing = kind == Kind::files && is_below(path) && fails(Kind::files);
  if (is_failing && file_error == 0) raise(SIGKILL);
  return is_failing;
}

bool file_fails(int file) {
  if (kind != Kind::files) return false;
  char link[64], path[600];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  if (length < 0) return false;
  path[length] = '\0';
  return file_fails(path);
}

template <typename Result>
Result refuse(Result failed, int error) {
  errno = error;
  return failed;
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

__attribute__((constructor)) void read_environment() {
  const auto variable = [](const char* name) {
    const char* const text = std::getenv(name);
    return text != nullptr ? text : "";
  };
  const char* const named = variable("FAILING_KIND");
  if (std::strcmp(named, "files") == 0) kind = Kind::files;
  if (std::strcmp(named, "memory") == 0) kind = Kind::memory;
  if (std::strcmp(named, "threads") == 0) kind = Kind::threads;
  if (*variable("FAILING_CALL") != '\0') failing_call = std::atol(variable("FAILING_CALL"));
  if (*variable("FAILING_ERROR") != '\0') file_error = std::atoi(variable("FAILING_ERROR"));
  std::strncpy(folder, variable("FAILING_FOLDER"), sizeof(folder) - 1);
}

__attribute__((destructor)) void write_count() {
  const char* const path = std::getenv("FAILING_COUNT");
  const long count = num_calls;
  kind = Kind::none;
  std::FILE* const file = path != nullptr ? std::fopen(path, "w") : nullptr;
  if (file == nullptr) return;
  std::fprintf(file, "%ld\n", count);
  std::fclose(file);
}

}  // namespace

// In the place of the C library's.
extern "C" {

ssize_t write(int file, const void* bytes, std::size_t count) {
  static auto* const real = next<ssize_t(int, const void*, std::size_t)>("write");
  return file_fails(file) ? refuse<ssize_t>(-1, file_error) : real(file, bytes, count);
}

ssize_t writev(int file, const iovec* pieces, int count) {
  static auto* const real = next<ssize_t(int, const iovec*, int)>("writev");
  return file_fails(file) ? refuse<ssize_t>(-1, file_error) : real(file, pieces, count);
}

int fsync(int file) {
  static auto* const real = next<int(int)>("fsync");
  return file_fails(file) ? refuse(-1, file_error) : real(file);
}

int rename(const char* from, const char* to) noexcept {
  static auto* const real = next<int(const char*, const char*)>("rename");
  return file_fails(from) ? refuse(-1, file_error) : real(from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  static auto* const real = next<int(int, const char*, int, const char*, unsigned)>("renameat2");
  return file_fails(from) ? refuse(-1, file_error) : real(from_folder, from, to_folder, to, flags);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const real = next<int(const char*, mode_t)>("mkdir");
  return file_fails(path) ? refuse(-1, file_error) : real(path, mode);
}

int symlink(const char* target, const char* path) noexcept {
  static auto* const real = next<int(const char*, const char*)>("symlink");
  return file_fails(path) ? refuse(-1, file_error) : real(target, path);
}

int open(const char* path, int flags, ...) {
  static auto* const real = next<int(const char*, int, ...)>("open");
  std::va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return file_fails(path) ? refuse(-1, file_error) : real(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  static auto* const real = next<int(const char*, int, ...)>("open64");
  std::va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return file_fails(path) ? refuse(-1, file_error) : real(path, flags, mode);
}

std::FILE* fopen(const char* path, const char* mode) {
  static auto* const real = next<std::FILE*(const char*, const char*)>("fopen");
  return file_fails(path) ? refuse<std::FILE*>(nullptr, file_error) : real(path, mode);
}

std::FILE* fopen64(const char* path, const char* mode) {
  static auto* const real = next<std::FILE*(const char*, const char*)>("fopen64");
  return file_fails(path) ? refuse<std::FILE*>(nullptr, file_error) : real(path, mode);
}

// The C library writes its buffers past write().
int fflush(std::FILE* stream) {
  static auto* const real = next<int(std::FILE*)>("fflush");
  return stream != nullptr && file_fails(fileno(stream)) ? refuse(EOF, file_error) : real(stream);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*),
                   void* argument) noexcept {
  static auto* const real = next<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  return fails(Kind::threads) ? EAGAIN : real(thread, attributes, function, argument);
}

void* malloc(std::size_t size) {
  return size >= large_allocation && fails(Kind::memory) ? refuse<void*>(nullptr, ENOMEM) : __libc_malloc(size);
}

void* calloc(std::size_t count, std::size_t size) {
  const bool is_large = count != 0 && size >= large_allocation / count;
  return is_large && fails(Kind::memory) ? refuse<void*>(nullptr, ENOMEM) : __libc_calloc(count, size);
}

void* realloc(void* memory, std::size_t size) {
  return size >= large_allocation && fails(Kind::memory) ? refuse<void*>(nullptr, ENOMEM)
                                                         : __libc_realloc(memory, size);
}

void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return size >= large_allocation && fails(Kind::memory) ? refuse<void*>(nullptr, ENOMEM)
                                                         : __libc_memalign(alignment, size);
}

}  // extern "C"
