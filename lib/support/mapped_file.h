// A file's bytes, mapped read-only. Pages that nobody looks at are never read.
#pragma once

#include "roofcast/result.h"

#include <memory>
#include <string>
#include <string>
#include <string_view>

namespace roofcast {

class MappedFile {
public:
  // Fails with file-missing if it cannot be opened or is no regular file.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  // Bytes that were made, not read.
  static std::shared_ptr<const MappedFile> of_bytes(std::string bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;

  std::string_view bytes() const { return bytes_; }

  // Lets go of the memory that the bytes before `at` take since the last call; they can still be read,
  // and come back from the page cache. Page caches hold files in large pages, so that each look at a
  // header maps up to 2 MiB of weights. Called along a walk; acts once in a while.
  void release_before(const char* at) const;

private:
  explicit MappedFile(std::string_view bytes) : bytes_(bytes) {}
  std::string_view bytes_;
  std::string own_;  // if made
  mutable size_t released_ = 0;
};

}  // namespace roofcast
