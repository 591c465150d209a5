// Scans one Chrome-trace event, or any JSON value, in a buffer that may end anywhere.
//
//   {"ph": "X", "cat": "kernel", "name": "volta_sgemm", "pid": 0, "tid": 7, "ts": 12.345,
//    "dur": 1.5, "args": {"device": 0, "stream": 7, "correlation": 35}}
//
// Nothing is copied: texts are slices of the buffer as written, escapes included. The buffer must be
// followed by a readable NUL.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace roofcast::trace {

enum class Scan : uint8_t { ok, incomplete, bad };

struct Cursor {
  const char* at;
  const char* end;
};

// A value as written: the text inside the quotes of a string, or the characters of anything else.
struct RawValue {
  std::string_view text;
  bool is_string = false;
};

struct RawEvent {
  std::string_view phase, category, name;
  RawValue pid, tid, id;
  std::string_view time, duration;  // µs, decimal
  std::string_view args;            // with its braces; empty without
};

void skip_space(Cursor& c);
Scan scan_string(Cursor& c, std::string_view& text);  // from the opening quote
Scan scan_value(Cursor& c, RawValue& value);          // objects and arrays with their brackets
Scan scan_event(Cursor& c, RawEvent& event);          // from the opening brace

// Calls f(key, value) for the members of an object that was scanned before; stops where it cannot go on.
template <class F> void each_member(std::string_view object, F&& f) {
  Cursor c{object.data() + 1, object.data() + object.size()};
  while (true) {
    skip_space(c);
    if (c.at < c.end && *c.at == ',') ++c.at, skip_space(c);
    std::string_view key;
    RawValue value;
    if (c.at >= c.end || *c.at != '"' || scan_string(c, key) != Scan::ok) return;
    skip_space(c);
    if (c.at >= c.end || *c.at != ':') return;
    ++c.at, skip_space(c);
    if (scan_value(c, value) != Scan::ok) return;
    f(key, value);
  }
}

// Decimal µs → ns, digit by digit; more than three decimals are rounded. "0.-660" is how Kineto once
// wrote -0.660. Empty if it is no number or does not fit.
std::optional<int64_t> parse_microseconds(std::string_view text);
std::optional<int64_t> parse_integer(std::string_view text);
std::optional<uint64_t> parse_unsigned(std::string_view text);  // up to 2^64 - 1

// Escapes resolved; those that JSON does not know are kept as written ("torch\cuda").
std::string unescape(std::string_view text);

}  // namespace roofcast::trace
