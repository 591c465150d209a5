#include "report/views.h"
#include "support/units.h"

#include <algorithm>
#include <fmt/format.h>

namespace roofcast {

std::string sweep_text(const Sweep& s, bool color) {
  std::string out;
  const bool several = std::any_of(s.points.begin(), s.points.end(), [&](const SweepPoint& p) { return p.hw != s.points.front().hw; });
  Table table(color);
  if (!s.points.empty())
    for (const auto& [name, value] : s.points.front().symbols) table.column(name, Align::right);
  if (several) table.column("hardware");
  for (const char* name : {"time", "T_math", "T_hbm", "FLOP/B", "MFU", "memory"}) table.column(name, Align::right);
  table.column("bound"), table.column("");
  auto seconds = [](const std::optional<double>& v) { return v ? format_seconds(*v) : std::string("–"); };
  for (const SweepPoint& p : s.points) {
    std::vector<std::string> cells;
    for (const auto& [name, value] : p.symbols) cells.push_back(std::to_string(value));
    if (several) cells.push_back(p.hw);
    for (const auto* v : {&p.time, &p.t_math, &p.t_hbm}) cells.push_back(seconds(*v));
    cells.push_back(p.intensity ? format_significant(*p.intensity) : "–");
    cells.push_back(p.mfu ? format_share(*p.mfu) : "–");
    cells.push_back(p.peak_memory ? format_bytes(*p.peak_memory) : "–");
    cells.push_back(p.bound.value_or("–"));
    cells.push_back(p.fits.value_or(true) ? "" : "does not fit");
    table.row(std::move(cells));
  }
  out += table.text();
  for (const Goal& g : s.goals)
    out += fmt::format("{}{}: {}\n", several ? g.hw + ": " : "", g.until,
                       g.value ? fmt::format("{} = {}", g.symbol, *g.value) : "no " + g.symbol + " in the range");
  std::vector<const Knee*> shown;
  for (const Knee& k : s.knees) shown.push_back(&k);
  std::stable_sort(shown.begin(), shown.end(), [](const Knee* a, const Knee* b) { return (a->op == "model") > (b->op == "model") || ((a->op == "model") == (b->op == "model") && a->value < b->value); });
  constexpr size_t most = 12;
  for (size_t i = 0; i < shown.size() && i < most; ++i)
    out += fmt::format("knee {}{} = {}: {} {} → {}\n", several ? shown[i]->hw + " " : "", shown[i]->symbol, shown[i]->value, shown[i]->op, shown[i]->from, shown[i]->to);
  if (shown.size() > most) out += fmt::format("… {} more knees (--format json lists all)\n", shown.size() - most);
  if (s.formulas.flops) out += "FLOPs = " + *s.formulas.flops + "\n";
  if (s.formulas.bytes) out += "bytes = " + *s.formulas.bytes + "\n";
  return out;
}

std::string sweep_csv(const Sweep& s) {
  Table table;
  bool first = true;
  for (const SweepPoint& p : s.points) {
    std::vector<std::string> cells;
    for (const auto& [name, value] : p.symbols) {
      if (first) table.column(name);
      cells.push_back(std::to_string(value));
    }
    fields([&](std::string_view name, const auto& item, Unit, std::string_view) {
      if (name == "symbols" || name == "bound_shares" || name == "value") return;
      if (first) table.column(name);
      if (is_absent(item)) {
        cells.emplace_back();
        return;
      }
      JsonWriter json(false);
      write_json(json, item);
      std::string text = json.take();
      if (text.size() >= 2 && text.front() == '"') text = text.substr(1, text.size() - 2);
      cells.push_back(std::move(text));
    }, p);
    first = false;
    table.row(std::move(cells));
  }
  return table.csv();
}

}  // namespace roofcast
