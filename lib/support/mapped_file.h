// A file's bytes, mapped read-only. Pages that nobody looks at are never read.
#pragma once

#include "roofcast/result.h"

#include <memory>
#include <string>
#include <string_view>

namespace roofcast {

class MappedFile {
public:
  // Fails with file-missing if it cannot be opened or is no regular file.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;

  std::string_view bytes() const { return bytes_; }

private:
  explicit MappedFile(std::string_view bytes) : bytes_(bytes) {}
  std::string_view bytes_;
};

}  // namespace roofcast
