#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

bool file_exists(const std::string& path);

/// A data file read forwards, unpacked on the way where it is gzip (told by its first bytes, not its name).
/// Offsets count unpacked bytes. Every failure is a DataError that names the file and the offset.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  /// Bytes in memory under a name; they outlive the object.
  InputFile(std::string name, std::span<const std::byte> bytes);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& name() const { return name_; }
  std::uint64_t offset() const { return offset_; }
  bool compressed() const { return inflater_ != nullptr; }
  /// The file's size if plain; if compressed, a size that its unpacked bytes cannot exceed.
  std::uint64_t largest_size() const;

  /// Reads up to `num_bytes`; fewer only at the end.
  std::size_t read(std::byte* to, std::size_t num_bytes);
  /// Reads all of `num_bytes` or throws, saying what was expected.
  void read_exactly(std::byte* to, std::size_t num_bytes, std::string_view expected);
  /// The same into a new vector. Memory grows with what is really there, so a lying header costs nothing.
  std::vector<std::byte> read_vector(std::uint64_t num_bytes, std::string_view expected);
  /// Throws if anything is left.
  void expect_end();

 private:
  struct Inflater;
  struct CloseFile {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  void start();
  std::size_t read_stored(std::byte* to, std::size_t num_bytes);
  std::size_t read_inflated(std::byte* to, std::size_t num_bytes);
  bool refill();

  std::string name_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::uint64_t stored_size_ = 0;         ///< bytes in the file
  std::uint64_t stored_offset_ = 0;       ///< bytes taken from it
  std::uint64_t offset_ = 0;              ///< bytes handed out
  std::vector<std::byte> buffer_;         ///< of the file
  std::span<const std::byte> available_;  ///< read and not yet taken: part of buffer_, or the bytes in memory
  std::unique_ptr<Inflater> inflater_;
};

}  // namespace trainer
