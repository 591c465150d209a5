#include "report/views.h"
#include "support/units.h"

#include <fmt/format.h>

#include <algorithm>

namespace roofcast {
namespace {

// "MatMul Div Add Softmax MatMul", runs of one op folded, not longer than a line allows.
std::string chain(const FusionCandidate& c) {
  constexpr size_t most = 8;
  std::vector<std::string> parts;
  for (size_t i = 0; i < c.ops.size();) {
    size_t same = 1;
    while (i + same < c.ops.size() && c.ops[i + same] == c.ops[i]) ++same;
    parts.push_back(same == 1 ? c.ops[i] : fmt::format("{}×{}", same, c.ops[i]));
    i += same;
  }
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i == most - 1 && parts.size() > most) return text + fmt::format(" … {}", parts.back());
    text += (i ? " " : "") + parts[i];
  }
  return text;
}

std::string runtimes(const FusionCandidate& c) {
  std::string text;
  for (const Implementation& i : c.implemented_by) text += (text.empty() ? "" : ", ") + i.runtime;
  return text;
}

Table table_of(const FusionPlan& p, const ViewOptions& view, size_t shown) {
  Table t(view.color);
  t.column("saves", Align::right), t.column("×", Align::right), t.column("before", Align::right), t.column("after", Align::right);
  t.column("group"), t.column("ops"), t.column("bytes saved", Align::right), t.column("launches", Align::right), t.column("bound"), t.column("who has it");
  for (size_t i = 0; i < shown; ++i) {
    const FusionCandidate& c = p.candidates[i];
    const auto n = static_cast<double>(c.count);
    t.row({p.model_time_before > 0 ? format_share((c.time_before - c.time_after) * n / p.model_time_before) : "–", std::to_string(c.count),
           format_seconds(c.time_before), format_seconds(c.time_after), c.label.value_or("–"), chain(c), format_bytes(c.bytes_saved * n),
           std::to_string(c.launches_saved * c.count), c.bound_before == c.bound_after ? c.bound_after : c.bound_before + " → " + c.bound_after, runtimes(c)});
  }
  return t;
}

std::string summary(const FusionPlan& p) {
  std::string text;
  if (p.model_time_after > 0)
    text += fmt::format("model {} → {} ({:.2f}×), {} time model; compute-bound groups gain nothing and are not listed\n", format_seconds(p.model_time_before),
                        format_seconds(p.model_time_after), p.model_time_before / p.model_time_after, p.time_model);
  std::string fused;
  for (const std::string& op : p.already_fused) fused += (fused.empty() ? "" : ", ") + op;
  if (!fused.empty()) text += "fused in the file already: " + fused + "\n";
  if (p.in_bodies) text += fmt::format("{} ops in bodies of Loop, If and Scan are not searched\n", *p.in_bodies);
  return text;
}

}  // namespace

std::string fusion_text(const FusionPlan& p, const ViewOptions& view) {
  const size_t shown = view.top == 0 ? p.candidates.size() : std::min(view.top, p.candidates.size());
  std::string out = fmt::format("{} on {}{}: {} kinds of groups\n\n", p.file, p.hardware, p.layout ? ", one rank of " + p.layout->text() : "", p.candidates.size());
  if (shown > 0) out += table_of(p, view, shown).text();
  if (shown < p.candidates.size()) out += fmt::format("… {} more (--top 0)\n", p.candidates.size() - shown);
  if (p.candidates.empty()) out += "no group of ops would run faster as one kernel\n";
  out += "\n";
  for (size_t i = 0; i < std::min<size_t>(shown, 3); ++i)
    out += fmt::format("{}: {}\n", p.candidates[i].label.value_or(p.candidates[i].nodes.front()), p.candidates[i].why);
  out += summary(p);
  if (p.applied) out += "\n" + analysis_text(*p.applied, view);
  return out;
}

std::string fusion_markdown(const FusionPlan& p, const ViewOptions& view) {
  const size_t shown = view.top == 0 ? p.candidates.size() : std::min(view.top, p.candidates.size());
  return table_of(p, view, shown).markdown() + "\n" + summary(p);
}

std::string fusion_csv(const FusionPlan& p) {
  Table t;
  for (const char* name : {"id", "label", "count", "ops", "bytes_saved", "launches_saved", "time_before", "time_after", "speedup", "bound_before", "bound_after", "on_chip_bytes", "why"})
    t.column(name);
  for (const FusionCandidate& c : p.candidates) {
    std::string ops;
    for (const std::string& op : c.ops) ops += (ops.empty() ? "" : " ") + op;
    t.row({std::to_string(c.id), c.label.value_or(""), std::to_string(c.count), ops, fmt::format("{}", c.bytes_saved), std::to_string(c.launches_saved),
           fmt::format("{}", c.time_before), fmt::format("{}", c.time_after), fmt::format("{}", c.speedup), c.bound_before, c.bound_after,
           fmt::format("{}", c.on_chip_bytes), c.why});
  }
  return t.csv();
}

}  // namespace roofcast
