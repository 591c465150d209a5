#include "report/views.h"
#include "support/units.h"

#include <fmt/format.h>

namespace roofcast {
namespace {

std::string share(const std::optional<double>& v) { return v ? format_share(*v) : "–"; }

void add_columns(Table& t) {
  t.column("layout");
  for (const char* name : {"step", "tokens/s", "MFU", "HFU", "T_math", "T_hbm", "T_net", "exposed", "bubble", "memory"}) t.column(name, Align::right);
  t.column("");
}

void add_row(Table& t, const LayoutCandidate& c) {
  t.row({c.text, format_seconds(c.time), c.tokens_per_s ? format_significant(*c.tokens_per_s) : "–", share(c.mfu), share(c.hfu),
         format_seconds(c.t_math), format_seconds(c.t_hbm), format_seconds(c.t_net), format_seconds(c.t_net_exposed), format_seconds(c.bubble),
         format_bytes(c.memory.total), c.fits ? (c.pareto ? "pareto" : "") : "does not fit"});
}

}  // namespace

std::string layouts_text(const LayoutSearch& s, const ViewOptions& view) {
  std::string out = fmt::format("{} on {}, {}, global batch {}: {} layouts, {} fit, {}\n\n", s.file, s.hardware, s.phase, s.global_batch, s.searched,
                                s.feasible, format_seconds(s.seconds));
  if (!s.scaling.empty()) {
    Table t(view.color);
    for (const char* name : {"devices", "step", "tokens/s", "MFU", "HFU", "efficiency", "exposed"}) t.column(name, Align::right);
    t.column("best layout"), t.column("");
    for (const ScalingPoint& p : s.scaling)
      t.row({std::to_string(p.devices), format_seconds(p.time), p.tokens_per_s ? format_significant(*p.tokens_per_s) : "–", share(p.mfu), share(p.hfu),
             share(p.efficiency), format_seconds(p.t_net_exposed), p.layout, p.fits ? "" : "does not fit"});
    out += t.text();
    out += s.communication_from ? fmt::format("exposed communication takes most of the step from {} devices on\n\n", *s.communication_from)
                                : "compute takes most of the step at every size\n\n";
  }
  Table t(view.color);
  add_columns(t);
  for (const LayoutCandidate& c : s.candidates) add_row(t, c);
  if (s.guess) add_row(t, *s.guess);
  out += t.text() + "\n";
  if (s.feasible == 0 && s.best && s.best->why_not) out += "none fits; the smallest " + *s.best->why_not + "\n";
  else if (s.best && s.best->why) out += "best: " + *s.best->why + "\n";
  if (s.guess && s.guess->why) out += "yours, " + s.guess->text + ": " + *s.guess->why + "\n";
  if (!s.best) return out;
  const LayoutMemory& m = s.best->memory;
  out += fmt::format("memory of the best, stage {}: weights {}, gradients {}, optimizer {}, activations {}, KV cache {}, workspace {}\n", m.worst_stage,
                     format_bytes(m.weights), format_bytes(m.gradients), format_bytes(m.optimizer), format_bytes(m.activations), format_bytes(m.kv_cache),
                     format_bytes(m.workspace));
  if (s.best->collectives.empty()) return out;
  out += "\n" + collectives_text(s.best->collectives, view);
  return out;
}

std::string collectives_text(const std::vector<CollectiveRow>& rows, const ViewOptions& view) {
  Table t(view.color);
  t.column("collective"), t.column("axis"), t.column("phase");
  for (const char* name : {"ranks", "bytes", "sent", "×", "T_net", "exposed"}) t.column(name, Align::right);
  t.column("algorithm"), t.column("why");
  for (const CollectiveRow& c : rows)
    t.row({c.kind, c.axis, c.phase, std::to_string(c.ranks), format_bytes(c.bytes), format_bytes(c.wire_bytes), std::to_string(c.count),
           c.t_net ? format_seconds(*c.t_net) : "–", c.exposed ? format_seconds(*c.exposed) : "–", c.algorithm, c.why});
  return t.text();
}

std::string layouts_csv(const LayoutSearch& s) {
  Table t;
  for (const char* name : {"layout", "devices", "time", "tokens_per_s", "mfu", "hfu", "fits", "t_math", "t_hbm", "t_net", "t_net_exposed", "bubble", "memory"}) t.column(name);
  auto number = [](const std::optional<double>& v) { return v ? fmt::format("{}", *v) : std::string(); };
  for (const LayoutCandidate& c : s.candidates)
    t.row({c.text, std::to_string(c.devices), number(c.time), number(c.tokens_per_s), number(c.mfu), number(c.hfu), c.fits ? "true" : "false",
           number(c.t_math), number(c.t_hbm), number(c.t_net), number(c.t_net_exposed), number(c.bubble), number(c.memory.total)});
  return t.csv();
}

}  // namespace roofcast
