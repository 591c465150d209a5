// A walker over protobuf wire bytes in place: no objects, no copies, weights are stepped over.
//
//   WireReader message(bytes, base);
//   for (WireField f; message.next(f);) if (f.number == 7) graph = f.bytes;
//   if (message.fault()) …                       byte offset and what is wrong
//
// Format: https://protobuf.dev/programming-guides/encoding/
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace roofcast {

struct WireField {
  uint32_t number = 0;
  uint8_t type = 0;         // 0 varint, 1 64-bit, 2 bytes, 5 32-bit
  uint64_t scalar = 0;      // of types 0, 1, 5
  std::string_view bytes;   // of type 2

  int64_t integer() const { return static_cast<int64_t>(scalar); }
  float real() const {
    const uint32_t bits = static_cast<uint32_t>(scalar);
    float f;
    std::memcpy(&f, &bits, sizeof f);
    return f;
  }
};

class WireReader {
public:
  enum class Fault : uint8_t { none, truncated, malformed };

  // `file` is the whole file, so that faults have offsets in it; `message` lies within.
  WireReader(std::string_view message, std::string_view file)
      : at_(message.data()), end_(message.data() + message.size()), file_(file.data()) {}

  // The next field; false at the end or at a fault.
  bool next(WireField& field) {
    if (at_ == end_ || fault_ != Fault::none) return false;
    start_ = at_;
    uint64_t tag = 0;
    if (!varint(tag)) return false;
    field.number = static_cast<uint32_t>(tag >> 3);
    field.type = tag & 7;
    if (field.number == 0 || tag >> 35) return stop(Fault::malformed);
    switch (field.type) {
    case 0: return varint(field.scalar);
    case 1: return fixed(field.scalar, 8);
    case 5: return fixed(field.scalar, 4);
    case 2: {
      uint64_t length = 0;
      if (!varint(length)) return false;
      if (length > static_cast<uint64_t>(end_ - at_)) {
        wanted_ = length;
        return stop(Fault::truncated);
      }
      field.bytes = {at_, static_cast<size_t>(length)};
      at_ += length;
      return true;
    }
    default: return stop(Fault::malformed);
    }
  }

  const char* position() const { return at_; }              // behind the field read last
  Fault fault() const { return fault_; }
  uint64_t fault_offset() const { return static_cast<uint64_t>(start_ - file_); }
  uint64_t wanted() const { return wanted_; }               // truncated: bytes declared
  uint64_t left() const { return static_cast<uint64_t>(end_ - at_); }

private:
  bool stop(Fault fault) {
    fault_ = fault;
    return false;
  }
  bool varint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at_ == end_) return stop(Fault::truncated);
      const uint8_t byte = static_cast<uint8_t>(*at_++);
      if (shift == 63 && byte > 1) return stop(Fault::malformed);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (!(byte & 0x80)) return true;
    }
    return stop(Fault::malformed);
  }
  bool fixed(uint64_t& value, size_t size) {
    if (static_cast<size_t>(end_ - at_) < size) return stop(Fault::truncated);
    value = 0;
    std::memcpy(&value, at_, size);  // little-endian, as the wire is
    at_ += size;
    return true;
  }

  const char* at_;
  const char* end_;
  const char* file_;
  const char* start_ = nullptr;
  uint64_t wanted_ = 0;
  Fault fault_ = Fault::none;
};

// Appends a repeated integer field, packed or not; false if packed bytes are malformed.
inline bool append_integers(const WireField& field, std::vector<int64_t>& out, size_t most) {
  if (field.type == 0) {
    if (out.size() < most) out.push_back(field.integer());
    return true;
  }
  if (field.type != 2) return false;
  const char* at = field.bytes.data();
  const char* end = at + field.bytes.size();
  while (at != end && out.size() < most) {
    uint64_t value = 0;
    int shift = 0;
    for (;; shift += 7) {
      if (at == end || shift > 63) return false;
      const uint8_t byte = static_cast<uint8_t>(*at++);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (!(byte & 0x80)) break;
    }
    out.push_back(static_cast<int64_t>(value));
  }
  return true;
}

}  // namespace roofcast
