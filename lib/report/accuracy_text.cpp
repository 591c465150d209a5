#include "report/views.h"
#include "support/units.h"

#include <fmt/format.h>

namespace roofcast {
namespace {

std::string percent(const std::optional<double>& share) { return share ? fmt::format("{:.1f}", 100 * *share) : "–"; }

// The rows behind the table, and what is not in it.
std::string finish(const Accuracy& a, std::string out) {
  // Times of single ops are seconds; cases of layouts are in their own metric.
  const bool layouts = !a.groups.empty() && a.groups[0].set;
  auto amount = [&](double v) { return layouts ? format_significant(v) : format_seconds(v); };
  for (const WorstRow& w : a.worst) {
    out += fmt::format("\n{}:{}  {}\n  {}\n  measured {}, predicted {} ({:+.0f} %)\n", w.file, w.line, w.family, w.text,
                       amount(w.measured), amount(w.predicted), 100 * w.error);

    for (const PredictionTerm& t : w.terms) out += fmt::format("    {:<18} {:>9}  {}\n", t.name, format_seconds(t.seconds), t.why);
  }
  out += "\n";
  for (const UnpredictedRows& u : a.unpredicted) out += fmt::format("not predicted: {} rows: {}\n", u.rows, u.reason);
  if (a.unpredicted.empty()) out += "every row has a prediction\n";
  return out;
}

}  // namespace

std::string ablation_text(const Ablation& a, bool color, bool markdown) {
  Table table(color);
  for (const char* header : {"sort of kernel", "constant", "what it stands for"}) table.column(header);
  for (const char* header : {"rows", "median %", "without", "p90 %", "without"}) table.column(header, Align::right);
  for (const AblationRow& r : a.rows)
    table.row({r.use, r.constant, r.meaning, std::to_string(r.rows), percent(r.median_with), percent(r.median_without), percent(r.p90_with), percent(r.p90_without)});
  return markdown ? table.markdown() : table.text();
}

std::string accuracy_text(const Accuracy& a, bool color, bool markdown) {
  Table table(color);
  if (!a.groups.empty() && a.groups[0].set) {
    table.column("set"), table.column("model");
    for (const char* header : {"predicted", "of", "MAPE %", "median %", "p90 %", "bias %", "Spearman", "top-1 %", "regret %"}) table.column(header, Align::right);
    for (const AccuracyGroup& g : a.groups)
      table.row({*g.set, g.model, std::to_string(g.rows), std::to_string(g.of_rows.value_or(g.rows)), percent(g.mape), percent(g.median_abs_error), percent(g.p90),
                 percent(g.bias), g.spearman ? fmt::format("{:.3f}", *g.spearman) : "–", percent(g.top1), percent(g.mean_regret)});
    return finish(a, markdown ? table.markdown() : table.text());
  }
  for (const char* header : {"family", "gpu", "source", "fitted", "model"}) table.column(header);
  for (const char* header : {"rows", "median %", "MAPE %", "p90 %", "bias %", "tau", "bound %"}) table.column(header, Align::right);
  for (const AccuracyGroup& g : a.groups)
    table.row({g.family + (g.bound ? "" : " (reported only)"), g.gpu, g.source, g.fitted, g.model, std::to_string(g.rows),
               percent(g.median_abs_error), percent(g.mape), percent(g.p90), percent(g.bias),
               g.kendall_tau ? fmt::format("{:.3f}", *g.kendall_tau) : "–", g.bound_agreement ? percent(g.bound_agreement) : ""});
  return finish(a, markdown ? table.markdown() : table.text());
}

}  // namespace roofcast
