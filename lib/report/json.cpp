#include "report/json.h"

#include <charconv>

namespace roofcast {

void JsonWriter::new_line() {
  if (!pretty_) return;
  if (static_cast<int>(has_items_.size()) > line_depth_) {
    if (text_.back() == ',') text_ += ' ';
    return;
  }
  text_ += '\n';
  text_.append(has_items_.size() * 2, ' ');
}

void JsonWriter::before_value() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (has_items_.empty()) return;
  if (has_items_.back()) text_ += ',';
  has_items_.back() = true;
  new_line();
}

void JsonWriter::open(char bracket) {
  before_value();
  text_ += bracket;
  has_items_.push_back(false);
}

void JsonWriter::close(char bracket) {
  const bool had_items = has_items_.back();
  const bool on_lines = static_cast<int>(has_items_.size()) <= line_depth_;
  has_items_.pop_back();
  if (had_items && pretty_ && on_lines) {
    text_ += '\n';
    text_.append(has_items_.size() * 2, ' ');
  }
  text_ += bracket;
}

void JsonWriter::key(std::string_view name) {
  before_value();
  after_key_ = true;
  value(name);
  text_ += pretty_ ? ": " : ":";
  after_key_ = true;
}

// Length of the valid UTF-8 sequence at `i`, or 0: over-long forms, surrogates and code points past
// U+10FFFF are not valid (RFC 3629).
static size_t utf8_length(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0u; };
  const unsigned a = byte(i), b = byte(i + 1), c = byte(i + 2), d = byte(i + 3);
  const auto tail = [](unsigned x) { return (x & 0xC0) == 0x80; };
  if (a < 0x80) return 1;
  if (a >= 0xC2 && a <= 0xDF) return tail(b) ? 2 : 0;
  if (a >= 0xE0 && a <= 0xEF)
    return tail(b) && tail(c) && !(a == 0xE0 && b < 0xA0) && !(a == 0xED && b > 0x9F) ? 3 : 0;
  if (a >= 0xF0 && a <= 0xF4)
    return tail(b) && tail(c) && tail(d) && !(a == 0xF0 && b < 0x90) && !(a == 0xF4 && b > 0x8F) ? 4 : 0;
  return 0;
}

void JsonWriter::value(std::string_view text) {
  before_value();
  text_ += '"';
  for (size_t i = 0; i < text.size();) {
    const unsigned char c = text[i];
    if (c == '"' || c == '\\') {
      text_ += '\\', text_ += text[i++];
    } else if (c < 0x20) {
      constexpr char hex[] = "0123456789abcdef";
      text_ += "\\u00", text_ += hex[c >> 4], text_ += hex[c & 15];
      ++i;
    } else if (const size_t length = utf8_length(text, i)) {
      text_.append(text.substr(i, length));
      i += length;
    } else {
      text_ += "\xEF\xBF\xBD";  // U+FFFD for a byte that is not UTF-8
      ++i;
    }
  }
  text_ += '"';
}

void JsonWriter::value(bool flag) { before_value(), text_ += flag ? "true" : "false"; }
void JsonWriter::value(int64_t number) { before_value(), text_ += std::to_string(number); }
void JsonWriter::value(uint64_t number) { before_value(), text_ += std::to_string(number); }

void JsonWriter::value(double number, int decimals) {
  before_value();
  char buffer[400];
  std::to_chars_result end;
  if (decimals >= 0)
    end = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::fixed, decimals);
  else if (std::floor(number) == number && std::fabs(number) < 1e21)
    end = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::fixed, 0);
  else
    end = std::to_chars(buffer, buffer + sizeof buffer, number);
  text_.append(buffer, end.ptr);
}

std::string error_to_json(const Diagnostic& diagnostic) {
  JsonWriter json;
  json.begin_object();
  json.key("error");
  write_json(json, diagnostic);
  json.end_object();
  return json.take() + "\n";
}

}  // namespace roofcast
