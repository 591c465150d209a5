#include "report/views.h"
#include "support/units.h"

#include <fmt/format.h>

namespace roofcast {
namespace {

std::string percent(const std::optional<double>& share) { return share ? fmt::format("{:.1f}", 100 * *share) : "–"; }

}  // namespace

std::string accuracy_text(const Accuracy& a, bool color, bool markdown) {
  Table table(color);
  for (const char* header : {"family", "gpu", "source", "fitted", "model"}) table.column(header);
  for (const char* header : {"rows", "median %", "MAPE %", "p90 %", "bias %", "tau"}) table.column(header, Align::right);
  for (const AccuracyGroup& g : a.groups)
    table.row({g.family + (g.bound ? "" : " (reported only)"), g.gpu, g.source, g.fitted, g.model, std::to_string(g.rows),
               percent(g.median_abs_error), percent(g.mape), percent(g.p90), percent(g.bias),
               g.kendall_tau ? fmt::format("{:.3f}", *g.kendall_tau) : "–"});
  std::string out = markdown ? table.markdown() : table.text();
  for (const WorstRow& w : a.worst) {
    out += fmt::format("\n{}:{}  {}\n  {}\n  measured {}, predicted {} ({:+.0f} %)\n", w.file, w.line, w.family, w.text,
                       format_seconds(w.measured), format_seconds(w.predicted), 100 * w.error);
    for (const PredictionTerm& t : w.terms) out += fmt::format("    {:<18} {:>9}  {}\n", t.name, format_seconds(t.seconds), t.why);
  }
  out += "\n";
  for (const UnpredictedRows& u : a.unpredicted) out += fmt::format("not predicted: {} rows: {}\n", u.rows, u.reason);
  if (a.unpredicted.empty()) out += "every row has a prediction\n";
  return out;
}

}  // namespace roofcast
