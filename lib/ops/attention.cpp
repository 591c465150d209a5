// Attention, each form one kernel: operands cross memory once, scores stay on the chip.
//
// Matrix FLOPs are the two products, 2·b·h·q·k·(d + e), counted in full; under --causal only the
// pairs inside the mask: query i sees keys up to i + offset. A sliding window limits the keys of a
// query. Vector FLOPs a score: scale 1, mask or bias 1 each, softcap 3, softmax 5 (less 2 a row). A
// KV cache is appended in place: rows in use are read, only new rows are written. FlashAttention:
// T. Dao et al., NeurIPS 2022; grouped queries: J. Ainslie et al., EMNLP 2023.
#include "ops/attention.h"

#include "ops/op_table.h"
#include "ops/rules.h"

namespace roofcast {

bool Heads::known() const {
  for (Expr e : {batch, kv_heads, group, queries, keys, fresh, head, value_head})
    if (!e.is_known()) return false;
  return true;
}

Expr Heads::cached_rows_read() const {
  return window.is_known() ? min(cached(), window - 1) : cached();
}

AccessResult heads_access(const OpView& v, const Heads& s, size_t data_inputs, size_t cache) {
  if (!s.known()) return {};
  AccessBuilder b;
  auto one = [](uint8_t f) { return DimMap{DimMap::Kind::product, {f}}; };
  const uint8_t n = b.factor("b", s.batch), h = b.factor("h", s.kv_heads),
                g = b.factor("g", s.group), q = b.factor("q", s.queries),
                k = b.factor("k", s.keys, Role::online), d = b.factor("d", s.head, Role::reduce),
                e = b.factor("e", s.value_head);
  // [b, h, s, d], or [b, s, h·d].
  auto map = [&](std::vector<uint8_t> groups, uint8_t rows, uint8_t width, bool flat) {
    if (!flat) return OperandMap{{one(n), {DimMap::Kind::product, groups}, one(rows), one(width)}};
    groups.push_back(width);
    return OperandMap{{one(n), one(rows), {DimMap::Kind::product, groups}}};
  };
  auto flat = [&](size_t i) { return v.ranked(i) && v.rank(i) == 3; };
  const OperandMap maps[] = {map({h, g}, q, d, flat(0)), map({h}, k, d, flat(1)), map({h}, k, e, flat(2))};
  // A cache is [b, h, length, d]; its length is no loop.
  auto cached = [&](uint8_t width) { return OperandMap{{one(n), one(h), {}, one(width)}}; };
  auto is_cache = [](Type t) { return t && t->is_tensor() && t->ranked && t->dims.size() == 4; };
  // Query, key and value in one: [b, s, (3 h d)].
  const bool packed = v.has(0) && !v.has(1) && flat(0) && s.group == Expr(1);
  const uint8_t three = packed ? b.factor("qkv", 3, Role::whole) : 0;
  for (size_t i = 0; i < v.input_count(); ++i) {
    if (i == 0 && packed) b.input() = {{one(n), one(q), {DimMap::Kind::product, {three, h, g, d}}}};
    else if (i < data_inputs && i < std::size(maps) && v.has(i)) b.input() = maps[i];
    else if (cache && (i == cache || i == cache + 1) && is_cache(v.in(i))) b.input() = cached(i == cache ? d : e);
    else b.input().outside = true;
  }
  b.output() = map({h, g}, q, e, v.out(0) && v.out(0)->ranked && v.out(0)->dims.size() == 3);
  for (size_t i = 1; i < v.output_count(); ++i) {
    if (cache && i <= 2 && v.wants(i) && is_cache(v.out(i))) b.output() = cached(i == 1 ? d : e);
    else b.output().outside = true;
  }
  return {b.take(), {}, {}};
}

namespace {

// 1 + 2 + … + n.
Expr triangle(Expr n) { return floor_div(n * (n + 1), 2); }

// Query–key pairs of one head inside a causal mask.
Expr causal_pairs(const Heads& s) {
  const Expr window = s.window.is_known() ? min(s.keys, s.window) : s.keys;
  // Σ min(j, window) for j = 1 … n.
  auto up_to = [&](Expr n) {
    if (!s.window.is_known()) return triangle(n);
    return triangle(min(n, window)) + max(0, n - window) * window;
  };
  if (!s.offset.is_known()) return up_to(s.keys) - up_to(max(0, s.keys - s.queries));
  // Query i sees i + 1 + offset keys; the queries behind the last key see all.
  const Expr last = s.offset + s.queries;
  return up_to(min(s.keys, last)) - up_to(min(s.keys, s.offset)) + max(0, last - s.keys) * window;
}

}  // namespace

void count_products(Work& w, const Heads& s, Expr matrix, Expr vector) {
  if (!s.known()) {
    w.matrix_flops = {};
    return;
  }
  const Expr heads = s.batch * s.query_heads(), rows = heads * s.queries;
  auto amounts = [&](Expr pairs, Expr& matrix_flops, Expr& vector_flops) {
    matrix_flops = matrix + heads * pairs * (s.head + s.value_head) * 2;
    vector_flops = vector + heads * pairs * (5 + s.score_cost) - rows * 2;
  };
  const Expr seen = s.window.is_known() ? min(s.keys, s.window) : s.keys;
  amounts(s.queries * seen, w.matrix_flops, w.vector_flops);
  w.windowed = s.window.is_known();
  if (s.maskable) amounts(causal_pairs(s), w.causal_matrix_flops, w.causal_vector_flops);
}

void append_to_cache(const OpView& v, Work& w, const Heads& s, size_t key) {
  for (size_t i : {key, key + 1}) {
    const Type cache = v.out(i);
    if (!v.wants(i) || i >= w.writes.size() || !cache || !cache->is_tensor()) continue;
    // The last dim as the cache stores it: two int4 to a byte make it shorter than a head.
    const Expr width = cache->dims.size() == 4 ? cache->dims[3] : i == key ? s.head : s.value_head;
    w.writes[i] = storage_bytes(cache->dtype, s.batch * s.kv_heads * s.fresh * width);
  }
}

void read_from_cache(const OpView& v, Work& w, const Heads& s, size_t key) {
  for (size_t i : {key, key + 1}) {
    if (!v.has(i) || !v.ranked(i) || v.rank(i) != 4 || i >= w.reads.size()) continue;
    const Expr rows = s.batch * s.kv_heads * s.cached_rows_read();
    w.reads[i] = min(v.bytes(i), storage_bytes(v.dtype(i), rows * v.dim(i, 3)));
  }
}

void read_table_rows(const OpView& v, Work& w, size_t i, Expr rows) {
  if (!v.has(i) || !v.ranked(i) || v.rank(i) != 2 || i >= w.reads.size()) return;
  w.reads[i] = min(v.bytes(i), storage_bytes(v.dtype(i), rows * v.dim(i, 1)));
}

Expr scalar_expr(const OpView& v, size_t i) {
  const auto values = v.has(i) ? v.exprs(i) : std::nullopt;
  return values && values->size() == 1 ? (*values)[0] : Expr();
}

namespace {

// ---- ai.onnx Attention: q [b, h, s, d] or [b, s, h·d]; past [b, h, p, d].

Heads standard_heads(const OpView& v) {
  Heads s;
  if (!v.ranked(0) || !v.ranked(1) || !v.ranked(2)) return s;
  if (v.rank(0) != v.rank(1) || v.rank(1) != v.rank(2)) return s;
  const int64_t q_heads = v.integer("q_num_heads", 0), kv = v.integer("kv_num_heads", 0);
  if (v.rank(0) == 4) {
    s.batch = v.dim(0, 0), s.kv_heads = v.dim(1, 1), s.group = floor_div(v.dim(0, 1), v.dim(1, 1));
    s.queries = v.dim(0, 2), s.fresh = v.dim(1, 2);
    s.head = v.dim(0, 3), s.value_head = v.dim(2, 3);
  } else if (v.rank(0) == 3 && q_heads > 0 && kv > 0) {
    s.batch = v.dim(0, 0), s.kv_heads = kv, s.group = floor_div(Expr(q_heads), Expr(kv));
    s.queries = v.dim(0, 1), s.fresh = v.dim(1, 1);
    s.head = floor_div(v.dim(0, 2), Expr(q_heads));
    s.value_head = floor_div(v.dim(2, 2), Expr(kv));
  } else {
    return s;
  }
  s.keys = s.fresh;
  if (v.has(4)) s.keys = v.ranked(4) && v.rank(4) == 4 ? s.fresh + v.dim(4, 2) : Expr();
  const bool causal = v.integer("is_causal", 0) != 0;
  const int64_t left = v.integer("left_window_size", -1);
  const int64_t right = causal ? 0 : v.integer("right_window_size", -1);
  if (left >= 0 && right >= 0) s.window = Expr(left) + right + 1;
  // Without a cache the spec's own mask starts at the upper left.
  if (causal && !v.has(4) && !v.has(6)) s.offset = 0;
  s.score_cost = 1 + (v.has(3) || causal ? 1 : 0) + (v.real("softcap", 0) != 0 ? 3 : 0);
  return s;
}

void infer_standard(InferContext& c) {
  if (!c.need_inputs(3)) return;
  for (size_t i = 0; i < 3; ++i)
    if (c.ranked(i) && !c.need_rank(i, 3, 4)) return;
  if (c.ranked(0) && c.rank(0) == 3 &&
      (c.integer("q_num_heads", 0) < 1 || c.integer("kv_num_heads", 0) < 1))
    return c.fail("onnx-attribute", "3-D inputs need q_num_heads and kv_num_heads");
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  const Heads s = standard_heads(c);
  const bool flat = c.rank(0) == 3;
  const Expr heads = flat ? Expr(c.integer("q_num_heads", 0)) : c.dim(0, 1);
  const Expr queries = c.dim(0, flat ? 1 : 2);
  if (flat) c.output(0, c.dtype(0), {c.dim(0, 0), queries, heads * s.value_head});
  else c.output(0, c.dtype(0), {c.dim(0, 0), heads, queries, s.value_head});
  c.output(1, c.dtype(1), {c.dim(0, 0), s.kv_heads, s.keys, s.head});
  c.output(2, c.dtype(2), {c.dim(0, 0), s.kv_heads, s.keys, s.value_head});
  c.output(3, c.dtype(0), {c.dim(0, 0), heads, queries, s.keys});
}

AccessResult standard_access(const OpView& v) { return heads_access(v, standard_heads(v), 3, 4); }

void standard_work(const OpView& v, Work& w) {
  const Heads s = standard_heads(v);
  count_products(w, s);
  if (!s.known()) return;
  append_to_cache(v, w, s, 1);
  read_from_cache(v, w, s, 4);
}

// score_mod and prob_mod are bodies; what they add is not counted as attention's.
void infer_flex(InferContext& c, Bodies& bodies) {
  for (size_t i = 0; i < 3; ++i)
    if (!c.need_inputs(3) || !c.need_rank(i, 4, 4)) return;
  c.output(0, c.dtype(0), {c.dim(0, 0), c.dim(0, 1), c.dim(0, 2), c.dim(2, 3)});
  const Type scores =
      c.module.tensor(c.dtype(0), {c.dim(0, 0), c.dim(0, 1), c.dim(0, 2), c.dim(1, 2)});
  for (size_t i = 0; i < bodies.count(); ++i) {
    if (bodies.input_count(i) == 1) bodies.bind_input(i, 0, scores, nullptr);
    bodies.infer(i);
  }
}

// ---- com.microsoft GroupQueryAttention and SparseAttention: q [b, s, h·d]; a packed QKV has query
// + 2·kv heads; the cache is [b, h, length, d]; `Total` is the input that holds the sum of past and
// new.

template <size_t Total> Heads group_query_heads(const OpView& v) {
  Heads s;
  const int64_t heads = v.integer("num_heads", 0), kv = v.integer("kv_num_heads", heads);
  if (!v.ranked(0) || v.rank(0) != 3 || heads < 1 || kv < 1) return s;
  const bool packed = !v.has(1);
  s.batch = v.dim(0, 0), s.queries = v.dim(0, 1);
  s.kv_heads = kv, s.group = floor_div(Expr(heads), Expr(kv));
  s.head = s.value_head = floor_div(v.dim(0, 2), Expr(packed ? heads + 2 * kv : heads));
  s.fresh = packed ? s.queries : v.ranked(1) && v.rank(1) == 3 ? v.dim(1, 1) : Expr();
  const Expr total = scalar_expr(v, Total);
  if (total.is_known()) s.keys = total;
  else if (v.has(3)) s.keys = v.ranked(3) && v.rank(3) == 4 ? v.dim(3, 2) + s.fresh : Expr();
  else s.keys = s.fresh;
  if (const int64_t window = v.integer("local_window_size", -1); window > 0) s.window = window;
  s.score_cost = 1 + (v.integer("causal", 1) ? 1 : 0) + (v.real("softcap", 0) != 0 ? 3 : 0) +
                 (Total == 6 && v.has(10) ? 1 : 0);
  return s;
}

template <size_t Total> AccessResult group_query_access(const OpView& v) {
  return heads_access(v, group_query_heads<Total>(v), 3, 3);
}

template <size_t Total> void infer_group_query(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const int64_t heads = c.integer("num_heads", 0), kv = c.integer("kv_num_heads", heads);
  if (heads < 1 || kv < 1) return c.fail("onnx-attribute", "needs num_heads and kv_num_heads");
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  if (!c.need_rank(0, 3, 3)) return;
  const Heads s = group_query_heads<Total>(c);
  c.output(0, c.dtype(0), {c.dim(0, 0), c.dim(0, 1), Expr(heads) * s.head});
  // The present has room for what the past had, or for all keys if that is more; a cache that holds
  // only a window, and that of SparseAttention, keep their size.
  const bool cached = c.has(3) && c.ranked(3) && c.rank(3) == 4;
  const bool fixed = Total != 6 || c.integer("sliding_window_cache", 0) != 0;
  const Expr total = scalar_expr(c, Total);
  const Expr length = !cached             ? s.keys
                      : fixed             ? c.dim(3, 2)
                      : total.is_known() ? max(c.dim(3, 2), total)
                                          : s.keys;
  for (size_t i : {1, 2}) {
    const bool as_past = c.ranked(i + 2) && c.rank(i + 2) == 4;
    c.output(i, c.has(i + 2) ? c.dtype(i + 2) : c.dtype(0),
             {c.dim(0, 0), Expr(kv), length, as_past ? c.dim(i + 2, 3) : s.head});
  }
  c.output(3, c.dtype(0), {c.dim(0, 0), Expr(heads), c.dim(0, 1), s.keys});
}

// Cache, lengths and rotary tables of either op; `rotary` is the first table.
void group_query_traffic(const OpView& v, Work& w, const Heads& s, size_t rotary) {
  append_to_cache(v, w, s, 1);
  read_from_cache(v, w, s, 3);
  for (size_t i : {rotary, rotary + 1}) read_table_rows(v, w, i, s.queries);
}

Expr rotary_flops(const OpView& v, const Heads& s) {
  if (!v.integer("do_rotary", 0)) return 0;
  return s.batch * s.head * (s.queries * s.query_heads() + s.fresh * s.kv_heads) * 3;
}

void group_query_work(const OpView& v, Work& w) {
  const Heads s = group_query_heads<6>(v);
  if (!s.known()) return count_products(w, s);
  Expr vector = rotary_flops(v, s);
  // RMS normalization of each query and key head: 4 an element, 3 a head.
  if (v.has(14) && v.has(15))
    vector += s.batch * (s.queries * s.query_heads() + s.fresh * s.kv_heads) * (s.head * 4 + 3);
  count_products(w, s, 0, vector);
  group_query_traffic(v, w, s, 7);
  for (size_t i : {5, 6})  // lengths
    if (v.has(i)) w.reads[i] = 0;
}

// Blocks of a mask in CSR form, the same at most for each head: block_col_indices [layouts,
// blocks].
void sparse_work(const OpView& v, Work& w) {
  Heads s = group_query_heads<7>(v);
  if (!v.ranked(6) || v.rank(6) != 2) s.keys = {};
  if (!s.known()) return count_products(w, s);
  const Expr block = v.integer("sparse_block_size", 1), blocks = v.dim(6, 1);
  const Expr pairs = min(s.queries * s.keys, blocks * block * block);
  const Expr heads = s.batch * s.query_heads();
  w.matrix_flops = heads * pairs * (s.head + s.value_head) * 2;
  w.vector_flops = rotary_flops(v, s) + heads * (pairs * (5 + s.score_cost) - s.queries * 2);
  group_query_traffic(v, w, s, 9);
}

// ---- com.microsoft MultiHeadAttention and DecoderMaskedMultiHeadAttention. q [b, s, h·d] or
// packed [b, s, h, 3, d] or [b, 1, 3·h·d]; k [b, t, h·d] or packed kv [b, t, h, 2, d], or those of
// a cross attention, cached as [b, h, t, d]. `Past` is the input of past keys; mask and bias stand
// before it.

template <size_t Past> Heads multi_heads(const OpView& v) {
  constexpr size_t mask = Past - 2, bias = Past - 1, length = Past == 6 ? 8 : 7;
  Heads s;
  const int64_t heads = v.integer("num_heads", 0);
  if (!v.ranked(0) || (v.rank(0) != 3 && v.rank(0) != 5) || heads < 1) return s;
  s.batch = v.dim(0, 0), s.queries = v.dim(0, 1), s.kv_heads = heads, s.group = 1;
  s.fresh = s.queries;
  if (v.rank(0) == 5) {
    s.head = s.value_head = v.dim(0, 4);
  } else if (!v.has(1)) {
    s.head = s.value_head = floor_div(v.dim(0, 2), Expr(3 * heads));
  } else {
    s.head = s.value_head = floor_div(v.dim(0, 2), Expr(heads));
    const size_t rank = v.ranked(1) ? v.rank(1) : 0;
    s.fresh = rank == 4 ? v.dim(1, 2) : rank == 3 || rank == 5 ? v.dim(1, 1) : Expr();
    s.maskable = rank != 4;
    if (rank != 5 && v.has(2)) {
      const size_t value_rank = v.ranked(2) ? v.rank(2) : 0;
      s.value_head = value_rank == 4   ? v.dim(2, 3)
                     : value_rank == 3 ? floor_div(v.dim(2, 2), Expr(heads))
                                       : Expr();
    }
  }
  s.keys = s.fresh;
  if (v.has(Past) && s.maskable) {
    const Expr buffer = v.ranked(Past) && v.rank(Past) == 4 ? v.dim(Past, 2) : Expr();
    // A buffer shared by past and present is as long as it may get; how much of it is in use is an
    // input of its own.
    const Expr past = scalar_expr(v, length);
    if (!v.has(length)) s.keys = buffer + s.fresh;
    else s.keys = past.is_known() ? min(buffer, past + s.fresh) : buffer;
  }
  s.score_cost =
      1 + (v.has(mask) || v.integer("unidirectional", 0) ? 1 : 0) + (v.has(bias) ? 1 : 0);
  return s;
}

template <size_t Past> AccessResult multi_head_access(const OpView& v) {
  return heads_access(v, multi_heads<Past>(v), 3, Past);
}

template <size_t Past> void infer_multi_head(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const int64_t heads = c.integer("num_heads", 0);
  if (heads < 1) return c.fail("onnx-attribute", "needs num_heads");
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  if (!c.need_rank(0, 3, 5)) return;
  const Heads s = multi_heads<Past>(c);
  c.output(0, c.dtype(0), {c.dim(0, 0), c.dim(0, 1), Expr(heads) * s.value_head});
  // With a shared buffer the present is as long as the past.
  const bool shared = c.integer("past_present_share_buffer", 0) != 0 || c.has(Past == 6 ? 8 : 7);
  const bool as_past = shared && c.has(Past) && c.ranked(Past) && c.rank(Past) == 4;
  const Expr length = as_past ? c.dim(Past, 2) : s.keys;
  c.output(1, c.dtype(0), {c.dim(0, 0), Expr(heads), length, s.head});
  c.output(2, c.dtype(0), {c.dim(0, 0), Expr(heads), length, s.value_head});
  c.output(3, c.dtype(0), {c.dim(0, 0), Expr(heads), c.dim(0, 1), s.keys});
}

template <size_t Past> void multi_head_work(const OpView& v, Work& w) {
  const Heads s = multi_heads<Past>(v);
  if (!s.known()) return count_products(w, s);
  Expr added = 0;  // the bias of the projection; cached keys have theirs already
  if (v.has(Past == 6 ? 3 : 10)) {
    added = s.queries * s.head;
    if (s.maskable) added += s.fresh * (s.head + s.value_head);
    added *= s.batch * s.kv_heads;
  }
  count_products(w, s, 0, added);
  append_to_cache(v, w, s, 1);
  read_from_cache(v, w, s, Past);
}

constexpr std::string_view two_products =
    "2*b*h*q*k*(d + e); vector 5 a score less 2 a row, 1 each for scale, mask and bias, 3 for a "
    "softcap; --causal: pairs inside the mask";
constexpr std::string_view grouped =
    "2*b*h*q*k*(d + e); vector as Attention, 3 an element for rotary embedding; bytes of the "
    "caches rows in use read, new rows written";

#define MICROSOFT(op_name) \
  .domain = "com.microsoft", .name = op_name, .since = 1, .kind = Kind::attention, \
  .access = heads_notation

constexpr OpInfo table[] = {
    {.name = "Attention", .since = 23, .kind = Kind::attention, .access = heads_notation,
     .access_rule = standard_access, .infer = infer_standard, .work = standard_work,
     .formula = two_products},
    {.domain = "ai.onnx.preview", .name = "FlexAttention", .since = 1, .kind = Kind::attention,
     .access = heads_notation, .access_rule = standard_access, .work = standard_work,
     .control = infer_flex, .formula = two_products},
    {MICROSOFT("GroupQueryAttention"), .access_rule = group_query_access<6>,
     .infer = infer_group_query<6>, .work = group_query_work, .formula = grouped},
    {MICROSOFT("SparseAttention"), .access_rule = group_query_access<7>,
     .infer = infer_group_query<7>, .work = sparse_work,
     .formula = "2*b*h*min(q*k, blocks*block^2)*(d + e); vector as GroupQueryAttention"},
    {MICROSOFT("MultiHeadAttention"), .access_rule = multi_head_access<6>,
     .infer = infer_multi_head<6>, .work = multi_head_work<6>, .formula = two_products},
    {MICROSOFT("DecoderMaskedMultiHeadAttention"), .access_rule = multi_head_access<5>,
     .infer = infer_multi_head<5>, .work = multi_head_work<5>, .formula = two_products},
};

}  // namespace

OpFamily attention_ops() { return table; }

}  // namespace roofcast
