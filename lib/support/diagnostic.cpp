#include "support/diagnostic.h"

#include <algorithm>
#include <numeric>

namespace roofcast {
namespace {

constexpr CodeInfo codes[] = {
    {"usage", 2, "a command line that makes no sense"},
    {"file-missing", 2, "a file that cannot be opened or read"},
    {"file-kind", 2, "a file of another kind than the command takes"},
    {"onnx-truncated", 2, "a length in the file reaches past its end"},
    {"onnx-wire-type", 2, "bytes that are not protobuf, or not an ONNX model"},
    {"onnx-too-deep", 2, "nesting beyond the limit"},
    {"onnx-too-large", 2, "more nodes than the limit, after functions are inlined"},
    {"onnx-cycle", 2, "a node needs its own output"},
    {"onnx-recursive-function", 2, "a function calls itself"},
    {"onnx-duplicate-name", 2, "two values of one name"},
    {"onnx-missing-input", 2, "a node reads a value that nothing makes"},
    {"onnx-attribute", 2, "an attribute that is missing or has a wrong type or value"},
    {"dim-overflow", 2, "a size beyond 2^62"},
    {"dim-negative", 2, "a size below zero"},
    {"type-mismatch", 2, "an element type that the op does not take"},
    {"rank-mismatch", 2, "a number of dims that the op does not take"},
    {"dim-mismatch", 2, "two dims that must be equal are not"},
    {"value-info-contradicts", 0, "the file's own shape differs from the inferred one"},
    {"symbol-unknown", 2, "--set names a symbol that the model does not have"},
    {"shape-contradicts", 2, "--shape does not fit the input's dims in the file"},
    {"symbol-assumed", 0, "a symbol was not set and 1, its bound or its expected share is used"},
    {"config-json", 2, "a config.json that does not parse"},
    {"config-key", 2, "a key of a config.json that is missing or out of bounds"},
    {"config-model-type", 2, "a model_type that is not known"},
    {"op-unknown", 0, "an operator that the op table does not have"},
    {"ops-key", 2, "a key, name or formula in a file of custom ops that is wrong"},
    {"op-no-work", 0, "an operator whose cost has no formula, with the reason"},
    {"size-data-dependent", 0, "a size that only data decides"},
    {"hw-unknown", 2, "no hardware of that name"},
    {"hw-key", 2, "a key or value in a hardware file that is wrong"},
    {"hw-no-source", 2, "a figure in a hardware file without a source"},
    {"model-stands-in", 0, "the kernel model has no constants of this device; the ideal one stands in"},
    {"peak-missing", 0, "the hardware file lacks the peak of this dtype"},
    {"layout-indivisible", 2, "a dim that does not divide by its axis"},
    {"layout-devices", 2, "axis sizes that do not multiply to the devices"},
    {"layout-batch", 2, "a batch that data parallelism and microbatches cannot divide"},
    {"layout-experts", 2, "expert parallelism without experts, or that does not divide them"},
    {"layout-stages", 2, "more pipeline stages than the model has blocks"},
    {"layout-pin", 2, "a pinned sharding that names nothing or that an op cannot take"},
    {"layout-link", 2, "ranks that no link of the hardware joins"},
    {"layout-replicated", 0, "an op that every rank computes whole, with the reason"},
    {"device-missing", 3, "the device that was asked for is not there"},
    {"device-unsteady", 0, "something that disturbs measured times"},
    {"op-not-run", 0, "an op that is not timed, with the reason"},
    {"interrupted", 0, "a run that was ended early; what it had is kept"},
    {"trace-truncated", 0, "a trace that ends in the middle"},
    {"trace-kind", 2, "a file that is no trace, or of a kind not read"},
    {"sqlite-schema", 2, "a trace database that lacks what is needed"},
    {"ir-syntax", 2, "textual IR that does not parse"},
    {"ir-invalid", 70, "a graph that breaks an invariant after a pass"},
    {"pass-unknown", 2, "no pass of that name"},
    {"check-failed", 1, "a check that the user asked for failed"},
    {"internal", 70, "a bug of ours"},
};

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::span<const CodeInfo> diagnostic_codes() { return codes; }

int Diagnostic::exit_code() const {
  for (const CodeInfo& info : codes)
    if (info.code == code) return severity == Severity::error && info.exit_code == 0 ? 2 : info.exit_code;
  return 70;
}

Diagnostic error(std::string_view code, std::string message, Where where, std::string hint) {
  return {Severity::error, std::string(code), std::move(message), std::move(where), std::move(hint)};
}

Diagnostic warning(std::string_view code, std::string message, Where where, std::string hint) {
  return {Severity::warning, std::string(code), std::move(message), std::move(where),
          std::move(hint)};
}

std::string to_string(const Diagnostic& d) {
  constexpr const char* words[] = {"note", "warning", "error"};
  std::string text = "roofcast: " + std::string(words[static_cast<int>(d.severity)]) + "[" + d.code + "]: ";
  std::string place;
  auto add = [&](const std::string& part) { place += (place.empty() ? "" : ", ") + part; };
  if (d.where.file) add(*d.where.file);
  if (d.where.line) add("line " + std::to_string(*d.where.line));
  if (d.where.byte) add("byte " + std::to_string(*d.where.byte));
  if (d.where.node) add("node \"" + *d.where.node + "\"");
  if (!place.empty()) text += place + ": ";
  text += d.message;
  if (!d.hint.empty()) text += "; " + d.hint;
  // A diagnostic is one line whatever the file's names hold.
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return text;
}

std::vector<std::string> nearest_names(std::string_view wanted, const std::vector<std::string>& all,
                                       size_t most) {
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const std::string& name : all) {
    const bool contains = !wanted.empty() && name.find(wanted) != std::string::npos;
    const size_t distance = contains ? 0 : edit_distance(wanted, name);
    if (contains || distance <= std::max<size_t>(2, wanted.size() / 3)) ranked.emplace_back(distance, name);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (auto& [distance, name] : ranked)
    if (names.size() < most) names.push_back(std::move(name));
  return names;
}

}  // namespace roofcast
