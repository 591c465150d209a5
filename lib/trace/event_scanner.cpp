#include "trace/event_scanner.h"

#include <algorithm>
#include <charconv>

namespace roofcast::trace {
namespace {

// What a character outside of strings means. Letters that occur in no JSON word are a fault: they
// show at once that quotes have gone astray.
enum Mark : uint8_t { plain, quote, open, close, fault };

struct MarkTable {
  Mark of[256];
  constexpr MarkTable() : of() {
    for (Mark& m : of) m = fault;
    for (const char c : std::string_view(" \t\r\n,:+-.0123456789eEtrufalsnNIity")) at(c) = plain;
    at('"') = quote;
    at('{') = at('[') = open;
    at('}') = at(']') = close;
  }
  constexpr Mark& at(char c) { return of[static_cast<unsigned char>(c)]; }
};
constexpr MarkTable marks;

Mark mark_of(char c) { return marks.of[static_cast<unsigned char>(c)]; }

// Past the closing quote, from behind the opening one.
Scan skip_string_body(Cursor& c) {
  const char* p = c.at;
  while (true) {
    while (*p != '"' && *p != '\\' && *p != '\0') ++p;
    if (p >= c.end) return Scan::incomplete;
    if (*p == '"') break;
    p += *p == '\\' && p + 1 < c.end ? 2 : 1;
  }
  c.at = p + 1;
  return Scan::ok;
}

// Past the bracket that closes the one at the cursor.
Scan skip_brackets(Cursor& c) {
  Cursor inner = c;
  int depth = 0;
  while (true) {
    while (mark_of(*inner.at) == plain) ++inner.at;
    if (inner.at >= c.end) return Scan::incomplete;
    switch (mark_of(*inner.at++)) {
    case quote:
      if (skip_string_body(inner) == Scan::incomplete) return Scan::incomplete;
      break;
    case open: ++depth; break;
    case close:
      if (--depth == 0) {
        c.at = inner.at;
        return Scan::ok;
      }
      break;
    default: return Scan::bad;
    }
  }
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

void skip_space(Cursor& c) {
  while (*c.at == ' ' || *c.at == '\n' || *c.at == '\r' || *c.at == '\t') ++c.at;
}

Scan scan_string(Cursor& c, std::string_view& text) {
  const char* begin = ++c.at;
  if (const Scan scan = skip_string_body(c); scan != Scan::ok) return scan;
  text = {begin, static_cast<size_t>(c.at - begin - 1)};
  return Scan::ok;
}

Scan scan_value(Cursor& c, RawValue& value) {
  const char* begin = c.at;
  value.is_string = false;
  if (c.at >= c.end) return Scan::incomplete;
  switch (mark_of(*c.at)) {
  case quote: value.is_string = true; return scan_string(c, value.text);
  case open:
    if (const Scan scan = skip_brackets(c); scan != Scan::ok) return scan;
    break;
  case plain:
    while (mark_of(*c.at) == plain && *c.at != ',' && *c.at != ':' && *c.at > ' ') ++c.at;
    if (c.at >= c.end) return Scan::incomplete;
    if (c.at == begin) return Scan::bad;
    break;
  default: return Scan::bad;
  }
  value.text = {begin, static_cast<size_t>(c.at - begin)};
  return Scan::ok;
}

Scan scan_event(Cursor& c, RawEvent& event) {
  event = {};
  ++c.at;
  for (bool first = true;; first = false) {
    skip_space(c);
    if (c.at >= c.end) return Scan::incomplete;
    if (*c.at == '}') {
      ++c.at;
      return Scan::ok;
    }
    if (!first) {
      if (*c.at != ',') return Scan::bad;
      ++c.at, skip_space(c);
      if (c.at >= c.end) return Scan::incomplete;
    }
    if (*c.at != '"') return Scan::bad;
    std::string_view key;
    if (const Scan scan = scan_string(c, key); scan != Scan::ok) return scan;
    skip_space(c);
    if (c.at >= c.end) return Scan::incomplete;
    if (*c.at != ':') return Scan::bad;
    ++c.at, skip_space(c);
    RawValue value;
    if (const Scan scan = scan_value(c, value); scan != Scan::ok) return scan;
    switch (key.size()) {
    case 2:
      if (key == "ph") event.phase = value.text;
      else if (key == "ts") event.time = value.text;
      else if (key == "id") event.id = value;
      break;
    case 3:
      if (key == "cat") event.category = value.text;
      else if (key == "pid") event.pid = value;
      else if (key == "tid") event.tid = value;
      else if (key == "dur") event.duration = value.text;
      break;
    case 4:
      if (key == "name") event.name = value.text;
      else if (key == "args" && value.text.starts_with('{')) event.args = value.text;
      break;
    }
  }
}

std::optional<int64_t> parse_microseconds(std::string_view text) {
  bool negative = text.starts_with('-');
  size_t i = negative || text.starts_with('+');
  // Digits without the point, and how many of them stand behind it.
  unsigned __int128 digits = 0;
  constexpr unsigned __int128 most = static_cast<unsigned __int128>(1) << 96;
  int behind_point = 0, seen = 0;
  bool point = false, split = false;
  for (; i < text.size() && (is_digit(text[i]) || text[i] == '.'); ++i) {
    if (text[i] == '.') {
      if (point) return {};
      point = true;
      if (i + 1 < text.size() && text[i + 1] == '-') {
        split = true;
        ++i;
        break;
      }
    } else {
      if (digits > most) return {};
      digits = digits * 10 + static_cast<unsigned>(text[i] - '0');
      behind_point += point;
      ++seen;
    }
  }
  if (seen == 0) return {};
  int exponent = 0;
  if (split) {  // whole µs, then the rest in ns with a sign of its own
    const std::optional<int64_t> rest = parse_integer(text.substr(i));
    if (!rest || *rest < -999 || *rest > 0 || digits > INT64_MAX / 2000) return {};
    return -static_cast<int64_t>(digits) * 1000 + *rest;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    const std::optional<int64_t> value = parse_integer(text.substr(i + 1));
    if (!value || *value < -40 || *value > 40) return {};
    exponent = static_cast<int>(*value);
    i = text.size();
  }
  if (i != text.size()) return {};
  int shift = 3 - behind_point + exponent;  // ns = digits × 10^shift
  for (; shift > 0 && digits != 0; --shift) {
    if (digits > most) return {};
    digits *= 10;
  }
  bool round_up = false;
  for (; shift < 0 && (digits != 0 || round_up); ++shift) {
    round_up = digits % 10 >= 5;
    digits /= 10;
  }
  digits += round_up;
  if (digits > static_cast<unsigned __int128>(INT64_MAX / 4)) return {};
  const int64_t ns = static_cast<int64_t>(digits);
  return negative ? -ns : ns;
}

std::optional<int64_t> parse_integer(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || text.empty()) return {};
  // "7.0" is an integer to the writers that know only doubles.
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (!rest.empty() && rest.find_first_not_of("0", rest[0] == '.') != std::string_view::npos) return {};
  return value;
}

std::optional<uint64_t> parse_unsigned(std::string_view text) {
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || text.empty() || end != text.data() + text.size()) return {};
  return value;
}

std::string unescape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    constexpr std::string_view codes = "\"\\/bfnrt", values = "\"\\/\b\f\n\r\t";
    if (const size_t known = codes.find(c); known != std::string_view::npos) {
      out += values[known];
      continue;
    }
    unsigned code = 0;
    const char* hex = text.data() + i + 1;
    if (c == 'u' && i + 4 < text.size() &&
        std::from_chars(hex, hex + 4, code, 16).ptr == hex + 4) {
      i += 4;
      if (code < 0x80) {
        out += static_cast<char>(code);
      } else if (code < 0x800) {
        out += static_cast<char>(0xC0 | code >> 6);
        out += static_cast<char>(0x80 | (code & 0x3F));
      } else {  // half of a surrogate pair becomes bytes that the views show as U+FFFD
        out += static_cast<char>(0xE0 | code >> 12);
        out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
        out += static_cast<char>(0x80 | (code & 0x3F));
      }
    } else {
      (out += '\\') += c;
    }
  }
  return out;
}

}  // namespace roofcast::trace
