#include "roofcast/ops.h"

#include "frontend/inputs.h"
#include "ops/formula.h"
#include "ops/op_table.h"
#include "ops/scalar_costs.h"
#include "ops/user_ops.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <tuple>

namespace roofcast {
namespace {

std::string default_source(std::string_view domain) {
  return domain == "com.microsoft" ? "ONNX Runtime, docs/ContribOperators.md"
                                   : "ONNX operator specification";
}

OpFormula describe(const OpInfo& op) {
  OpFormula row;
  row.domain = op.domain.empty() ? "ai.onnx" : std::string(op.domain);
  row.name = op.name, row.since = op.since, row.kind = name(op.kind);
  if (!op.access.empty()) row.access = std::string(op.access);
  row.source = !op.source.empty() ? std::string(op.source)
               : op.user          ? "its own file"
                                  : default_source(op.domain);
  if (!op.uncounted.empty()) {
    row.uncounted = std::string(op.uncounted);
    return row;
  }
  FormulaText text = formula_of(op);
  row.matrix_flops = std::move(text.matrix_flops);
  row.vector_flops = std::move(text.vector_flops);
  row.bytes = std::move(text.bytes);
  return row;
}

}  // namespace

Result<OpListing> list_ops(const ListOptions& options) {
  OpListing listing;
  for (const scalar_cost::Named& s : scalar_cost::all)
    listing.scalars.push_back({std::string(s.name), s.flops, std::string(s.definition)});
  auto add = [&](const OpInfo& op) {
    if (options.name.empty() || glob_match(options.name, op.name))
      listing.ops.push_back(describe(op));
  };
  for (const std::string& file : options.files) {
    const Result<std::shared_ptr<const UserOps>> custom = load_user_ops(file);
    if (!custom) return custom.error();
    for (const UserOp& op : (*custom)->ops) add(op.row);
  }
  for (OpFamily family : op_families())
    for (const OpInfo& op : family) add(op);
  if (listing.ops.empty())
    return error("op-unknown", "no operator called \"" + options.name + "\"", {},
                 "names are case-sensitive; globs as '*Attention*'");
  std::sort(listing.ops.begin(), listing.ops.end(), [](const OpFormula& a, const OpFormula& b) {
    return std::tie(a.domain, a.name, a.since) < std::tie(b.domain, b.name, b.since);
  });
  return listing;
}

}  // namespace roofcast
