// Mixtures of experts as one op. Each token runs through k of E experts; under uniform routing t
// tokens touch E·(1 − (1 − k/E)^t) experts, whose weights are read: counted as min(E, k·t), its
// upper bound and its limit for few and for many tokens. A router's softmax takes 5 a logit, the
// gated activation 6 an inner element, the weighted sum of k results 2 an element.
#include "ops/op_table.h"
#include "ops/rules.h"
#include "ops/scalar_costs.h"

#include <algorithm>

namespace roofcast {
namespace {

namespace sc = scalar_cost;

bool has_rank(const OpView& v, size_t i, size_t rank) { return v.ranked(i) && v.rank(i) == rank; }

struct Experts {
  Expr tokens, experts, hidden, inner;
  int64_t chosen = 1;
  int64_t products = 2;  // matrices of an expert, a fused gate counting double
};

void count_experts(const OpView& v, Work& w, const Experts& e) {
  const Expr routed = e.tokens * e.chosen;
  w.matrix_flops = routed * e.hidden * e.inner * (2 * e.products);
  w.vector_flops = e.tokens * e.experts * 5 + routed * e.inner * 6 + routed * e.hidden * 2;
  w.routed_bytes = storage_bytes(v.dtype(0), routed * e.hidden);
  const Expr touched = min(e.experts, routed);
  for (size_t i = 2; i < v.input_count(); ++i)
    if (v.has(i) && v.ranked(i) && v.rank(i) >= 2 && v.dim(i, 0) == e.experts)
      if (const auto each = exact_div(v.bytes(i), e.experts)) w.reads[i] = *each * touched;
}

// Tokens and hidden size by the input [tokens.., hidden].
std::optional<Experts> by_input(const OpView& v) {
  if (!v.ranked(0) || v.rank(0) < 2) return std::nullopt;
  Experts e;
  e.hidden = v.in(0)->dims.back();
  e.tokens = product(std::span(v.in(0)->dims).first(v.rank(0) - 1));
  e.chosen = v.integer("k", 1);
  return e;
}

// ---- MoE and QMoE: fc1 [E, fusion·inner, hidden], fc2 [E, hidden, inner], fc3 as an unfused gate;
// packed weights shorten the last dim.

template <bool Quantized> constexpr size_t fc2 = Quantized ? 5 : 4;
template <bool Quantized> constexpr size_t fc3 = Quantized ? 8 : 6;

// Elements of a byte of the weight at input i.
int64_t packing(const OpView& v, size_t i) {
  const std::string_view type = v.string("quant_type", "int");
  if (type == "fp8") return 1;
  if (type != "int") return 2;
  const std::string_view own = i == 2   ? "fc1_expert_weight_bits"
                               : i == 5 ? "fc2_expert_weight_bits"
                                        : "fc3_expert_weight_bits";
  const int64_t bits = v.integer(own, v.integer("expert_weight_bits", 4));
  return std::max<int64_t>(1, 8 / std::max<int64_t>(1, bits));
}

template <bool Quantized> std::optional<Experts> experts_of(const OpView& v) {
  auto e = by_input(v);
  if (!e || !has_rank(v, 2, 3) || !has_rank(v, fc2<Quantized>, 3)) return std::nullopt;
  e->experts = v.dim(2, 0);
  const Expr rows = v.dim(2, 1);
  // An fp4 layout may pack another dim than the last; fc1's rows then tell.
  const bool fused = v.integer("swiglu_fusion", 0) != 0;
  if (fused) e->inner = floor_div(rows, 2);
  else e->inner = v.dim(fc2<Quantized>, 2) * (Quantized ? packing(v, 5) : 1);
  const bool wide = rows.is_constant() && e->inner.is_constant() && rows == e->inner * 2;
  e->products = 2 + (fused || wide ? 1 : 0) + (v.has(fc3<Quantized>) ? 1 : 0);
  return e;
}

template <bool Quantized> void moe_work(const OpView& v, Work& w) {
  if (const auto e = experts_of<Quantized>(v)) count_experts(v, w, *e);
  else w.matrix_flops = {};
}

Expr expert_weights(const OpView& v, size_t i) {
  if ((i != 2 && i != 5 && i != 8) || !v.has(i) || !v.in(i)) return {};
  return v.in(i)->elements() * packing(v, i);
}

// t.. h!, ., e i h, ., e h i, ., e i h -> t.. h!: experts and their inner size are summed over.
template <bool Quantized> AccessResult moe_access(const OpView& v) {
  const auto e = experts_of<Quantized>(v);
  if (!e) return {};
  AccessBuilder b;
  auto one = [](uint8_t f) { return DimMap{DimMap::Kind::product, {f}}; };
  OperandMap tokens;
  for (size_t d = 0; d + 1 < v.rank(0); ++d) tokens.dims.push_back(one(b.factor("t" + std::to_string(d), v.dim(0, d))));
  const uint8_t h = b.factor("h", e->hidden, Role::whole), x = b.factor("e", e->experts, Role::reduce),
                i = b.factor("i", e->inner, Role::reduce), g = b.factor("g", floor_div(v.dim(2, 1), max(e->inner, 1)), Role::whole);
  tokens.dims.push_back(one(h));
  for (size_t k = 0; k < v.input_count(); ++k) {
    if (k == 0) b.input() = tokens;
    else if (k == 2) b.input() = {{one(x), DimMap{DimMap::Kind::product, {i, g}}, one(h)}};
    else if (k == fc2<Quantized>) b.input() = {{one(x), one(h), one(i)}};
    else if (k == fc3<Quantized> && v.has(k)) b.input() = {{one(x), one(i), one(h)}};
    else b.input().outside = true;
  }
  b.output() = tokens;
  return {b.take(), {}, {}};
}
constexpr std::string_view moe_notation = "t.. h!, ., e (i g) h, ., e h i -> t.. h!";

// ---- MoEPacked: gate, up and down [E, rows, bytes] at inputs 2 to 4.

std::optional<Experts> packed_experts(const OpView& v) {
  auto e = by_input(v);
  if (!e || !has_rank(v, 2, 3)) return std::nullopt;
  e->experts = v.dim(2, 0), e->inner = v.dim(2, 1);
  e->products = 2 + (v.has(3) ? 1 : 0);
  return e;
}
void packed_work(const OpView& v, Work& w) {
  if (const auto e = packed_experts(v)) count_experts(v, w, *e);
  else w.matrix_flops = {};
}
Expr packed_weights(const OpView& v, size_t i) {
  const auto e = packed_experts(v);
  return e && i >= 2 && i <= 4 ? e->experts * e->inner * e->hidden : Expr();
}

// ---- MoEGroupRouter: logits [tokens.., E], or activations [tokens, width] and weights [E, width].

std::pair<Expr, Expr> routed(const OpView& v) {  // tokens, experts
  if (!v.ranked(0) || v.rank(0) < 1) return {};
  const Expr experts = !v.has(2) ? v.in(0)->dims.back() : has_rank(v, 2, 2) ? v.dim(2, 0) : Expr();
  return {product(std::span(v.in(0)->dims).first(v.rank(0) - 1)), experts};
}
void infer_router(InferContext& c) {
  if (!c.need_inputs(2)) return;
  const auto [tokens, experts] = routed(c);
  c.output(0, c.dtype(0), {tokens, experts});
  for (size_t i : {1, 2}) c.output(i, DType::float32, {tokens, experts});
}
// Sigmoid, bias, and a comparison with the group's threshold; a logarithm of what is chosen.
void router_work(const OpView& v, Work& w) {
  const auto [tokens, experts] = routed(v);
  if (v.has(2) && v.ranked(0) && v.rank(0) > 0)
    w.matrix_flops = tokens * experts * v.in(0)->dims.back() * 2;
  w.vector_flops = tokens * experts * (sc::sigmoid + 1);
  if (v.wants(0)) w.vector_flops += tokens * (experts * 2 + v.integer("top_k", 1));
}

#define MICROSOFT(op_name) .domain = "com.microsoft", .name = op_name, .since = 1, .kind = Kind::moe

constexpr std::string_view amounts =
    "2*tokens*k*hidden*inner*matrices; vector 5*tokens*experts + k*tokens*(6*inner + 2*hidden); "
    "bytes of weights those of min(experts, k*tokens) experts";

constexpr OpInfo table[] = {
    {MICROSOFT("MoE"), .access = moe_notation, .access_rule = moe_access<false>, .infer = same_as_first, .work = moe_work<false>, .formula = amounts},
    {MICROSOFT("QMoE"), .access = moe_notation, .access_rule = moe_access<true>, .infer = same_as_first, .work = moe_work<true>,
     .auxiliary = 0b111111011101001001000, .packed_weight = expert_weights, .formula = amounts},
    {MICROSOFT("MoEPacked"), .infer = same_as_first, .work = packed_work,
     .packed_weight = packed_weights, .formula = amounts},
    {MICROSOFT("MoEGroupRouter"), .infer = infer_router, .work = router_work,
     .formula = "2*tokens*experts*width with a projection; vector 7 a logit"},
};

}  // namespace

OpFamily moe_ops() { return table; }

}  // namespace roofcast
