// Amounts as algebra: what `analyze --symbolic` prints.
#include "report/views.h"

#include <fmt/format.h>
#include <map>

namespace roofcast {
namespace {

struct Line {
  const OpRow* row = nullptr;
  double count = 0;
};

// Rows with the same formulas are one line, in order of appearance.
std::vector<Line> lines_of(const Analysis& a) {
  std::vector<Line> lines;
  std::map<std::string, size_t> index;
  for (const OpRow& row : a.ops) {
    if (!row.formulas) continue;
    const auto [at, is_new] = index.try_emplace(row.op + "\n" + row.formulas->flops.value_or("") + "\n" + row.formulas->bytes.value_or(""), lines.size());
    if (is_new) lines.push_back({&row, 0});
    lines[at->second].count += row.count;
  }
  return lines;
}

std::string count_text(double count) { return fmt::format("{:g}", count); }

}  // namespace

std::string formulas_text(const Analysis& a, const ViewOptions& options) {
  Table table(options.color);
  table.column("×", Align::right), table.column("op"), table.column("FLOPs"), table.column("bytes");
  const std::vector<Line> lines = lines_of(a);
  const size_t shown = options.top == 0 ? lines.size() : std::min(lines.size(), options.top);
  for (size_t i = 0; i < shown; ++i)
    table.row({count_text(lines[i].count), lines[i].row->op, lines[i].row->formulas->flops.value_or("–"), lines[i].row->formulas->bytes.value_or("–")});
  std::string out = table.text();
  if (shown < lines.size()) out += fmt::format("  … {} more rows (--top 0)\n", lines.size() - shown);
  const Formulas& t = *a.totals.formulas;
  for (const auto& [name, value] : {std::pair("FLOPs", &t.flops), std::pair("  matrix", &t.matrix_flops), std::pair("  vector", &t.vector_flops),
                                    std::pair("bytes", &t.bytes), std::pair("wire bytes", &t.wire_bytes), std::pair("intensity", &t.intensity)})
    if (*value) out += fmt::format("{} = {}\n", name, **value);
  return out;
}

std::string formulas_latex(const Analysis& a, const ViewOptions& options) {
  std::string out = "\\begin{longtable}{rlll}\n$\\times$ & op & FLOPs & bytes \\\\ \\hline\n";
  const std::vector<Line> lines = lines_of(a);
  const size_t shown = options.top == 0 ? lines.size() : std::min(lines.size(), options.top);
  for (size_t i = 0; i < shown; ++i)
    out += fmt::format("{} & {} & ${}$ & ${}$ \\\\\n", count_text(lines[i].count), lines[i].row->op, lines[i].row->formulas->flops.value_or("-"), lines[i].row->formulas->bytes.value_or("-"));
  const Formulas& t = *a.totals.formulas;
  out += fmt::format("\\hline & total & ${}$ & ${}$ \\\\\n\\end{{longtable}}\n", t.flops.value_or("-"), t.bytes.value_or("-"));
  return out;
}

}  // namespace roofcast
