// The op table as data: every known operator with its formulas, and what a scalar function counts
// as.
//
//   Result<OpListing> all = list_ops({.name = "MatMul*"});
#pragma once

#include "roofcast/fields.h"
#include "roofcast/result.h"

#include <optional>
#include <string>
#include <vector>

namespace roofcast {

// Vector FLOPs of one evaluation of a scalar function.
struct ScalarCost {
  std::string name;
  int64_t flops = 0;
  std::string definition;
};

struct OpFormula {
  std::string domain, name;
  int64_t since = 1;                 // opset; holds until the next row of that name
  std::string kind;
  std::optional<std::string> access;  // how operands meet the loops (docs/architecture.md)
  // Readable algebra; absent where the cost is not known.
  std::optional<std::string> matrix_flops, vector_flops, bytes;
  std::optional<std::string> uncounted;  // why
  std::string source;                    // of the counting convention
};

struct OpListing {
  std::vector<ScalarCost> scalars;
  std::vector<OpFormula> ops;  // by domain, then name
  std::vector<Diagnostic> warnings;
};

struct ListOptions {
  std::string name;                // glob; empty: all
  std::vector<std::string> files;  // --ops: custom ops beside the known ones
};

Result<OpListing> list_ops(const ListOptions& options);

template <class F> void fields(F&& field, const ScalarCost& s) {
  field("name", s.name, Unit::none, "scalar function");
  field("flops", s.flops, Unit::flop, "of one evaluation");
  field("definition", s.definition, Unit::none, "what is counted");
}
template <class F> void fields(F&& field, const OpFormula& o) {
  field("domain", o.domain, Unit::none, "operator set");
  field("name", o.name, Unit::none, "operator");
  field("since", o.since, Unit::count, "first opset that the row holds for");
  field("kind", o.kind, Unit::none, "what sort of kernel runs it");
  field("access", o.access, Unit::none, "how operands meet the loops");
  field("matrix_flops", o.matrix_flops, Unit::none, "formula");
  field("vector_flops", o.vector_flops, Unit::none, "formula");
  field("bytes", o.bytes, Unit::none, "what crosses memory");
  field("uncounted", o.uncounted, Unit::none, "why there is no formula");
  field("source", o.source, Unit::none, "of the counting convention");
}
template <class F> void fields(F&& field, const OpListing& l) {
  field("scalars", l.scalars, Unit::none, "vector FLOPs of scalar functions");
  field("ops", l.ops, Unit::none, "one row an operator and opset");
  field("warnings", l.warnings, Unit::none, "faults that do not end the command");
}

}  // namespace roofcast
