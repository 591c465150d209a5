#include "options.h"

#include "support/diagnostic.h"

#include <charconv>

namespace roofcast::cli {
namespace {

std::optional<int64_t> to_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  return fault == std::errc() && end == text.data() + text.size() && !text.empty() ? std::optional(value) : std::nullopt;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t from = 0; from <= text.size();) {
    const size_t to = std::min(text.find(separator, from), text.size());
    parts.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

using Pair = std::pair<std::string_view, std::string_view>;

// "name=value"; the last '=' divides, since names of symbols may hold any character but that.
std::optional<Pair> key_value(std::string_view text) {
  const size_t equals = text.rfind('=');
  if (equals == text.npos || equals == 0 || equals + 1 == text.size()) return std::nullopt;
  return Pair{text.substr(0, equals), text.substr(equals + 1)};
}

std::optional<int64_t> to_element(std::string_view text) {
  if (text == "true") return 1;
  if (text == "false") return 0;
  return to_number(text);
}

// Items "name=…" parted by commas; a piece without '=' goes on with the item before it.
std::vector<std::string> items_of(const std::vector<std::string>& arguments) {
  std::vector<std::string> items;
  for (const std::string& argument : arguments)
    for (bool first = true; std::string_view piece : split(argument, ',')) {
      if (piece.find('=') != piece.npos || first || items.empty()) items.emplace_back(piece);
      else items.back() += "," + std::string(piece);
      first = false;
    }
  return items;
}

Diagnostic malformed(const char* flag, const std::string& item, const char* form) {
  return error("usage", std::string(flag) + " " + item + " is not understood", {}, std::string("write ") + flag + " " + form);
}

}  // namespace

void ModelOptions::add_to(CLI::App& app) {
  app.add_option("MODEL", file, ".onnx file")->required();
  add_symbols_to(app);
}

void ModelOptions::add_symbols_to(CLI::App& app) {
  app.add_option("--set", set, "sizes of symbols: batch=8,seq=2048; globs as 'u*=256'")
      ->type_name("NAME=N")
      ->allow_extra_args(false)
      ->group("Model");
  app.add_option("--shape", shape, "dims of an input: input_ids=1x512; scalar for rank 0")
      ->type_name("INPUT=DIMS")
      ->allow_extra_args(false)
      ->group("Model");
  app.add_option("--value", value, "value of a small input: n=3, or 1,2,3")
      ->type_name("INPUT=N")
      ->allow_extra_args(false)
      ->group("Model");
  app.add_option("--dtype", dtype, "what-if type of floating-point tensors: bf16, tf32, …")
      ->type_name("TYPE")
      ->group("Model");
  app.add_option("--weight-dtype", weight_dtype, "what-if type of weights")
      ->type_name("TYPE")
      ->group("Model");
  app.add_option("--ops", ops, "formulas of custom ops (docs/custom-ops.md)")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->group("Model");
  app.add_flag("--causal", causal, "attention counts only the pairs inside the causal mask")->group("Model");
}

Result<LoadOptions> ModelOptions::parse() const {
  LoadOptions out;
  for (const std::string& item : items_of(set)) {
    const auto pair = key_value(item);
    const auto number = pair ? to_number(pair->second) : std::nullopt;
    if (!number || *number < 0) return malformed("--set", item, "batch=8,seq=2048");
    out.set.push_back({std::string(pair->first), *number});
  }
  for (const std::string& item : items_of(shape)) {
    const auto pair = key_value(item);
    if (!pair) return malformed("--shape", item, "input_ids=1x512");
    std::vector<int64_t> dims;
    if (pair->second != "scalar")
      for (std::string_view piece : split(pair->second, 'x')) {
        const auto number = to_number(piece);
        if (!number || *number < 0) return malformed("--shape", item, "input_ids=1x512");
        dims.push_back(*number);
      }
    out.shapes.push_back({std::string(pair->first), std::move(dims)});
  }
  for (const std::string& item : items_of(value)) {
    const auto pair = key_value(item);
    if (!pair) return malformed("--value", item, "n=3");
    std::vector<int64_t> elements;
    for (std::string_view piece : split(pair->second, ',')) {
      const auto number = to_element(piece);
      if (!number) return malformed("--value", item, "n=3");
      elements.push_back(*number);
    }
    out.values.push_back({std::string(pair->first), std::move(elements)});
  }
  out.dtype = dtype, out.weight_dtype = weight_dtype, out.ops = ops;
  return out;
}

void MachineOptions::add_to(CLI::App& app) {
  app.add_option("--hw", hardware, "hardware: a name of `roofcast hw`, or a TOML file")->type_name("NAME|FILE")->capture_default_str()->group("Machine");
  app.add_option("--model", model, "time model")->check(CLI::IsMember({"ideal"}))->capture_default_str()->group("Machine");
}

}  // namespace roofcast::cli
