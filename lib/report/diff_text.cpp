#include "report/views.h"
#include "support/units.h"

#include <fmt/format.h>

namespace roofcast {
namespace {

std::string ratio_text(const Change& c) {
  if (!c.a) return "new";
  if (!c.b) return "gone";
  return c.ratio ? fmt::format("{:+.1f} %", 100 * (*c.ratio - 1)) : "–";
}

std::string seconds(const std::optional<double>& v) { return v ? format_seconds(*v) : "–"; }

}  // namespace

std::string diff_text(const Diff& d, const ViewOptions& options, bool markdown) {
  Table totals(options.color);
  totals.column("total"), totals.column("a", Align::right), totals.column("b", Align::right), totals.column("change", Align::right);
  auto value = [](const std::string& name, const std::optional<double>& v) {
    if (!v) return std::string("–");
    if (name.starts_with("t") && name != "tokens") return format_seconds(*v);
    if (name.find("flops") != name.npos) return format_flops(*v);
    if (name.starts_with("bytes") || name.find("memory") != name.npos || name == "wire_bytes") return format_bytes(*v);
    if (name == "mfu" || name == "hfu") return format_share(*v);
    return format_significant(*v);
  };
  for (const auto& [name, c] : d.totals) totals.row({name, value(name, c.a), value(name, c.b), ratio_text(c)});
  std::string out = fmt::format("a: {}\nb: {}\n\n", d.name_a, d.name_b) + (markdown ? totals.markdown() : totals.text());
  for (const auto& [title, rows] : {std::pair("op", &d.by_op), std::pair("scope", &d.by_scope), std::pair("node", &d.ops)}) {
    if (rows->empty()) continue;
    Table table(options.color);
    table.column(title), table.column("a", Align::right), table.column("b", Align::right), table.column("change", Align::right);
    const size_t shown = options.top == 0 ? rows->size() : std::min(rows->size(), options.top);
    for (size_t i = 0; i < shown; ++i) table.row({(*rows)[i].name, seconds((*rows)[i].a), seconds((*rows)[i].b), ratio_text((*rows)[i])});
    out += "\n" + (markdown ? table.markdown() : table.text());
    if (shown < rows->size()) out += fmt::format("  … {} more changed (--top 0)\n", rows->size() - shown);
  }
  return out;
}

}  // namespace roofcast
