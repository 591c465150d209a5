// Mixtures of experts as one op (com.microsoft MoE, QMoE). Each token runs through k of E experts;
// under uniform routing t tokens touch E·(1 − (1 − k/E)^t) experts, whose weights are read — counted as
// min(E, k·t), its upper bound and limit for few tokens.
#include "ops/op_table.h"
#include "ops/rules.h"

#include <algorithm>

namespace roofcast {
namespace {

struct Experts {
  Expr tokens, experts, hidden, inner, k;
  int64_t products = 2;  // matrices of an expert, a fused gate counting double
};

template <bool Quantized> std::optional<Experts> experts_of(const OpView& v) {
  constexpr size_t fc1 = 2, fc2 = Quantized ? 5 : 4, fc3 = Quantized ? 8 : 6;
  if (!v.ranked(0) || v.rank(0) < 2 || !v.ranked(fc1) || v.rank(fc1) != 3 || !v.ranked(fc2) || v.rank(fc2) != 3) return std::nullopt;
  Experts e;
  e.hidden = v.dim(0, v.rank(0) - 1);
  e.tokens = 1;
  for (size_t d = 0; d + 1 < v.rank(0); ++d) e.tokens *= v.dim(0, d);
  e.experts = v.dim(fc1, 0);
  // fc1 is [E, fusion·inner, hidden], fc2 [E, hidden, inner]; packed weights shorten the last dim.
  const Expr rows = v.dim(fc1, 1), fc2_last = v.dim(fc2, 2);
  const int64_t bits = v.integer("expert_weight_bits", 4);
  e.inner = Quantized ? fc2_last * std::max<int64_t>(1, 8 / std::max<int64_t>(1, bits)) : fc2_last;
  const bool fused = v.integer("swiglu_fusion", 0) != 0 || (rows.is_constant() && e.inner.is_constant() && rows == e.inner * 2);
  e.products = 2 + (fused ? 1 : 0) + (v.has(fc3) ? 1 : 0);
  e.k = v.integer("k", 1);
  return e;
}

template <bool Quantized> void moe_work(const OpView& v, Work& w) {
  const auto e = experts_of<Quantized>(v);
  if (!e) {
    w.matrix_flops = {};
    return;
  }
  const Expr routed = e->tokens * e->k;
  w.matrix_flops = routed * e->hidden * e->inner * (2 * e->products);
  // Router softmax, activation (SiLU and gate: 6), weighted sum of the k results.
  w.vector_flops = e->tokens * e->experts * 5 + routed * e->inner * 6 + routed * e->hidden * 2;
  const Expr touched = min(e->experts, routed);
  for (size_t i = 2; i < v.input_count(); ++i)
    if (v.has(i) && v.ranked(i) && v.rank(i) >= 2 && v.dim(i, 0) == e->experts)
      if (const auto each = exact_div(v.bytes(i), e->experts)) w.reads[i] = *each * touched;
}

PackedWeight packed_fc1(const OpView& v) {
  const int64_t bits = std::max<int64_t>(1, v.integer("expert_weight_bits", 4));
  return {2, v.in(2) ? v.in(2)->elements() * std::max<int64_t>(1, 8 / bits) : Expr()};
}

constexpr OpInfo table[] = {
    {.domain = "com.microsoft", .name = "MoE", .since = 1, .kind = Kind::moe, .infer = same_as_first, .work = moe_work<false>,
     .formula = "2*tokens*k*hidden*inner*matrices; reads the weights of min(experts, k*tokens)"},
    {.domain = "com.microsoft", .name = "QMoE", .since = 1, .kind = Kind::moe, .infer = same_as_first, .work = moe_work<true>, .auxiliary = 0b1011001001000,
     .packed_weight = packed_fc1, .formula = "2*tokens*k*hidden*inner*matrices; reads the packed weights of min(experts, k*tokens)"},
};

}  // namespace

OpFamily moe_ops() { return table; }

}  // namespace roofcast
