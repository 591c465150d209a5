#include "trace/byte_window.h"

#include "support/diagnostic.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sys/stat.h>
#include <zlib.h>

namespace roofcast::trace {
namespace {

constexpr size_t default_window = size_t{1} << 20;

// Unpacks gzip, member after member (RFC 1952, 2.2), from another source of bytes.
class GzipSource {
public:
  GzipSource(ReadBytes packed, std::shared_ptr<std::optional<std::string>> fault)
      : packed_(std::move(packed)), fault_(std::move(fault)), input_(default_window / 4) {
    inflateInit2(&stream_, MAX_WBITS + 16);
  }
  ~GzipSource() { inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  size_t read(char* buffer, size_t size) {
    stream_.next_out = reinterpret_cast<Bytef*>(buffer);
    stream_.avail_out = static_cast<uInt>(size);
    while (stream_.avail_out > 0 && !done_) {
      if (stream_.avail_in == 0 && !refill()) {
        if (inside_member_) *fault_ = "the gzip stream has no end";
        done_ = true;
        break;
      }
      if (!inside_member_ && stream_.next_in[0] != 0x1f) {
        done_ = true;  // padding after the last member
        break;
      }
      inside_member_ = true;
      const int status = inflate(&stream_, Z_NO_FLUSH);
      if (status == Z_STREAM_END) {
        inside_member_ = false;
        inflateReset(&stream_);
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        *fault_ = std::string("the gzip stream is damaged (") +
                  (stream_.msg ? stream_.msg : "unknown") + ")";
        done_ = true;
      }
    }
    return size - stream_.avail_out;
  }

private:
  bool refill() {
    stream_.avail_in = static_cast<uInt>(packed_(input_.data(), input_.size()));
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    return stream_.avail_in > 0;
  }

  ReadBytes packed_;
  std::shared_ptr<std::optional<std::string>> fault_;
  std::vector<char> input_;
  z_stream stream_{};
  bool inside_member_ = false, done_ = false;
};

}  // namespace

ByteWindow::ByteWindow(ReadBytes read, size_t window_size)
    : fault_(std::make_shared<std::optional<std::string>>()) {
  // The first two bytes tell gzip; they are put back before the rest.
  auto head = std::make_shared<std::string>(2, '\0');
  size_t got = 0;
  while (got < 2) {
    const size_t n = read(head->data() + got, 2 - got);
    if (n == 0) break;
    got += n;
  }
  head->resize(got);
  const bool gzip = *head == "\x1f\x8b";
  ReadBytes whole = [head, read = std::move(read)](char* buffer, size_t size) -> size_t {
    if (head->empty()) return read(buffer, size);
    const size_t n = std::min(size, head->size());
    std::memcpy(buffer, head->data(), n);
    head->erase(0, n);
    return n;
  };
  if (gzip) {
    auto source = std::make_shared<GzipSource>(std::move(whole), fault_);
    read_ = [source](char* buffer, size_t size) { return source->read(buffer, size); };
  } else {
    read_ = std::move(whole);
  }
  buffer_.resize((window_size ? window_size : default_window) + 1);
}

Result<ByteWindow> ByteWindow::open(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0)
    return error("file-missing", std::strerror(errno), {.file = path}, "check the path");
  if (S_ISDIR(info.st_mode))
    return error("file-kind", "is a folder", {.file = path}, "name the trace files in it");
  std::FILE* opened = std::fopen(path.c_str(), "rb");
  if (!opened)
    return error("file-missing", std::strerror(errno), {.file = path}, "check its rights");
  std::setvbuf(opened, nullptr, _IONBF, 0);
  std::shared_ptr<std::FILE> file(opened, &std::fclose);
  return ByteWindow(
      [file](char* buffer, size_t size) { return std::fread(buffer, 1, size, file.get()); });
}

bool ByteWindow::more(const char*& keep) {
  const size_t dropped = static_cast<size_t>(keep - begin());
  const size_t kept = filled_ - dropped;
  if (at_end_) return false;
  std::memmove(buffer_.data(), keep, kept);
  base_ += dropped;
  filled_ = kept;
  if (filled_ * 2 > buffer_.size() && buffer_.size() < 2 * largest_value)
    buffer_.resize(buffer_.size() * 2);
  const size_t n = read_(buffer_.data() + filled_, buffer_.size() - 1 - filled_);
  at_end_ = n == 0;
  filled_ += n;
  buffer_[filled_] = '\0';
  keep = begin();
  return n > 0;
}

}  // namespace roofcast::trace
