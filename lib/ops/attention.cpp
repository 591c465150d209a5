// Attention, each form one kernel: operands cross memory once, scores stay on the chip.
//
// Matrix FLOPs are the two products, 2·b·h·q·k·(d + e), counted in full; under --causal only the pairs
// that a lower-right aligned causal mask leaves: Σ min(j, window) for j = k − q + 1 … k. A sliding window
// limits the keys of a query. Vector FLOPs a score: scale 1, mask or bias 1 each, softcap 3, softmax 5
// (less 2 a row). A KV cache is appended in place: the past is read, only new rows are written.
// FlashAttention: T. Dao et al., NeurIPS 2022; grouped queries: J. Ainslie et al., EMNLP 2023.
#include "ops/op_table.h"
#include "ops/rules.h"

#include <algorithm>

namespace roofcast {
namespace {

struct Heads {
  Expr batch, kv_heads, group, queries, keys, head, value_head;  // group: query heads a kv head
  Expr window;                                                    // keys a query sees at most; unknown: all
  int64_t score_cost = 1;                                         // beside softmax: scale, mask, bias, softcap
  bool known() const {
    return batch.is_known() && kv_heads.is_known() && group.is_known() && queries.is_known() && keys.is_known() && head.is_known() && value_head.is_known();
  }
};

AccessResult access_of_heads(const OpView& v, const Heads& s, size_t data_inputs) {
  if (!s.known()) return {};
  AccessBuilder b;
  const uint8_t n = b.factor("b", s.batch), h = b.factor("h", s.kv_heads), g = b.factor("g", s.group), q = b.factor("q", s.queries),
                k = b.factor("k", s.keys, Role::online), d = b.factor("d", s.head, Role::reduce), e = b.factor("e", s.value_head);
  auto one = [](uint8_t f) { return DimMap{DimMap::Kind::product, {f}}; };
  const DimMap heads{DimMap::Kind::product, {h, g}};
  const OperandMap maps[] = {{{one(n), heads, one(q), one(d)}}, {{one(n), one(h), one(k), one(d)}}, {{one(n), one(h), one(k), one(e)}}};
  for (size_t i = 0; i < v.input_count(); ++i) {
    if (i < data_inputs && i < 3) b.input() = maps[i];
    else b.input().outside = true;
  }
  b.output() = {{one(n), heads, one(q), one(e)}};
  return {b.take(), {}, {}};
}

// 1 + 2 + … + n.
Expr triangle(Expr n) { return floor_div(n * (n + 1), 2); }

void products(Work& w, const Heads& s, Expr projection_flops = 0, Expr projection_vector = 0) {
  if (!s.known()) {
    w.matrix_flops = {};
    return;
  }
  const Expr heads = s.batch * s.kv_heads * s.group, rows = heads * s.queries;
  const Expr seen = s.window.is_known() ? min(s.keys, s.window) : s.keys;
  auto amounts = [&](Expr pairs, Expr& matrix, Expr& vector) {
    matrix = projection_flops + heads * pairs * (s.head + s.value_head) * 2;
    vector = projection_vector + heads * pairs * (5 + s.score_cost) - rows * 2;
  };
  amounts(s.queries * seen, w.matrix_flops, w.vector_flops);
  // Σ min(j, window) up to n keys.
  auto up_to = [&](Expr n) {
    if (!s.window.is_known()) return triangle(n);
    return triangle(min(n, s.window)) + max(0, n - s.window) * s.window;
  };
  amounts(up_to(s.keys) - up_to(max(0, s.keys - s.queries)), w.causal_matrix_flops, w.causal_vector_flops);
}

// Bytes of new rows of a cache: those of the keys (or values) that the op is given.
void append_in_place(const OpView& v, Work& w, size_t output, Expr bytes) {
  if (v.wants(output) && output < w.writes.size()) w.writes[output] = bytes;
}

// ---- ai.onnx Attention: q [b, h, s, d] or [b, s, h·d]; past [b, h, p, d].

Heads standard_heads(const OpView& v) {
  Heads s;
  if (!v.ranked(0) || !v.ranked(1) || !v.ranked(2) || v.rank(0) != v.rank(1) || v.rank(1) != v.rank(2)) return s;
  const int64_t q_heads = v.integer("q_num_heads", 0), kv = v.integer("kv_num_heads", 0);
  if (v.rank(0) == 4) {
    s.batch = v.dim(0, 0), s.kv_heads = v.dim(1, 1), s.group = floor_div(v.dim(0, 1), v.dim(1, 1));
    s.queries = v.dim(0, 2), s.keys = v.dim(1, 2), s.head = v.dim(0, 3), s.value_head = v.dim(2, 3);
  } else if (v.rank(0) == 3 && q_heads > 0 && kv > 0) {
    s.batch = v.dim(0, 0), s.kv_heads = kv, s.group = floor_div(Expr(q_heads), Expr(kv));
    s.queries = v.dim(0, 1), s.keys = v.dim(1, 1), s.head = floor_div(v.dim(0, 2), Expr(q_heads)), s.value_head = floor_div(v.dim(2, 2), Expr(kv));
  } else {
    return s;
  }
  if (v.has(4)) s.keys = v.ranked(4) && v.rank(4) == 4 ? s.keys + v.dim(4, 2) : Expr();
  const int64_t left = v.integer("left_window_size", -1), right = v.integer("is_causal", 0) ? 0 : v.integer("right_window_size", -1);
  if (left >= 0 && right >= 0) s.window = Expr(left) + right + 1;
  s.score_cost = 1 + (v.has(3) || v.integer("is_causal", 0)) + (v.real("softcap", 0) != 0 ? 3 : 0);
  return s;
}

void infer_standard(InferContext& c) {
  if (!c.need_inputs(3)) return;
  for (size_t i = 0; i < 3; ++i)
    if (c.ranked(i) && c.rank(i) != 3 && c.rank(i) != 4) return c.fail("rank-mismatch", "input " + std::to_string(i) + " has " + std::to_string(c.rank(i)) + " dims, 3 or 4 are wanted");
  const Heads s = standard_heads(c);
  if (c.ranked(0) && c.rank(0) == 3 && (c.integer("q_num_heads", 0) < 1 || c.integer("kv_num_heads", 0) < 1))
    return c.fail("onnx-attribute", "3-D inputs need q_num_heads and kv_num_heads");
  if (!c.ranked(0) || !c.ranked(2)) return c.output_unranked(0, c.dtype(0));
  const Expr heads = s.kv_heads.is_known() && s.group.is_known() ? s.kv_heads * s.group : c.rank(0) == 4 ? c.dim(0, 1) : Expr();
  const Expr e = s.value_head;
  if (c.rank(0) == 4) c.output(0, c.dtype(0), {c.dim(0, 0), c.dim(0, 1), c.dim(0, 2), e});
  else c.output(0, c.dtype(0), {c.dim(0, 0), c.dim(0, 1), heads.is_known() && e.is_known() ? heads * e : Expr()});
  c.output(1, c.dtype(1), {s.batch, s.kv_heads, s.keys, s.head});
  c.output(2, c.dtype(2), {s.batch, s.kv_heads, s.keys, e});
  c.output(3, c.dtype(0), {s.batch, heads, s.queries, s.keys});
}

void standard_work(const OpView& v, Work& w) {
  products(w, standard_heads(v));
  append_in_place(v, w, 1, v.bytes(1));
  append_in_place(v, w, 2, v.bytes(2));
}

// score_mod and prob_mod are bodies; what they add is not counted as attention's.
void infer_flex(InferContext& c, Bodies& bodies) {
  if (!c.need_inputs(3) || !c.need_rank(0, 4, 4) || !c.need_rank(1, 4, 4) || !c.need_rank(2, 4, 4)) return;
  c.output(0, c.dtype(0), {c.dim(0, 0), c.dim(0, 1), c.dim(0, 2), c.dim(2, 3)});
  const Type scores = c.module.tensor(c.dtype(0), {c.dim(0, 0), c.dim(0, 1), c.dim(0, 2), c.dim(1, 2)});
  for (size_t i = 0; i < bodies.count(); ++i) {
    if (bodies.input_count(i) == 1) bodies.bind_input(i, 0, scores, nullptr);
    bodies.infer(i);
  }
}

// ---- com.microsoft, queries apart: GroupQueryAttention, MultiHeadAttention, DecoderMasked…

// One input's dims as [b, s, h·d]; a packed QKV has query + 2·kv heads.
Heads group_query_heads(const OpView& v) {
  Heads s;
  const int64_t heads = v.integer("num_heads", 0), kv = v.integer("kv_num_heads", heads);
  if (!v.ranked(0) || v.rank(0) != 3 || heads < 1 || kv < 1) return s;
  const bool packed = !v.has(1);
  s.batch = v.dim(0, 0), s.queries = v.dim(0, 1), s.kv_heads = kv, s.group = floor_div(Expr(heads), Expr(kv));
  s.head = s.value_head = floor_div(v.dim(0, 2), packed ? Expr(heads + 2 * kv) : Expr(heads));
  const Expr rows = packed ? s.queries : v.ranked(1) && v.rank(1) == 3 ? v.dim(1, 1) : Expr();
  const auto total = v.has(6) ? v.exprs(6) : std::nullopt;
  if (total && total->size() == 1 && (*total)[0].is_known()) s.keys = (*total)[0];
  else if (v.has(3)) s.keys = v.ranked(3) && v.rank(3) == 4 && rows.is_known() ? v.dim(3, 2) + rows : Expr();
  else s.keys = rows;
  if (const int64_t window = v.integer("local_window_size", -1); window > 0) s.window = window;
  s.score_cost = 1 + 1 + (v.real("softcap", 0) != 0 ? 3 : 0) + (v.has(10) ? 1 : 0);
  return s;
}

void infer_group_query(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const int64_t heads = c.integer("num_heads", 0), kv = c.integer("kv_num_heads", 0);
  if (heads < 1 || kv < 1) return c.fail("onnx-attribute", "needs num_heads and kv_num_heads");
  if (!c.ranked(0) || c.rank(0) != 3) return c.output_unranked(0, c.dtype(0));
  const Heads s = group_query_heads(c);
  c.output(0, c.dtype(0), {c.dim(0, 0), c.dim(0, 1), s.head.is_known() ? Expr(heads) * s.head : Expr()});
  // The present has room for what the past had, or for all keys if that is more.
  const Expr past = c.has(3) && c.ranked(3) && c.rank(3) == 4 ? c.dim(3, 2) : Expr();
  const auto total = c.has(6) ? c.exprs(6) : std::nullopt;
  Expr length = s.keys;
  if (total && total->size() == 1 && (*total)[0].is_known() && past.is_known()) length = max(past, (*total)[0]);
  const DType cache = c.has(3) ? c.dtype(3) : c.dtype(0);
  c.output(1, cache, {c.dim(0, 0), Expr(kv), length, s.head});
  c.output(2, cache, {c.dim(0, 0), Expr(kv), length, s.head});
  c.output(3, c.dtype(0), {c.dim(0, 0), Expr(heads), c.dim(0, 1), s.keys});
}

void group_query_work(const OpView& v, Work& w) {
  const Heads s = group_query_heads(v);
  Expr rotary = 0;
  if (v.integer("do_rotary", 0)) rotary = s.batch * s.queries * s.kv_heads * (s.group + 1) * s.head * 3;
  products(w, s, 0, rotary);
  if (!s.known()) return;
  const DType cache = v.has(3) ? v.dtype(3) : v.dtype(0);
  const Expr rows = storage_bytes(cache, s.batch * s.kv_heads * s.queries * s.head);
  append_in_place(v, w, 1, rows);
  append_in_place(v, w, 2, rows);
  // Of a shared buffer only the past's rows are read.
  const Expr past = storage_bytes(cache, s.batch * s.kv_heads * max(0, s.keys - s.queries) * s.head);
  for (size_t i : {3, 4})
    if (v.has(i)) w.reads[i] = min(v.bytes(i), past);
  for (size_t i : {5, 6})
    if (v.has(i)) w.reads[i] = 0;
  for (size_t i : {7, 8})  // rows of the rotary tables
    if (v.has(i) && v.ranked(i) && v.rank(i) == 2) w.reads[i] = min(v.bytes(i), storage_bytes(v.dtype(i), s.queries * v.dim(i, 1)));
}

// q [b, s, h·d] (or packed [b, s, h, 3, d]); k [b, t, h·d], packed kv [b, t, h, 2, d] or [b, h, t, d].
template <size_t Past> Heads multi_heads(const OpView& v) {
  Heads s;
  const int64_t heads = v.integer("num_heads", 0);
  if (!v.ranked(0) || v.rank(0) < 3 || heads < 1) return s;
  s.batch = v.dim(0, 0), s.queries = v.dim(0, 1), s.kv_heads = heads, s.group = 1;
  Expr rows = s.queries;
  if (v.rank(0) == 5) {
    s.head = s.value_head = v.dim(0, 4);
  } else {
    s.head = s.value_head = floor_div(v.dim(0, 2), Expr(heads));
    if (v.has(1)) {
      if (!v.ranked(1)) return {};
      rows = v.rank(1) == 4 ? v.dim(1, 2) : v.rank(1) >= 2 ? v.dim(1, 1) : Expr();
      if (v.rank(1) == 5) s.value_head = s.head;
      else if (v.has(2) && v.ranked(2)) s.value_head = v.rank(2) == 4 ? v.dim(2, 3) : v.rank(2) == 3 ? floor_div(v.dim(2, 2), Expr(heads)) : Expr();
    }
  }
  s.keys = rows;
  // A cross-attention's cached keys come as [b, h, t, d] and are all there are.
  const bool cross = v.has(1) && v.ranked(1) && v.rank(1) == 4;
  if (v.has(Past) && !cross) s.keys = v.ranked(Past) && v.rank(Past) == 4 && rows.is_known() ? v.dim(Past, 2) + rows : Expr();
  s.score_cost = 1 + (v.has(4) || v.integer("unidirectional", 0) ? 1 : 0) + (v.has(5) ? 1 : 0);
  return s;
}

template <size_t Past> void infer_multi_head(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const int64_t heads = c.integer("num_heads", 0);
  if (heads < 1) return c.fail("onnx-attribute", "needs num_heads");
  const Heads s = multi_heads<Past>(c);
  if (!c.ranked(0) || c.rank(0) < 3) return c.output_unranked(0, c.dtype(0));
  c.output(0, c.dtype(0), {c.dim(0, 0), c.dim(0, 1), s.value_head.is_known() ? Expr(heads) * s.value_head : Expr()});
  // With a shared buffer the present is as long as the past.
  const bool shared = c.integer("past_present_share_buffer", 0) != 0 || (Past == 5 && c.has(7));
  const Expr length = shared && c.has(Past) && c.ranked(Past) && c.rank(Past) == 4 ? c.dim(Past, 2) : s.keys;
  c.output(1, c.dtype(0), {c.dim(0, 0), Expr(heads), length, s.head});
  c.output(2, c.dtype(0), {c.dim(0, 0), Expr(heads), length, s.value_head});
  c.output(3, c.dtype(0), {c.dim(0, 0), Expr(heads), c.dim(0, 1), s.keys});
}

template <size_t Past> void multi_head_work(const OpView& v, Work& w) {
  const Heads s = multi_heads<Past>(v);
  const size_t bias = Past == 5 ? 10 : 3;
  Expr added = 0;
  if (v.has(bias) && s.known()) added = s.batch * s.kv_heads * (s.queries * s.head + s.keys * (s.head + s.value_head));
  products(w, s, 0, added);
  if (!s.known()) return;
  append_in_place(v, w, 1, storage_bytes(v.dtype(0), s.batch * s.kv_heads * s.queries * s.head));
  append_in_place(v, w, 2, storage_bytes(v.dtype(0), s.batch * s.kv_heads * s.queries * s.value_head));
}

// ---- com.microsoft, projections inside: Attention, QAttention, DecoderMaskedSelfAttention.

struct Projection {
  Heads heads;
  Expr flops, bias, hidden;  // of the projection; output width
};

// input [b, s, i], weights [i, q + k + v]; past [2, b, h, p, d] at `Past`.
template <size_t Past, size_t Mask> Projection projected(const OpView& v) {
  Projection p;
  const int64_t heads = v.integer("num_heads", 0);
  if (!v.ranked(0) || v.rank(0) != 3 || !v.ranked(1) || v.rank(1) != 2 || heads < 1) return p;
  const auto sizes = v.integers("qkv_hidden_sizes");
  const bool given = sizes && sizes->size() == 3;
  const Expr third = floor_div(v.dim(1, 1), 3);
  const Expr q = given ? Expr((*sizes)[0]) : third, value = given ? Expr((*sizes)[2]) : third;
  Heads& s = p.heads;
  s.batch = v.dim(0, 0), s.queries = v.dim(0, 1), s.kv_heads = heads, s.group = 1;
  s.head = floor_div(q, Expr(heads)), s.value_head = floor_div(value, Expr(heads));
  s.keys = s.queries;
  if (v.has(Past)) s.keys = v.ranked(Past) && v.rank(Past) == 5 ? s.keys + v.dim(Past, 3) : Expr();
  s.score_cost = 1 + (v.has(Mask) || v.integer("unidirectional", 0) ? 1 : 0);
  p.hidden = value;
  p.flops = s.batch * s.queries * v.dim(0, 2) * v.dim(1, 1) * 2;
  p.bias = s.batch * s.queries * v.dim(1, 1);
  return p;
}

template <size_t Past, size_t Mask> void infer_projected(InferContext& c) {
  if (!c.need_inputs(2)) return;
  if (c.integer("num_heads", 0) < 1) return c.fail("onnx-attribute", "needs num_heads");
  const Projection p = projected<Past, Mask>(c);
  const DType d = c.dtype(0) == DType::uint8 || c.dtype(0) == DType::int8 ? (c.in(3) ? c.dtype(3) : DType::float32) : c.dtype(0);
  if (!c.ranked(0) || c.rank(0) != 3) return c.output_unranked(0, d);
  c.output(0, d, {c.dim(0, 0), c.dim(0, 1), p.hidden});
  const bool shared = c.integer("past_present_share_buffer", 0) != 0 && c.has(Past) && c.ranked(Past) && c.rank(Past) == 5;
  c.output(1, d, {2, p.heads.batch, p.heads.kv_heads, shared ? c.dim(Past, 3) : p.heads.keys, p.heads.head});
}

template <size_t Past, size_t Mask> void projected_work(const OpView& v, Work& w) {
  const Projection p = projected<Past, Mask>(v);
  if (v.op_name() == "QAttention") w.math = MathType::int8;
  products(w, p.heads, p.flops, v.has(2) ? p.bias : Expr(0));
  if (!p.heads.known()) return;
  const Heads& s = p.heads;
  if (v.out(0)) append_in_place(v, w, 1, storage_bytes(v.out(0)->dtype, s.batch * s.kv_heads * s.queries * s.head * 2));
}

// ---- Rotary embedding: two products and one addition an element.

void infer_rotary(InferContext& c) { same_as_first(c); }
template <size_t Cos> void rotary_work(const OpView& v, Work& w) {
  if (!v.in(0)) return;
  w.vector_flops = v.in(0)->elements() * 3;
  for (size_t i : {Cos, Cos + 1})
    if (v.has(i)) w.reads[i] = min(v.bytes(i), v.bytes(0));
}

// ---- LinearAttention: state update and read-out are two products of [d, e] a token and head, with
// the delta rules a third.
void infer_linear(InferContext& c) {
  if (!c.need_inputs(3) || !c.need_rank(0, 3, 3) || !c.need_rank(1, 3, 3) || !c.need_rank(2, 3, 3)) return;
  const int64_t q = c.integer("q_num_heads", 0), kv = c.integer("kv_num_heads", 0);
  if (q < 1 || kv < 1) return c.fail("onnx-attribute", "needs q_num_heads and kv_num_heads");
  const Expr d = floor_div(c.dim(1, 2), Expr(kv)), e = floor_div(c.dim(2, 2), Expr(kv));
  c.output(0, c.dtype(0), {c.dim(0, 0), c.dim(0, 1), e * q});
  c.output(1, c.has(3) ? c.dtype(3) : c.dtype(0), {c.dim(0, 0), Expr(kv), d, e});
}
void linear_work(const OpView& v, Work& w) {
  if (!v.ranked(0) || !v.ranked(1) || !v.ranked(2) || v.rank(0) != 3 || v.rank(1) != 3 || v.rank(2) != 3) {
    w.matrix_flops = {};
    return;
  }
  const int64_t q = std::max<int64_t>(1, v.integer("q_num_heads", 1)), kv = std::max<int64_t>(1, v.integer("kv_num_heads", 1));
  const Expr tokens = v.dim(0, 0) * v.dim(0, 1), state = floor_div(v.dim(1, 2), Expr(kv)) * floor_div(v.dim(2, 2), Expr(kv));
  const std::string_view rule = v.string("update_rule", "gated_delta");
  const bool delta = rule == "delta" || rule == "gated_delta", gated = rule == "gated" || rule == "gated_delta";
  w.matrix_flops = tokens * state * (Expr(kv) * (delta ? 2 : 1) + q) * 2;
  w.vector_flops = tokens * Expr(kv) * state * (gated ? 1 : 0) + (v.out(0) ? v.out(0)->elements() : Expr(0));
}

// ---- Packed and paged forms: tokens of all sequences in one line.

void infer_tokens(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const int64_t heads = c.integer("num_heads", 0), kv = c.integer("kv_num_heads", heads);
  if (!c.ranked(0) || heads < 1) return c.output_unranked(0, c.dtype(0));
  std::vector<Expr> dims = c.in(0)->dims;
  if (c.op_name() == "PackedAttention" && c.ranked(1) && c.rank(1) == 2 && dims.size() == 2) {
    const auto sizes = c.integers("qkv_hidden_sizes");
    dims[1] = sizes && sizes->size() == 3 ? Expr((*sizes)[2]) : floor_div(c.dim(1, 1), 3);
  } else if (c.op_name() == "PackedMultiHeadAttention" && c.ranked(0)) {
    if (c.rank(0) == 4) dims = {c.dim(0, 0), c.dim(0, 1) * c.dim(0, 3)};  // [tokens, h, 3, d]
    else if (c.has(2) && c.ranked(2) && c.rank(2) == 2) dims = {c.dim(0, 0), c.dim(2, 1)};
  } else if (c.op_name() == "PagedAttention" && !c.has(1) && dims.size() == 2) {
    dims[1] = floor_div(dims[1], Expr(heads + 2 * kv)) * heads;
  }
  c.output(0, c.dtype(0), std::move(dims));
  for (size_t i : {1, 2})
    if (c.wants(i) && c.in(i + 2)) c.output(i, c.in(i + 2));
}
// Which keys a token sees is decided by the sequences' lengths: at most the longest (from the shapes).
void tokens_work(const OpView& v, Work& w) {
  const int64_t heads = v.integer("num_heads", 0), kv = v.integer("kv_num_heads", heads);
  w.matrix_flops = {};
  if (!v.ranked(0) || v.rank(0) < 2 || heads < 1 || kv < 1 || !v.out(0) || v.out(0)->dims.size() != 2) return;
  const std::string_view op = v.op_name();
  Heads s;
  s.batch = 1, s.kv_heads = kv, s.group = floor_div(Expr(heads), Expr(kv)), s.queries = v.dim(0, 0);
  s.value_head = floor_div(v.out(0)->dims[1], Expr(heads)), s.head = s.value_head;
  Expr projection = 0;
  if (op == "PagedAttention") {
    // key_cache [blocks, block size, kv heads, d]; block_table [b, blocks a sequence].
    if (v.ranked(3) && v.rank(3) == 4 && v.ranked(7) && v.rank(7) == 2) s.keys = v.dim(7, 1) * v.dim(3, 1);
    if (v.integer("local_window_size", -1) > 0) s.window = v.integer("local_window_size", -1);
  } else {
    const size_t offsets = op == "PackedAttention" ? 3 : 4;  // token_offset [b, longest]
    if (v.ranked(offsets) && v.rank(offsets) == 2) s.keys = v.dim(offsets, 1);
    if (op == "PackedAttention" && v.ranked(1) && v.rank(1) == 2) projection = s.queries * v.dim(1, 0) * v.dim(1, 1) * 2;
  }
  products(w, s, projection);
  if (op != "PagedAttention") return;
  for (size_t i : {3, 4})
    if (v.has(i) && s.known()) w.reads[i] = min(v.bytes(i), storage_bytes(v.dtype(i), (v.ranked(7) && v.rank(7) == 2 ? v.dim(7, 0) : Expr(1)) * s.keys * s.kv_heads * s.head));
  append_in_place(v, w, 1, v.has(1) ? v.bytes(1) : Expr(0));
  append_in_place(v, w, 2, v.has(2) ? v.bytes(2) : Expr(0));
}

void infer_longformer(InferContext& c) {
  if (c.need_inputs(2)) c.output(0, c.in(0));
}
// Every token sees 2·window keys; two projections (local and global weights).
void longformer_work(const OpView& v, Work& w) {
  w.matrix_flops = {};
  const int64_t heads = v.integer("num_heads", 0);
  if (!v.ranked(0) || v.rank(0) != 3 || !v.ranked(1) || v.rank(1) != 2 || heads < 1) return;
  Heads s;
  s.batch = v.dim(0, 0), s.kv_heads = heads, s.group = 1, s.queries = s.keys = v.dim(0, 1);
  s.head = s.value_head = floor_div(v.dim(0, 2), Expr(heads));
  s.window = Expr(v.integer("window", 1)) * 2 + 1;
  products(w, s, s.batch * s.queries * v.dim(1, 0) * v.dim(1, 1) * 4);
}

// bias_table [buckets, h] → [1, h, q, k].
void infer_relative_bias(InferContext& c) {
  if (!c.need_inputs(3)) return;
  const auto q = c.exprs(1), k = c.exprs(2);
  auto one = [](const std::optional<std::vector<Expr>>& v) { return v && v->size() == 1 ? (*v)[0] : Expr(); };
  c.output(0, c.dtype(0), {1, c.ranked(0) && c.rank(0) == 2 ? c.dim(0, 1) : Expr(), one(q), one(k)});
}
void infer_gated_bias(InferContext& c) {
  if (!c.need_inputs(3)) return;
  const int64_t heads = c.integer("num_heads", 0);
  const Expr s = c.ranked(0) && c.rank(0) == 3 ? c.dim(0, 1) : Expr(), b = c.ranked(0) && c.rank(0) == 3 ? c.dim(0, 0) : Expr();
  c.output(0, c.dtype(0), {b, Expr(heads), s, s});
}

// Which tokens are padding is decided by data.
void infer_remove_padding(InferContext& c) {
  if (!c.need_inputs(2)) return;
  if (!c.ranked(0) || c.rank(0) != 3) return c.output_unranked(0, c.dtype(0));
  c.output(0, c.dtype(0), {c.fresh("tokens", c.dim(0, 0) * c.dim(0, 1)), c.dim(0, 2)});
  c.output(1, DType::int32, {c.dim(0, 0), c.dim(0, 1)});
  c.output(2, DType::int32, {c.dim(0, 0) + 1});
  c.output(3, DType::int32, {1});
}
void infer_restore_padding(InferContext& c) {
  if (!c.need_inputs(2)) return;
  if (!c.ranked(0) || c.rank(0) != 2 || !c.ranked(1) || c.rank(1) != 2) return c.output_unranked(0, c.dtype(0));
  c.output(0, c.dtype(0), {c.dim(1, 0), c.dim(1, 1), c.dim(0, 1)});
}

constexpr std::string_view notation = "b (h g) q d, b h k~ d, b h k~ e -> b (h g) q e";
constexpr std::string_view two_products = "2*b*h*q*k*(d + e); vector 5 a score, 1 each for scale, mask and bias, 3 for a softcap; --causal: pairs inside the mask";
constexpr std::string_view with_projection = "2*b*s*i*(q + k + v) for the projection and 2*b*h*q*k*(d + e); vector as Attention";
#define MICROSOFT(op_name) .domain = "com.microsoft", .name = op_name, .since = 1

constexpr OpInfo table[] = {
    {.name = "Attention", .since = 23, .kind = Kind::attention, .access = notation,
     .access_rule = [](const OpView& v) { return access_of_heads(v, standard_heads(v), 3); }, .infer = infer_standard, .work = standard_work, .formula = two_products},
    {.domain = "ai.onnx.preview", .name = "FlexAttention", .since = 1, .kind = Kind::attention, .access = notation,
     .access_rule = [](const OpView& v) { return access_of_heads(v, standard_heads(v), 3); }, .work = standard_work, .control = infer_flex, .formula = two_products},
    {.name = "RotaryEmbedding", .since = 23, .kind = Kind::pointwise, .infer = infer_rotary, .work = rotary_work<1>, .formula = "3*n"},
    {.name = "LinearAttention", .since = 27, .kind = Kind::recurrent, .infer = infer_linear, .work = linear_work,
     .formula = "2*tokens*d*e*(h_kv + h_q); delta rules 2*tokens*d*e*h_kv more"},

    {MICROSOFT("GroupQueryAttention"), .kind = Kind::attention, .access = notation,
     .access_rule = [](const OpView& v) { return access_of_heads(v, group_query_heads(v), 3); }, .infer = infer_group_query, .work = group_query_work, .formula = two_products},
    {MICROSOFT("MultiHeadAttention"), .kind = Kind::attention, .access = notation,
     .access_rule = [](const OpView& v) { return access_of_heads(v, multi_heads<6>(v), 3); }, .infer = infer_multi_head<6>, .work = multi_head_work<6>, .formula = two_products},
    {MICROSOFT("DecoderMaskedMultiHeadAttention"), .kind = Kind::attention, .access = notation,
     .access_rule = [](const OpView& v) { return access_of_heads(v, multi_heads<5>(v), 3); }, .infer = infer_multi_head<5>, .work = multi_head_work<5>, .formula = two_products},
    {MICROSOFT("Attention"), .kind = Kind::attention, .access = notation,
     .access_rule = [](const OpView& v) { return access_of_heads(v, projected<4, 3>(v).heads, 0); }, .infer = infer_projected<4, 3>, .work = projected_work<4, 3>, .formula = with_projection},
    {MICROSOFT("QAttention"), .kind = Kind::attention, .access = notation,
     .access_rule = [](const OpView& v) { return access_of_heads(v, projected<8, 5>(v).heads, 0); }, .infer = infer_projected<8, 5>, .work = projected_work<8, 5>,
     .auxiliary = 0b11011000, .formula = with_projection},
    {MICROSOFT("DecoderMaskedSelfAttention"), .kind = Kind::attention, .access = notation,
     .access_rule = [](const OpView& v) { return access_of_heads(v, projected<4, 3>(v).heads, 0); }, .infer = infer_projected<4, 3>, .work = projected_work<4, 3>, .formula = with_projection},
    {MICROSOFT("PagedAttention"), .kind = Kind::attention, .infer = infer_tokens, .work = tokens_work, .formula = "2*tokens*h*keys*(d + e), keys at most those of a sequence's blocks"},
    {MICROSOFT("PackedAttention"), .kind = Kind::attention, .infer = infer_tokens, .work = tokens_work, .formula = "projection and 2*tokens*h*longest*(d + e)"},
    {MICROSOFT("PackedMultiHeadAttention"), .kind = Kind::attention, .infer = infer_tokens, .work = tokens_work, .formula = "2*tokens*h*longest*(d + e)"},
    {MICROSOFT("LongformerAttention"), .kind = Kind::attention, .infer = infer_longformer, .work = longformer_work, .formula = "two projections and 2*b*h*q*(2*window + 1)*(d + e)"},
    {MICROSOFT("SparseAttention"), .kind = Kind::attention, .infer = infer_group_query, .uncounted = "which blocks are computed is decided by data"},
    {MICROSOFT("RotaryEmbedding"), .kind = Kind::pointwise, .infer = infer_rotary, .work = rotary_work<2>, .formula = "3*n"},
    {MICROSOFT("GemmaRotaryEmbedding"), .kind = Kind::pointwise,
     .infer = [](InferContext& c) {
       if (!c.need_inputs(2)) return;
       c.output(0, c.in(1)), c.output(1, c.in(1));
     },
     .work = [](const OpView& v, Work& w) { if (v.in(1)) w.vector_flops = v.in(1)->elements() * 6; }, .formula = "6*n: queries and keys"},
    {MICROSOFT("RelativePositionBias"), .kind = Kind::lookup, .infer = infer_relative_bias,
     .work = [](const OpView& v, Work& w) { w.reads[0] = min(v.bytes(0), v.output_bytes(0)); }, .formula = "0; rows of the table"},
    {MICROSOFT("GatedRelativePositionBias"), .kind = Kind::pointwise, .infer = infer_gated_bias,
     .work = [](const OpView& v, Work& w) { if (v.out(0)) w.vector_flops = v.out(0)->elements(); }, .formula = "1 per output (the gates' small product is left out)"},
    {MICROSOFT("RemovePadding"), .kind = Kind::movement, .infer = infer_remove_padding},
    {MICROSOFT("RestorePadding"), .kind = Kind::movement, .infer = infer_restore_padding},
};

}  // namespace

OpFamily attention_ops() { return table; }

}  // namespace roofcast
