#include "support/mapped_file.h"

#include "support/diagnostic.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace roofcast {

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  auto fail = [&](const std::string& what) {
    if (fd >= 0) ::close(fd);
    return error("file-missing", what, {.file = path}, "check the path");
  };
  if (fd < 0) return fail(std::strerror(errno));
  struct stat info {};
  if (::fstat(fd, &info) != 0) return fail(std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return fail("is not a regular file");
  const size_t size = static_cast<size_t>(info.st_size);
  if (size == 0) {
    ::close(fd);
    return std::shared_ptr<const MappedFile>(new MappedFile({}));
  }
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return fail(std::strerror(errno));
  ::close(fd);
  // Without this the kernel reads ahead into weights, and a cold 1 GiB model is read whole.
  if (size > (size_t{16} << 20)) ::madvise(data, size, MADV_RANDOM);
  return std::shared_ptr<const MappedFile>(new MappedFile({static_cast<const char*>(data), size}));
}

std::shared_ptr<const MappedFile> MappedFile::of_bytes(std::string bytes) {
  auto file = std::shared_ptr<MappedFile>(new MappedFile({}));
  file->own_ = std::move(bytes);
  file->bytes_ = file->own_;
  return file;
}

void MappedFile::release_before(const char* at) const {
  if (!own_.empty()) return;
  constexpr size_t step = size_t{16} << 20;
  const size_t position = static_cast<size_t>(at - bytes_.data());
  if (position < released_) released_ = 0;  // a new walk
  if (position - released_ < step) return;
  const size_t end = position & ~size_t{4095};
  ::madvise(const_cast<char*>(bytes_.data()) + released_, end - released_, MADV_DONTNEED);
  released_ = end;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty() && own_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace roofcast
