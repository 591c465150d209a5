// A window that slides over a file of any length: plain, or gzip unpacked on the way. Memory stays
// at the window's size, however long the file.
//
//   Result<ByteWindow> window = ByteWindow::open("trace.json.gz");
//   for (const char* p = window->begin(); p != window->end() || window->more(p); ++p) …
#pragma once

#include "roofcast/result.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace roofcast::trace {

// Fills the buffer with up to `size` bytes and says how many; 0 at the end.
using ReadBytes = std::function<size_t(char* buffer, size_t size)>;

class ByteWindow {
public:
  static Result<ByteWindow> open(const std::string& path);
  // Takes bytes as they are, gzip or not, from anywhere; `window_size` 0 is the usual size.
  explicit ByteWindow(ReadBytes read, size_t window_size = 0);

  const char* begin() const { return buffer_.data(); }
  // One past the last byte. A NUL stands here, so that scanners may look at it.
  const char* end() const { return buffer_.data() + filled_; }
  // Drops what lies before `keep`, moves it to begin(), and reads more; false if there is no more.
  // All pointers into the window are void after it; `keep` is updated.
  bool more(const char*& keep);
  uint64_t offset_of(const char* p) const { return base_ + static_cast<uint64_t>(p - begin()); }
  // Bytes that a single value may span.
  static constexpr size_t largest_value = size_t{16} << 20;

  // Why the data ended early: a gzip stream without its end, or damaged.
  const std::optional<std::string>& fault() const { return *fault_; }

private:
  ReadBytes read_;
  std::vector<char> buffer_;
  size_t filled_ = 0;
  uint64_t base_ = 0;
  bool at_end_ = false;
  std::shared_ptr<std::optional<std::string>> fault_;
};

}  // namespace roofcast::trace
