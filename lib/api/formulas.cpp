#include "api/formulas.h"

#include "ir/latex.h"

#include <map>

namespace roofcast {
namespace {

struct Amounts {
  Expr matrix = 0, vector = 0, read = 0, written = 0, wire = 0;
};

Amounts amounts_of(const Work& work) {
  Amounts a;
  a.matrix = work.matrix_flops, a.vector = work.vector_flops, a.wire = work.transfer.bytes;
  for (Expr e : work.reads) a.read += e;
  for (Expr e : work.writes) a.written += e;
  return a;
}

Formulas texts(const Amounts& a, const ExprPool& pool, bool as_latex) {
  auto text = [&](Expr e) -> std::optional<std::string> {
    if (!e.is_known() || e.is_overflow()) return std::nullopt;
    return as_latex ? latex(e, pool) : e.text();
  };
  const Expr flops = a.matrix + a.vector, bytes = a.read + a.written;
  Formulas f{text(flops), text(a.matrix), text(a.vector), text(bytes), text(a.read), text(a.written), std::nullopt, std::nullopt};
  if (a.wire != Expr(0)) f.wire_bytes = text(a.wire);
  if (f.flops && f.bytes && bytes != Expr(0))
    f.intensity = as_latex ? "\\frac{" + *f.flops + "}{" + *f.bytes + "}" : "(" + *f.flops + ") / (" + *f.bytes + ")";
  return f;
}

}  // namespace

Formulas formulas_of(const Work& work, const ExprPool& pool, bool latex) { return texts(amounts_of(work), pool, latex); }

Formulas total_formulas(Costing& costing, bool latex) {
  const Module& m = costing.module();
  Amounts sum;
  // Equal instances in one region are added once, times their number.
  std::map<std::pair<uint32_t, uint32_t>, int64_t> counts;
  for (uint32_t i = 0; i < m.nodes.size(); ++i)
    if (!costing.free(NodeId{i})) ++counts[{m.nodes[i].region.index, m.nodes[i].instance.index}];
  for (const auto& [key, count] : counts) {
    const Work& work = costing.work_of(InstanceId{key.second});
    if (!work.uncounted.empty()) continue;
    Expr trips = count;
    for (RegionId r{key.first}; r.valid() && r.index != 0; r = m[m.regions[r.index].owner].region) trips *= m.regions[r.index].trips;
    const Amounts a = amounts_of(work);
    sum.matrix += a.matrix * trips, sum.vector += a.vector * trips, sum.read += a.read * trips, sum.written += a.written * trips, sum.wire += a.wire * trips;
  }
  return texts(sum, m.exprs, latex);
}

}  // namespace roofcast
