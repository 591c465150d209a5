#include "frontend/onnx/write.h"

#include "frontend/onnx/wire.h"
#include "support/diagnostic.h"
#include "support/limits.h"
#include "support/mapped_file.h"

#include <onnx-ml.pb.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace roofcast {
namespace {

void append_varint(std::string& out, uint64_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}
void append_field(std::string& out, uint32_t number, std::string_view payload) {
  append_varint(out, number << 3 | 2);
  append_varint(out, payload.size());
  out += payload;
}

// A message as slices of the source and new text between them.
struct Rope {
  struct Piece {
    std::string_view slice;
    std::string text;  // if not empty, instead of the slice
    size_t size() const { return text.empty() ? slice.size() : text.size(); }
  };
  std::vector<Piece> pieces;
  size_t size = 0;

  void add(std::string_view slice) {
    if (slice.empty()) return;
    size += slice.size();
    if (!pieces.empty() && pieces.back().text.empty() && pieces.back().slice.data() + pieces.back().slice.size() == slice.data())
      pieces.back().slice = {pieces.back().slice.data(), pieces.back().slice.size() + slice.size()};
    else
      pieces.push_back({slice, {}});
  }
  void add_text(std::string text) {
    if (text.empty()) return;
    size += text.size();
    pieces.push_back({{}, std::move(text)});
  }
  // As field `number` of an outer message.
  void add_message(uint32_t number, Rope inner) {
    std::string head;
    append_varint(head, number << 3 | 2);
    append_varint(head, inner.size);
    add_text(std::move(head));
    size += inner.size;
    for (Piece& piece : inner.pieces) pieces.push_back(std::move(piece));
  }
};

class Annotator {
public:
  Annotator(const MappedFile& file, std::string_view prefix, const std::unordered_map<uint64_t, Properties>& by_node)
      : file_(file), bytes_(file.bytes()), prefix_(prefix), by_node_(by_node) {}

  Rope model() {
    return rewrite(bytes_, [&](const WireField& f, Rope& out) {
      if (f.number != onnx::ModelProto::kGraphFieldNumber || f.type != 2) return false;
      out.add_message(f.number, graph(f.bytes, 0));
      return true;
    });
  }

private:
  // Copies a message field by field; `each` may take a field over.
  template <class F> Rope rewrite(std::string_view message, F&& each) {
    Rope out;
    WireReader reader(message, bytes_);
    const char* from = message.data();
    for (WireField f; reader.next(f);) {
      const char* to = reader.position();
      if (!each(f, out)) out.add({from, static_cast<size_t>(to - from)});
      from = to;
    }
    out.add({from, static_cast<size_t>(message.data() + message.size() - from)});
    return out;
  }

  Rope graph(std::string_view message, int depth) {
    return rewrite(message, [&](const WireField& f, Rope& out) {
      if (f.type == 2 && f.number == onnx::GraphProto::kInitializerFieldNumber) file_.release_before(f.bytes.data());
      if (f.type != 2 || f.number != onnx::GraphProto::kNodeFieldNumber || depth > limits::nesting_depth) return false;
      out.add_message(f.number, node(f.bytes, depth));
      return true;
    });
  }

  Rope node(std::string_view message, int depth) {
    Rope out = rewrite(message, [&](const WireField& f, Rope& rope) {
      if (f.type != 2) return false;
      if (f.number == onnx::NodeProto::kAttributeFieldNumber) {
        rope.add_message(f.number, attribute(f.bytes, depth));
        return true;
      }
      return f.number == onnx::NodeProto::kMetadataPropsFieldNumber && is_old(f.bytes);
    });
    const auto at = by_node_.find(static_cast<uint64_t>(message.data() - bytes_.data()));
    if (at == by_node_.end()) return out;
    std::string added;
    for (const auto& [key, value] : at->second) {
      std::string entry;
      append_field(entry, onnx::StringStringEntryProto::kKeyFieldNumber, key);
      append_field(entry, onnx::StringStringEntryProto::kValueFieldNumber, value);
      append_field(added, onnx::NodeProto::kMetadataPropsFieldNumber, entry);
    }
    out.add_text(std::move(added));
    return out;
  }

  Rope attribute(std::string_view message, int depth) {
    return rewrite(message, [&](const WireField& f, Rope& out) {
      if (f.type != 2 || (f.number != onnx::AttributeProto::kGFieldNumber && f.number != onnx::AttributeProto::kGraphsFieldNumber)) return false;
      out.add_message(f.number, graph(f.bytes, depth + 1));
      return true;
    });
  }

  bool is_old(std::string_view entry) const {
    WireReader reader(entry, bytes_);
    for (WireField f; reader.next(f);)
      if (f.type == 2 && f.number == onnx::StringStringEntryProto::kKeyFieldNumber) return f.bytes.starts_with(prefix_);
    return false;
  }

  const MappedFile& file_;
  std::string_view bytes_, prefix_;
  const std::unordered_map<uint64_t, Properties>& by_node_;
};

class Descriptor {
public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  int get() const { return fd_; }

private:
  int fd_;
};

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// Lets the kernel copy; by hand where it cannot (other file systems).
bool copy_range(int from, int to, uint64_t offset, std::string_view slice) {
  off_t at = static_cast<off_t>(offset);
  size_t left = slice.size();
  while (left > 0) {
    const ssize_t n = ::copy_file_range(from, &at, to, nullptr, left, 0);
    if (n > 0) {
      left -= static_cast<size_t>(n);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    break;
  }
  std::string buffer(std::min<size_t>(left, size_t{1} << 20), '\0');
  while (left > 0) {
    const ssize_t n = ::pread(from, buffer.data(), std::min(left, buffer.size()), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || !write_all(to, {buffer.data(), static_cast<size_t>(n)})) return false;
    at += n, left -= static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

Status write_annotated(const std::string& source, const std::string& target, std::string_view prefix,
                       const std::unordered_map<uint64_t, Properties>& by_node) {
  const Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(source);
  if (!file) return file.error();
  struct stat a {}, b {};
  if (::stat(source.c_str(), &a) == 0 && ::stat(target.c_str(), &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
    return error("usage", "would overwrite the model it reads", {.file = target}, "--annotate another file");
  const Rope rope = Annotator(**file, prefix, by_node).model();
  const Descriptor in(::open(source.c_str(), O_RDONLY | O_CLOEXEC));
  const Descriptor out(::open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (in.get() < 0 || out.get() < 0) return error("file-missing", std::strerror(errno), {.file = in.get() < 0 ? source : target}, "check the folder and its rights");
  for (const Rope::Piece& piece : rope.pieces) {
    constexpr size_t small = 64 << 10;
    const bool copied = !piece.text.empty() ? write_all(out.get(), piece.text)
                        : piece.slice.size() < small ? write_all(out.get(), piece.slice)
                        : copy_range(in.get(), out.get(), static_cast<uint64_t>(piece.slice.data() - (*file)->bytes().data()), piece.slice);
    if (!copied) return error("file-missing", "cannot be written: " + std::string(std::strerror(errno)), {.file = target}, "is the disk full?");
  }
  return Ok{};
}

}  // namespace roofcast
