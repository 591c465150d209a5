// JSON of any result struct, by its `fields` (include/roofcast/fields.h).
//
//   std::string text = to_json("roofcast/analysis/1", analysis);
//
// An absent optional, an empty optional struct and a field of an unknown quantity are left out.
// Integers print as integers, doubles with the digits that round-trip (integral values below 1e15
// without a point); NaN and infinity do not occur in JSON, so they are left out too.
#pragma once

#include "roofcast/fields.h"
#include "roofcast/result.h"

#include <chrono>
#include <cmath>
#include <concepts>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace roofcast {

// Writes JSON text piece by piece, with commas and escapes in the right places.
class JsonWriter {
public:
  explicit JsonWriter(bool pretty = true) : pretty_(pretty) {}
  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  void key(std::string_view name);
  void value(std::string_view text);
  void value(bool flag);
  void value(int64_t number);
  void value(uint64_t number);
  void value(double number, int decimals = -1);
  void null() { before_value(), text_ += "null"; }
  std::string take() { return std::move(text_); }

  // Objects and arrays below this depth stay on one line.
  void set_line_depth(int depth) { line_depth_ = depth; }

private:
  void open(char bracket);
  void close(char bracket);
  void before_value();
  void new_line();

  std::string text_;
  std::vector<bool> has_items_;
  bool after_key_ = false;
  bool pretty_;
  int line_depth_ = 2;
};

template <class T> struct is_optional : std::false_type {};
template <class T> struct is_optional<std::optional<T>> : std::true_type {};
template <class T> struct is_vector : std::false_type {};
template <class T> struct is_vector<std::vector<T>> : std::true_type {};
template <class T> struct is_map : std::false_type {};
template <class T> struct is_map<std::map<std::string, T>> : std::true_type {};
template <class T>
struct is_map<std::vector<std::pair<std::string, T>>> : std::true_type {};  // keeps the order

template <class T> bool is_absent(const T& v) {
  if constexpr (is_optional<T>::value) return !v || is_absent(*v);
  else if constexpr (std::is_floating_point_v<T>) return !std::isfinite(v);
  else return false;
}

template <class T> void write_json(JsonWriter& json, const T& v) {
  if constexpr (is_optional<T>::value) {
    write_json(json, *v);
  } else if constexpr (is_map<T>::value) {
    json.begin_object();
    for (const auto& [name, item] : v)
      if (!is_absent(item)) json.key(name), write_json(json, item);
    json.end_object();
  } else if constexpr (is_vector<T>::value) {
    json.begin_array();
    for (const auto& item : v) write_json(json, item);
    json.end_array();
  } else if constexpr (std::is_same_v<T, std::chrono::nanoseconds>) {
    json.value(static_cast<double>(v.count()) * 1e-9, 9);  // seconds
  } else if constexpr (std::is_same_v<T, bool>) {
    json.value(v);
  } else if constexpr (std::is_floating_point_v<T>) {
    json.value(static_cast<double>(v));
  } else if constexpr (std::is_unsigned_v<T>) {
    json.value(static_cast<uint64_t>(v));
  } else if constexpr (std::is_integral_v<T>) {
    json.value(static_cast<int64_t>(v));
  } else if constexpr (std::is_convertible_v<T, std::string_view>) {
    json.value(std::string_view(v));
  } else {
    json.begin_object();
    fields([&](std::string_view name, const auto& item, Unit = Unit::none, std::string_view = {}) {
      if (!is_absent(item)) json.key(name), write_json(json, item);
    }, v);
    json.end_object();
  }
}

template <class F> void fields(F&& field, const Where& w) {
  field("file", w.file, Unit::none, "file that the fault is in");
  field("node", w.node, Unit::none, "node that the fault is at");
  field("byte", w.byte, Unit::byte, "offset in the file");
  field("line", w.line, Unit::count, "line of the file, from 1");
}

// As a warning in a document, or the body of {"error": …}.
template <class F> void fields(F&& field, const Diagnostic& d) {
  field("code", d.code, Unit::none, "word from the list of codes");
  field("message", d.hint.empty() ? d.message : d.message + "; " + d.hint, Unit::none,
        "what is wrong and what to do");
  field("where", d.where, Unit::none, "where it is wrong");
}

// A whole document: its schema, then the fields of `result` ("warnings" among them).
template <class T> std::string to_json(std::string_view schema, const T& result) {
  JsonWriter json;
  json.begin_object();
  json.key("schema"), json.value(schema);
  fields([&](std::string_view name, const auto& item, Unit = Unit::none, std::string_view = {}) {
    if (!is_absent(item)) json.key(name), write_json(json, item);
  }, result);
  json.end_object();
  return json.take() + "\n";
}

// {"error": {"code", "message", "where"}}
std::string error_to_json(const Diagnostic&);

}  // namespace roofcast
