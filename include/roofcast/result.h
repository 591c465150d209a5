// Result<T>: a value, or the one Diagnostic that says why there is none.
//
//   Result<Model> model = load("m.onnx", {});
//   if (!model) { std::cerr << to_string(model.error()) << '\n'; return model.error().exit_code(); }
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace roofcast {

enum class Severity : uint8_t { note, warning, error };

// Where a fault lies. Parts that do not apply are absent.
struct Where {
  std::optional<std::string> file;
  std::optional<std::string> node;
  std::optional<uint64_t> byte;
  std::optional<uint64_t> line;
};

// One fault: what (code, message), where, and what to do about it (hint, part of the message).
struct Diagnostic {
  Severity severity = Severity::error;
  std::string code;  // a kebab-case word from lib/support/diagnostic.h
  std::string message;
  Where where;
  std::string hint;

  // The process exit code that this fault means: 2 bad input, 3 no device, 70 a bug of ours.
  int exit_code() const;
};

// "roofcast: error[onnx-truncated]: m.onnx, byte 10482: message; hint"
std::string to_string(const Diagnostic&);

template <class T> class [[nodiscard]] Result {
public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Diagnostic diagnostic) : state_(std::in_place_index<1>, std::move(diagnostic)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  Diagnostic& error() { return std::get<1>(state_); }
  const Diagnostic& error() const { return std::get<1>(state_); }

private:
  std::variant<T, Diagnostic> state_;
};

// Success without a value.
struct Ok {};
using Status = Result<Ok>;

}  // namespace roofcast
