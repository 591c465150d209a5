// Two analyses side by side: what changed in total, by op, by scope and by node.
#pragma once

#include "roofcast/analyze.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace roofcast {

struct Change {
  std::optional<double> a, b, ratio;  // ratio: b / a
};
struct NamedChange : Change {
  std::string name;
};

struct Diff {
  Totals a, b;
  std::map<std::string, Change> totals;
  std::vector<NamedChange> ops;                  // times of nodes by name, the largest change first
  std::vector<NamedChange> by_op, by_scope;      // times, likewise
  std::string name_a, name_b;
  std::vector<Diagnostic> warnings;
};

Diff diff(const Analysis& a, const Analysis& b);

// A saved `analyze --format json` document. Codes: file-missing, file-kind.
Result<Analysis> read_analysis(const std::string& path);

// "time>+5%", "bytes_read>0%", "mfu<-2%": true if the change passes the limit. Absent: not understood.
std::optional<bool> exceeds(const Diff& diff, const std::string& rule);

template <class F> void fields(F&& field, const Change& c) {
  field("a", c.a, Unit::none, "in the first analysis");
  field("b", c.b, Unit::none, "in the second");
  field("ratio", c.ratio, Unit::none, "b / a");
}
template <class F> void fields(F&& field, const NamedChange& c) {
  field("name", c.name, Unit::none, "node, operator or scope");
  fields(field, static_cast<const Change&>(c));
}
template <class F> void fields(F&& field, const Diff& d) {
  field("a", d.a, Unit::none, "totals of the first analysis");
  field("b", d.b, Unit::none, "totals of the second");
  field("totals", d.totals, Unit::none, "field by field");
  field("ops", d.ops, Unit::second, "times by node");
  field("by_op", d.by_op, Unit::second, "times by operator");
  field("by_scope", d.by_scope, Unit::second, "times by module path");
  field("warnings", d.warnings, Unit::none, "faults that do not end the command");
}

}  // namespace roofcast
