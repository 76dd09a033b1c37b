#pragma once

#include <unistd.h>

namespace trainer {

/// An open file of the system, which is closed with it; below 0: it could not be opened.
class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  ~FileDescriptor() {
    if (number_ >= 0) ::close(number_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  int number() const { return number_; }

 private:
  const int number_;
};

}  // namespace trainer
