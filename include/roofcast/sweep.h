// Totals over a range of a symbol, and where the bound changes.
//
//   Result<Sweep> s = sweep(model, {h100}, {.over = {{"batch", 1, 1024, 0, 2}}});
//
// The model must be loaded with `keep_symbols`: shapes are inferred once, points are evaluated from the
// formulas. The structs are the JSON document roofcast/sweep/1.
#pragma once

#include "roofcast/analyze.h"

#include <string>
#include <vector>

namespace roofcast {

// --over batch=1..1024:*2 (factor 2), seq=128..4096:128 (step 128), batch=1..64 (step 1).
struct SweepAxis {
  std::string symbol;
  int64_t from = 1, to = 1;
  int64_t step = 1;     // added; 0: multiply by `factor` instead
  int64_t factor = 2;
};

struct SweepOptions {
  std::vector<SweepAxis> over;     // the last one runs fastest; knees are of the first
  std::vector<std::string> until;  // "mfu>=0.5", "time<=10ms", "fits"
  std::string model = "ideal";
  bool causal = false;
};

struct SweepPoint : Totals {
  int64_t value = 0;                       // of the first axis
  std::string hw;
  std::map<std::string, int64_t> symbols;  // of all axes
};

// The least value of the symbol, in its range, at which `op` is bound by another thing than just below.
struct Knee {
  std::string op, hw, symbol;
  int64_t value = 0;
  std::string from, to;
};

struct Goal {
  std::string until, hw, symbol;
  std::optional<int64_t> value;  // least one that meets a ≥ goal, greatest one that meets a ≤ goal or fits
};

struct Sweep {
  std::string file, symbol;
  std::vector<SweepPoint> points;
  Formulas formulas;
  std::vector<Knee> knees;
  std::vector<Goal> goals;
  std::vector<Diagnostic> warnings;
};

// Codes: usage (a range or goal that makes no sense), symbol-unknown.
Result<Sweep> sweep(const Model& model, const std::vector<Hardware>& hardware, const SweepOptions& options);

template <class F> void fields(F&& field, const SweepPoint& p) {
  field("value", p.value, Unit::none, "of the swept symbol");
  field("hw", p.hw, Unit::none, "hardware");
  field("symbols", p.symbols, Unit::none, "values of all swept symbols");
  fields(field, static_cast<const Totals&>(p));
}
template <class F> void fields(F&& field, const Knee& k) {
  field("op", k.op, Unit::none, "node of the class that changes, or model");
  field("hw", k.hw, Unit::none, "hardware");
  field("symbol", k.symbol, Unit::none, "swept symbol");
  field("value", k.value, Unit::none, "least value with the new bound");
  field("from", k.from, Unit::none, "bound just below");
  field("to", k.to, Unit::none, "bound from there on");
}
template <class F> void fields(F&& field, const Goal& g) {
  field("until", g.until, Unit::none, "the goal");
  field("hw", g.hw, Unit::none, "hardware");
  field("symbol", g.symbol, Unit::none, "swept symbol");
  field("value", g.value, Unit::none, "that meets it; absent: none in the range");
}
template <class F> void fields(F&& field, const Sweep& s) {
  field("file", s.file, Unit::none, "the model");
  field("symbol", s.symbol, Unit::none, "swept");
  field("points", s.points, Unit::none, "totals by value");
  field("formulas", s.formulas, Unit::none, "of the totals");
  field("knees", s.knees, Unit::none, "where bounds change");
  field("goals", s.goals, Unit::none, "values that meet --until");
  field("warnings", s.warnings, Unit::none, "faults that do not end the command");
}

}  // namespace roofcast
