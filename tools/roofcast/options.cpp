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
  app.add_option("MODEL", file, ".onnx file, or a Hugging Face config.json")->required();
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
  app.add_option("--form", form, "of a config.json: prefill, decode (one token on a KV cache) or train")
      ->check(CLI::IsMember({"prefill", "decode", "train"}))->capture_default_str()
      ->group("Model");
  app.add_option("--attention", attention, "of a config.json: one fused op, or eager products and softmax")
      ->check(CLI::IsMember({"fused", "eager"}))->capture_default_str()
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
  out.form = form, out.attention = attention;
  out.dtype = dtype, out.weight_dtype = weight_dtype, out.ops = ops;
  return out;
}

void MachineOptions::add_to(CLI::App& app) {
  app.add_option("--hw", hardware, "hardware: a name of `roofcast hw`, or a TOML file")->type_name("NAME|FILE")->capture_default_str()->group("Machine");
  app.add_option("--model", model, "time model")->check(CLI::IsMember({"ideal", "kernel"}))->capture_default_str()->group("Machine");
}

void LayoutFlags::add_layout_to(CLI::App& app) {
  app.add_option("--layout", layout, "axes dp tp pp cp ep, and mb, zero=0..3, sp, recompute=none|selective|full, vpp, schedule")
      ->type_name("dp=2,tp=4,…")->group("Layout");
}

void LayoutFlags::add_to(CLI::App& app) {
  add_layout_to(app);
  app.add_option("--shard", shard, "pin a tensor or node: 'pattern=axis:dim'")->type_name("PATTERN=AXIS:DIM")->allow_extra_args(false)->group("Layout");
  app.add_option("--devices", devices, "number of devices: 64, or 8..1024")->type_name("N")->group("Layout");
  app.add_option("--global-batch", global_batch, "batch of all devices together")->check(CLI::PositiveNumber)->type_name("N")->group("Layout");
  app.add_flag("--train", train, "a training step: forward, backward and optimizer")->group("Layout");
  app.add_option("--optimizer", optimizer, "of a training step")->check(CLI::IsMember({"adam", "adamw", "sgd"}))->capture_default_str()->group("Layout");
  app.add_option("--gradient-dtype", gradient_dtype, "type in which gradients are reduced (default fp32; with zero=2,3 as the weights)")->type_name("TYPE")->group("Layout");
  app.add_option("--dispatch-dtype", dispatch_dtype, "type in which tokens go to experts")->type_name("TYPE")->group("Layout");
  app.add_flag("--no-overlap", no_overlap, "collectives of gradients and of ZeRO wait for compute")->group("Layout");
}

Result<ParallelOptions> LayoutFlags::parse() const {
  ParallelOptions p;
  if (!layout.empty()) {
    Result<Layout> l = parse_layout(layout);
    if (!l) return std::move(l.error());
    p.layout = std::move(*l);
  }
  p.global_batch = global_batch, p.train = train, p.optimizer = optimizer == "adamw" ? "adam" : optimizer;
  p.overlap = !no_overlap, p.shard = shard;
  auto bits_of = [](const char* flag, const std::string& type) -> Result<int64_t> {
    static constexpr std::pair<std::string_view, int64_t> sizes[] = {{"fp32", 32}, {"bf16", 16}, {"fp16", 16}, {"fp8", 8}, {"int8", 8}, {"fp4", 4}, {"int4", 4}};
    for (const auto& [name, bits] : sizes)
      if (type == name) return bits;
    return error("usage", std::string(flag) + " " + type + " is not known", {}, "fp32, bf16, fp16, fp8, int8, fp4 or int4");
  };
  if (!dispatch_dtype.empty()) {
    const Result<int64_t> n = bits_of("--dispatch-dtype", dispatch_dtype);
    if (!n) return n.error();
    p.dispatch_bits = *n;
  }
  if (!gradient_dtype.empty()) {
    const Result<int64_t> n = bits_of("--gradient-dtype", gradient_dtype);
    if (!n) return n.error();
    p.gradient_bytes = std::max<int64_t>(1, *n / 8);
  }
  return p;
}

Result<std::vector<int64_t>> LayoutFlags::parse_devices() const {
  const auto fault = [&] { return error("usage", "--devices " + devices + " is not understood", {}, "write --devices 64, 8,16,32 or 8..1024"); };
  std::vector<int64_t> out;
  if (devices.empty()) return std::vector<int64_t>{8};
  if (const size_t dots = devices.find(".."); dots != devices.npos) {
    const std::string_view all = devices;
    const auto from = to_number(all.substr(0, dots)), to = to_number(all.substr(dots + 2));
    if (!from || !to || *from < 1 || *to < *from || *to > 1 << 20) return fault();
    for (int64_t n = *from; n <= *to; n *= 2) out.push_back(n);
    return out;
  }
  for (std::string_view piece : split(devices, ',')) {
    const auto n = to_number(piece);
    if (!n || *n < 1 || *n > 1 << 20) return fault();
    out.push_back(*n);
  }
  return out;
}

}  // namespace roofcast::cli
