// Linear attention and state-space layers: a state of [d, e] a head is updated and read at each
// token.
//
// Matrix FLOPs a token: the update k ⊗ v and the read-out q·S take 2·d·e each, a delta rule's
// retrieval k·S as much again. Vector FLOPs: a decay 1 per element of the state, the delta's
// difference and rate 2 per element of v, the scale 1 per output. Chunked kernels do other sums for
// the same result; those of the recurrence are counted.
// Gated DeltaNet: S. Yang et al., arXiv:2412.06464; Mamba-2: T. Dao, A. Gu, arXiv:2405.21060.
#include "ops/op_table.h"
#include "ops/rules.h"
#include "ops/scalar_costs.h"

#include <algorithm>

namespace roofcast {
namespace {

namespace sc = scalar_cost;

bool has_rank(const OpView& v, size_t i, size_t rank) { return v.ranked(i) && v.rank(i) == rank; }

struct States {
  Expr tokens, readers, writers, key, value;  // heads that read the state, and that write it
};

void count_states(const OpView& v, Work& w, const States& s) {
  const std::string_view rule = v.string("update_rule", "gated_delta");
  const bool delta = rule.ends_with("delta"), gated = rule.starts_with("gated");
  const Expr state = s.key * s.value;
  w.matrix_flops = s.tokens * state * (s.writers * (delta ? 2 : 1) + s.readers) * 2;
  w.vector_flops = s.tokens * s.readers * s.value;
  if (gated) w.vector_flops += s.tokens * s.writers * (state + 1);
  if (delta) w.vector_flops += s.tokens * s.writers * s.value * 2;
}

// ---- LinearAttention: q [b, t, h·d], k [b, t, h_kv·d], v [b, t, h_kv·e]; state [b, h_kv, d, e],
// or a window of states before it.

void infer_linear(InferContext& c) {
  if (!c.need_inputs(3)) return;
  const int64_t q = c.integer("q_num_heads", 0), kv = c.integer("kv_num_heads", 0);
  if (q < 1 || kv < 1) return c.fail("onnx-attribute", "needs q_num_heads and kv_num_heads");
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  if (!c.need_rank(0, 3, 3)) return;
  const Expr d = floor_div(c.dim(0, 2), Expr(q));
  const Expr e = has_rank(c, 2, 3) ? floor_div(c.dim(2, 2), Expr(kv)) : Expr();
  c.output(0, c.dtype(0), {c.dim(0, 0), c.dim(0, 1), e * std::max(q, kv)});
  std::vector<Expr> state = {c.dim(0, 0), Expr(kv), d, e};
  if (const int64_t window = c.integer("state_window", 0); window > 0)
    state.insert(state.begin(), window);
  c.output(1, c.has(3) ? c.dtype(3) : c.dtype(0), std::move(state));
}

void linear_work(const OpView& v, Work& w) {
  const int64_t q = v.integer("q_num_heads", 0), kv = v.integer("kv_num_heads", 0);
  if (!has_rank(v, 0, 3) || !has_rank(v, 2, 3) || q < 1 || kv < 1) {
    w.matrix_flops = {};
    return;
  }
  count_states(v, w, {v.dim(0, 0) * v.dim(0, 1), std::max(q, kv), kv,
                      floor_div(v.dim(0, 2), Expr(q)), floor_div(v.dim(2, 2), Expr(kv))});
}

// decay = scale·softplus(a + bias), beta = sigmoid(b).
void infer_gate(InferContext& c) {
  if (!c.need_inputs(1)) return;
  c.output(0, c.in(0));
  c.output(1, c.has(3) ? c.in(3) : c.in(0));
}
void gate_work(const OpView& v, Work& w) {
  if (v.in(0)) w.vector_flops = v.in(0)->elements() * (2 + sc::softplus);
  if (v.has(3) && v.in(3)) w.vector_flops += v.in(3)->elements() * sc::sigmoid;
}

// ---- GatedDeltaNet: token-major q and k [tokens.., h, d], v [tokens.., h_v, e], or q, k, v packed
// in one; state [b, h_v, e, d].

struct DeltaNet {
  std::vector<Expr> lead;  // dims of the tokens
  States states;
};

std::optional<DeltaNet> delta_net(const OpView& v) {
  if (!v.ranked(0)) return std::nullopt;
  const bool packed = !v.has(1);
  const size_t own = packed ? 1 : 2;
  if (v.rank(0) <= own) return std::nullopt;
  DeltaNet n;
  n.lead.assign(v.in(0)->dims.begin(), v.in(0)->dims.end() - static_cast<std::ptrdiff_t>(own));
  if (packed) {
    if (!has_rank(v, 6, 4)) return std::nullopt;
    n.states = {product(n.lead), v.dim(6, 1), v.dim(6, 1), v.dim(6, 3), v.dim(6, 2)};
  } else {
    if (!v.ranked(2) || v.rank(2) < 2) return std::nullopt;
    const Expr heads = v.dim(2, v.rank(2) - 2), width = v.dim(2, v.rank(2) - 1);
    n.states = {product(n.lead), heads, heads, v.dim(0, v.rank(0) - 1), width};
  }
  return n;
}

void infer_delta_net(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const auto n = delta_net(c);
  if (!n) return c.output_unranked(0, c.dtype(0));
  const Expr batch = has_rank(c, 6, 4)   ? c.dim(6, 0)
                     : has_rank(c, 3, 1) ? c.dim(3, 0) - 1
                                         : Expr();
  std::vector<Expr> dims = n->lead;
  dims.push_back(n->states.readers), dims.push_back(n->states.value);
  c.output(0, c.dtype(0), std::move(dims));
  const DType state = c.has(6) ? c.dtype(6) : DType::float32;
  c.output(1, state, {batch, n->states.writers, n->states.value, n->states.key});
  const int64_t capacity = c.integer("state_update_capacity", 0);
  if (!c.wants(2)) return;
  // Captured transitions: decay (one a head, or one a key element), key and delta a token.
  const bool wide = c.ranked(4) && c.ranked(0) && c.rank(4) == n->lead.size() + 2;
  const Expr decay = wide ? n->states.writers * n->states.key : n->states.writers;
  const Expr keys = !c.has(1)                            ? Expr()
                    : c.ranked(1) && c.rank(1) >= 2 ? c.dim(1, c.rank(1) - 2) * n->states.key
                                                         : Expr();
  const Expr values = n->states.writers * n->states.value;
  c.output(2, state, {batch, (decay + keys + values) * capacity});
}

void delta_net_work(const OpView& v, Work& w) {
  if (const auto n = delta_net(v)) count_states(v, w, n->states);
  else w.matrix_flops = {};
}

// ---- Mamba2Verify: projection [r, 2·di + 2·groups·state + heads] of [gate, xBC, dt], di =
// heads·dim; a causal convolution of four taps, the recurrence, a gated RMS normalization.

struct Mamba {
  Expr rows, inner, channels, state;
};
Mamba mamba(const OpView& v) {
  const Expr inner = Expr(v.integer("heads", 0)) * v.integer("head_dim", 64);
  const Expr state = v.integer("d_state", 128);
  const Expr rows = has_rank(v, 0, 2) ? v.dim(0, 0) : Expr();
  return {rows, inner, inner + Expr(v.integer("n_groups", 1)) * state * 2, state};
}
void infer_mamba(InferContext& c) {
  if (!c.need_inputs(3)) return;
  const Mamba m = mamba(c);
  c.output(0, c.dtype(0), {m.rows, m.inner});
  c.output(1, c.in(1)), c.output(2, c.in(2));
  c.output(3, c.dtype(0), {m.rows, m.channels});
  c.output(4, DType::float32, {m.rows, m.inner});
}
// Vector: bias and silu a channel; decay of the state; dt, skip, gate (silu) and norm a unit.
void mamba_work(const OpView& v, Work& w) {
  const Mamba m = mamba(v);
  w.matrix_flops = m.rows * (m.channels * (2 * 4) + m.inner * m.state * (2 * 2));
  w.vector_flops = m.rows * (m.channels * (1 + sc::silu) + m.inner * m.state +
                             m.inner * (1 + 2 + sc::silu + 1 + 4));
  // One snapshot is read, at most as many as there are slots are written.
  for (size_t i : {1, 2}) {
    if (!v.ranked(i) || v.rank(i) < 2) continue;
    const auto one = exact_div(v.bytes(i), v.dim(i, 0));
    w.reads[i] = one ? *one : v.bytes(i);
    if (v.wants(i)) w.writes[i] = one ? *one * min(m.rows, v.dim(i, 0)) : v.bytes(i);
  }
}

#define MICROSOFT(op_name, op_kind) \
  .domain = "com.microsoft", .name = op_name, .since = 1, .kind = op_kind

constexpr std::string_view recurrence = "2*tokens*d*e*(h_kv + h_q), delta rules 2*tokens*d*e*h_kv "
                                        "more; vector per token d*e*h_kv for a "
                                        "decay, 2*e*h_kv for a delta, e*h_q for the scale";
constexpr std::string_view at_run_time =
    "how much is replayed is in its metadata, read when it runs";

constexpr OpInfo table[] = {
    {.name = "LinearAttention", .since = 27, .kind = Kind::recurrent, .infer = infer_linear,
     .work = linear_work, .formula = recurrence},
    {MICROSOFT("LinearAttention", Kind::recurrent), .infer = infer_linear, .work = linear_work,
     .formula = recurrence},
    {MICROSOFT("LinearAttentionGate", Kind::pointwise), .infer = infer_gate, .work = gate_work,
     .formula = "5*n, 4 per element of beta"},
    {MICROSOFT("GatedDeltaNet", Kind::recurrent), .infer = infer_delta_net,
     .work = delta_net_work, .formula = recurrence},
    {MICROSOFT("Mamba2Verify", Kind::recurrent), .infer = infer_mamba, .work = mamba_work,
     .formula = "r*(8*channels + 4*inner*state); vector r*(6*channels + inner*(state + 13))"},
    {MICROSOFT("GatedDeltaNetStateReplay", Kind::recurrent),
     .infer = [](InferContext& c) { if (c.need_inputs(3)) c.output(0, c.in(2)); },
     .uncounted = at_run_time},
    {MICROSOFT("ConvStateReplay", Kind::movement),
     .infer = [](InferContext& c) { if (c.need_inputs(3)) c.output(0, c.in(2)); },
     .uncounted = at_run_time},
};

}  // namespace

OpFamily state_space_ops() { return table; }

}  // namespace roofcast
