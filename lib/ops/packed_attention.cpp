// Attention whose operands come packed: with the projections inside, or with the tokens of all
// sequences in one line. Amounts of the two products are those of attention.cpp; a projection adds
// 2·b·s·i·(q + k + v) matrix FLOPs and its biases 1 vector FLOP an element.
#include "ops/attention.h"
#include "ops/op_table.h"
#include "ops/rules.h"
#include "ops/scalar_costs.h"

namespace roofcast {
namespace {

namespace sc = scalar_cost;

bool has_rank(const OpView& v, size_t i, size_t rank) { return v.ranked(i) && v.rank(i) == rank; }

// ---- Projections inside. input [b, s, i], weights [i, q + k + v], past [2, b, h, p, d] at `Past`;
// where past and present share a buffer, `Past` + 2 says how much of it is in use.

struct Projection {
  Heads heads;
  Expr flops, bias;
};

template <size_t Past, size_t Mask> Projection projected(const OpView& v) {
  Projection p;
  const int64_t heads = v.integer("num_heads", 0);
  if (!has_rank(v, 0, 3) || !has_rank(v, 1, 2) || heads < 1) return p;
  const auto sizes = v.integers("qkv_hidden_sizes");
  const bool given = sizes && sizes->size() == 3;
  const Expr third = floor_div(v.dim(1, 1), 3);
  Heads& s = p.heads;
  s.batch = v.dim(0, 0), s.queries = s.fresh = v.dim(0, 1), s.kv_heads = heads, s.group = 1;
  s.head = floor_div(given ? Expr((*sizes)[0]) : third, Expr(heads));
  s.value_head = floor_div(given ? Expr((*sizes)[2]) : third, Expr(heads));
  s.keys = s.fresh;
  if (v.has(Past)) {
    const Expr buffer = has_rank(v, Past, 5) ? v.dim(Past, 3) : Expr();
    const Expr past = scalar_expr(v, Past + 2);
    if (!v.integer("past_present_share_buffer", 0)) s.keys = buffer + s.fresh;
    else s.keys = past.is_known() ? min(buffer, past + s.fresh) : buffer;
  }
  s.score_cost = 1 + (v.has(Mask) || v.integer("unidirectional", 0) ? 1 : 0);
  if (Past == 4 && v.has(5)) ++s.score_cost;
  p.flops = s.batch * s.queries * v.dim(0, 2) * v.dim(1, 1) * 2;
  p.bias = v.has(2) ? s.batch * s.queries * v.dim(1, 1) : Expr(0);
  if (v.integer("do_rotary", 0)) p.bias += s.batch * s.queries * s.kv_heads * s.head * (2 * 3);
  return p;
}

// Quantised inputs give the type of their scale (input 3).
DType projected_type(const OpView& v) {
  if (v.dtype(0) != DType::uint8 && v.dtype(0) != DType::int8) return v.dtype(0);
  return v.in(3) ? v.dtype(3) : DType::float32;
}

template <size_t Past, size_t Mask> void infer_projected(InferContext& c) {
  if (!c.need_inputs(2)) return;
  if (c.integer("num_heads", 0) < 1) return c.fail("onnx-attribute", "needs num_heads");
  const DType type = projected_type(c);
  if (!c.ranked(0)) return c.output_unranked(0, type);
  if (!c.need_rank(0, 3, 3)) return;
  const Heads s = projected<Past, Mask>(c).heads;
  c.output(0, type, {c.dim(0, 0), c.dim(0, 1), s.kv_heads * s.value_head});
  const bool shared = c.integer("past_present_share_buffer", 0) != 0 && has_rank(c, Past, 5);
  c.output(1, type, {2, s.batch, s.kv_heads, shared ? c.dim(Past, 3) : s.keys, s.head});
}

template <size_t Past, size_t Mask> AccessResult projected_access(const OpView& v) {
  return heads_access(v, projected<Past, Mask>(v).heads, 0);
}

template <size_t Past, size_t Mask> void projected_work(const OpView& v, Work& w) {
  const Projection p = projected<Past, Mask>(v);
  const Heads& s = p.heads;
  count_products(w, s, p.flops, p.bias);
  if (!s.known()) return;
  const Expr row = s.batch * s.kv_heads * s.head * 2;
  if (v.wants(1) && v.out(1) && w.writes.size() > 1)
    w.writes[1] = storage_bytes(v.out(1)->dtype, row * s.fresh);
  if (v.has(Past) && w.reads.size() > Past)
    w.reads[Past] = min(v.bytes(Past), storage_bytes(v.dtype(Past), row * s.cached_rows_read()));
}

void quantized_work(const OpView& v, Work& w) {
  projected_work<8, 5>(v, w);
  w.math = MathType::int8;
}

// QOrderedAttention: weights of q, k, v apart, at inputs 5 to 7, each [i, h·d]; all int8.
Projection ordered_heads(const OpView& v) {
  Projection p;
  const int64_t heads = v.integer("num_heads", 0);
  if (!has_rank(v, 0, 3) || !has_rank(v, 5, 2) || !has_rank(v, 6, 2) || !has_rank(v, 7, 2))
    return p;
  if (heads < 1) return p;
  Heads& s = p.heads;
  s.batch = v.dim(0, 0), s.queries = s.fresh = s.keys = v.dim(0, 1), s.kv_heads = heads,
  s.group = 1;
  s.head = floor_div(v.dim(5, 1), Expr(heads)), s.value_head = floor_div(v.dim(7, 1), Expr(heads));
  s.score_cost = 1 + (v.has(17) || v.integer("unidirectional", 0) ? 1 : 0) + sc::quantize;
  const Expr width = v.dim(5, 1) + v.dim(6, 1) + v.dim(7, 1), tokens = s.batch * s.queries;
  p.flops = tokens * v.dim(0, 2) * width * 2;
  p.bias = tokens * (width + v.dim(7, 1)) * (1 + sc::quantize);
  return p;
}
void infer_ordered(InferContext& c) {
  if (!c.need_inputs(1)) return;
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  if (!c.need_rank(0, 3, 3)) return;
  const Heads s = ordered_heads(c).heads;
  c.output(0, c.dtype(0), {c.dim(0, 0), c.dim(0, 1), s.kv_heads * s.value_head});
}
void ordered_work(const OpView& v, Work& w) {
  const Projection p = ordered_heads(v);
  count_products(w, p.heads, p.flops, p.bias);
  w.math = MathType::int8;
}

// DecoderAttention: query [s, b, h·d], key [t, b, h·d], caches [b, h, t, d]. Flags at inputs 8 to
// 10 say whether keys come from `key` (static_kv), the query, or the cache.
Projection decoder_heads(const OpView& v) {
  Projection p;
  const int64_t heads = v.integer("num_heads", 0);
  const auto fixed = v.scalar(8), use_past = v.scalar(9), has_state = v.scalar(10);
  if (!has_rank(v, 0, 3) || !has_rank(v, 1, 3) || heads < 1) return p;
  Heads& s = p.heads;
  s.batch = v.dim(0, 1), s.queries = v.dim(0, 0), s.kv_heads = heads, s.group = 1;
  s.head = s.value_head = floor_div(v.dim(0, 2), Expr(heads));
  if (!fixed || !use_past || !has_state) return p;
  const bool cached = *use_past != 0 && *has_state != 0, cross = *fixed != 0;
  const Expr past = !cached ? Expr(0) : has_rank(v, 6, 4) ? v.dim(6, 2) : Expr();
  s.fresh = !cross ? s.queries : cached ? Expr(0) : v.dim(1, 0);
  s.keys = past + s.fresh;
  s.maskable = !cross;
  s.score_cost = 1 + (v.has(5) ? 1 : 0);
  const Expr width = v.dim(0, 2), tokens = s.batch * (s.queries + s.fresh * 2);
  p.flops = tokens * width * width * 2, p.bias = tokens * width;
  return p;
}
void infer_decoder(InferContext& c) {
  if (!c.need_inputs(2)) return;
  c.output(0, c.in(0));
  const Heads s = decoder_heads(c).heads;
  for (size_t i : {1, 2}) c.output(i, c.dtype(0), {s.batch, s.kv_heads, s.keys, s.head});
}
void decoder_work(const OpView& v, Work& w) {
  const Projection p = decoder_heads(v);
  count_products(w, p.heads, p.flops, p.bias);
  if (!p.heads.known()) {
    w.uncounted = "whether its caches are used is decided by inputs when it runs";
    return;
  }
  append_to_cache(v, w, p.heads, 1);
  read_from_cache(v, w, p.heads, 6);
}

// Longformer: a token sees `window` keys to each side; local and global weights both project.
template <size_t Weight> void longformer_work(const OpView& v, Work& w) {
  w.matrix_flops = {};
  const int64_t heads = v.integer("num_heads", 0);
  if (!has_rank(v, 0, 3) || !has_rank(v, Weight, 2) || heads < 1) return;
  Heads s;
  s.batch = v.dim(0, 0), s.kv_heads = heads, s.group = 1;
  s.queries = s.keys = s.fresh = v.dim(0, 1);
  s.head = s.value_head = floor_div(v.dim(0, 2), Expr(heads));
  s.window = Expr(v.integer("window", 1)) * 2 + 1;
  s.maskable = false;
  s.score_cost = 2;
  const Expr width = s.batch * s.queries * v.dim(Weight, 1);
  count_products(w, s, width * v.dim(Weight, 0) * 4, width * 2);
  if (Weight == 2) w.math = MathType::int8;
}

// ---- Tokens of all sequences in one line. Which keys a token sees is decided by the sequences'
// lengths: at most the longest, which shapes tell.

void infer_packed(InferContext& c) {
  if (!c.need_inputs(2)) return;
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  if (!c.need_rank(0, 2, 2)) return;
  const auto sizes = c.integers("qkv_hidden_sizes");
  const Expr width = sizes && sizes->size() == 3 ? Expr((*sizes)[2])
                     : has_rank(c, 1, 2)         ? floor_div(c.dim(1, 1), 3)
                                                 : Expr();
  c.output(0, c.dtype(0), {c.dim(0, 0), width});
}

void infer_packed_heads(InferContext& c) {  // [tokens, h·d], or packed [tokens, h, 3, d]
  if (!c.need_inputs(1)) return;
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  if (!c.need_rank(0, 2, 4)) return;
  const Expr width = c.rank(0) == 4 ? c.dim(0, 1) * c.dim(0, 3)
                     : has_rank(c, 2, 2) ? c.dim(2, 1)
                                         : c.dim(0, 1);
  c.output(0, c.dtype(0), {c.dim(0, 0), width});
}

// Offset is token_offset [b, longest sequence], the attention bias stands two inputs behind.
template <size_t Offset> void packed_work(const OpView& v, Work& w) {
  w.matrix_flops = {};
  const int64_t heads = v.integer("num_heads", 0);
  if (!v.ranked(0) || v.rank(0) < 2 || heads < 1 || !v.out(0) || v.out(0)->dims.size() != 2) return;
  Heads s;
  s.batch = 1, s.kv_heads = heads, s.group = 1, s.queries = s.fresh = v.dim(0, 0);
  s.keys = has_rank(v, Offset, 2) ? v.dim(Offset, 1) : Expr();
  s.head = s.value_head = floor_div(v.out(0)->dims[1], Expr(heads));
  s.score_cost = 2 + (v.has(Offset + 2) ? 1 : 0);
  s.maskable = false;
  if (Offset == 4) return count_products(w, s);
  if (!has_rank(v, 1, 2)) return;
  if (const auto sizes = v.integers("qkv_hidden_sizes"); sizes && sizes->size() == 3)
    s.head = floor_div(Expr((*sizes)[0]), Expr(heads));
  const Expr width = s.queries * v.dim(1, 1);
  count_products(w, s, width * v.dim(1, 0) * 2, width);
}

// PagedAttention and SparsePagedAttention: query [tokens, h·d] or packed with keys and values;
// caches [blocks, block size, kv heads, d] at 3 and 4, block_table [b, blocks a sequence].
template <size_t Table> Heads paged_heads(const OpView& v) {
  Heads s;
  const int64_t heads = v.integer("num_heads", 0), kv = v.integer("kv_num_heads", heads);
  if (!has_rank(v, 0, 2) || heads < 1 || kv < 1) return s;
  const bool latent = v.string("kv_cache_layout", "") == "LATENT";
  s.batch = 1, s.kv_heads = kv, s.group = floor_div(Expr(heads), Expr(kv));
  s.queries = s.fresh = v.dim(0, 0);
  s.head = s.value_head = floor_div(v.dim(0, 1), Expr(v.has(1) || latent ? heads : heads + 2 * kv));
  if (const int64_t e = v.integer("v_head_size", 0); e > 0) s.value_head = e;
  if (has_rank(v, 3, 4) && has_rank(v, Table, 2)) s.keys = v.dim(Table, 1) * v.dim(3, 1);
  if (const int64_t window = v.integer("local_window_size", -1); window > 0) s.window = window;
  s.score_cost = 2 + (v.real("softcap", 0) != 0 ? 3 : 0);
  s.maskable = false;  // tokens of several sequences
  return s;
}

void infer_paged(InferContext& c) {
  if (!c.need_inputs(1)) return;
  if (c.integer("num_heads", 0) < 1) return c.fail("onnx-attribute", "needs num_heads");
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  if (!c.need_rank(0, 2, 2)) return;
  const Heads s = paged_heads<7>(c);
  c.output(0, c.dtype(0), {c.dim(0, 0), s.query_heads() * s.value_head});
  for (size_t i : {1, 2})
    if (c.in(i + 2)) c.output(i, c.in(i + 2));
}

// Caches are updated in place: new rows written, those of every sequence's blocks read.
void paged_traffic(const OpView& v, Work& w, const Heads& s, size_t table, Expr keys) {
  const Expr sequences = has_rank(v, table, 2) ? v.dim(table, 0) : Expr();
  for (size_t i : {3, 4}) {
    if (!has_rank(v, i, 4)) continue;
    const Expr row = s.kv_heads * v.dim(i, 3);
    w.reads[i] = min(v.bytes(i), storage_bytes(v.dtype(i), sequences * keys * row));
    if (v.wants(i - 2)) w.writes[i - 2] = storage_bytes(v.dtype(i), s.fresh * row);
  }
}

void paged_work(const OpView& v, Work& w) {
  const Heads s = paged_heads<7>(v);
  const Expr rotary = v.integer("do_rotary", 0)
                          ? s.queries * s.head * (s.query_heads() + s.kv_heads) * 3
                          : Expr(0);
  count_products(w, s, 0, rotary);
  if (!s.known()) return;
  paged_traffic(v, w, s, 7, s.keys);
  for (size_t i : {8, 9}) read_table_rows(v, w, i, s.queries);
}

// Each token sees the keys selected for it, selected_indices [tokens, most] at `Indices`, and with
// local_plus_selected those of a window of the cache.
template <size_t Indices> Heads selected_heads(const OpView& v, Heads s) {
  const Expr most = has_rank(v, Indices, 2) ? v.dim(Indices, 1) : Expr();
  const bool local = v.string("attention_mode", "selected_only") == "local_plus_selected";
  s.keys = local ? most + v.integer("local_window_size", 0) : most;
  s.window = {};
  s.maskable = false;
  return s;
}

void sparse_paged_work(const OpView& v, Work& w) {
  const Heads s = selected_heads<9>(v, paged_heads<7>(v));
  count_products(w, s);
  if (s.known()) paged_traffic(v, w, s, 7, min(paged_heads<7>(v).keys, s.keys * s.queries));
}

// DynamicSparseAttention: as GroupQueryAttention, with the total length at input 10.
Heads dynamic_heads(const OpView& v) {
  Heads s;
  const int64_t heads = v.integer("num_heads", 0), kv = v.integer("kv_num_heads", heads);
  if (!has_rank(v, 0, 3) || heads < 1 || kv < 1) return s;
  s.batch = v.dim(0, 0), s.queries = s.fresh = v.dim(0, 1);
  s.kv_heads = kv, s.group = floor_div(Expr(heads), Expr(kv));
  s.head = s.value_head = floor_div(v.dim(0, 2), Expr(v.has(1) ? heads : heads + 2 * kv));
  return selected_heads<7>(v, s);
}
void infer_dynamic(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const int64_t heads = c.integer("num_heads", 0), kv = c.integer("kv_num_heads", heads);
  if (heads < 1 || kv < 1) return c.fail("onnx-attribute", "needs num_heads and kv_num_heads");
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  if (!c.need_rank(0, 3, 3)) return;
  const Heads s = dynamic_heads(c);
  const DType type = c.integer("output_bf16", 0) ? DType::bfloat16 : c.dtype(0);
  c.output(0, type, {c.dim(0, 0), c.dim(0, 1), Expr(heads) * s.head});
  const Expr total = scalar_expr(c, 10);
  const Expr length = !has_rank(c, 3, 4) ? s.fresh
                      : total.is_known() ? max(c.dim(3, 2), total)
                                         : Expr();
  for (size_t i : {1, 2})
    c.output(i, c.has(i + 2) ? c.dtype(i + 2) : type, {s.batch, s.kv_heads, length, s.head});
  c.output(3, DType::int32, {Expr()});
}
void dynamic_work(const OpView& v, Work& w) {
  const Heads s = dynamic_heads(v);
  count_products(w, s);
  if (!s.known()) return;
  append_to_cache(v, w, s, 1);
  for (size_t i : {3, 4}) {
    if (!has_rank(v, i, 4)) continue;
    const Expr rows = s.batch * s.kv_heads * min(v.dim(i, 2), s.queries * s.keys);
    w.reads[i] = storage_bytes(v.dtype(i), rows * v.dim(i, 3));
  }
  if (v.wants(3)) w.writes[3] = 0;
}

// ---- Packing itself. Which tokens are padding is decided by data.

void infer_remove_padding(InferContext& c) {
  if (!c.need_inputs(2)) return;
  if (!has_rank(c, 0, 3)) return c.output_unranked(0, c.dtype(0));
  c.output(0, c.dtype(0), {c.fresh("tokens", c.dim(0, 0) * c.dim(0, 1)), c.dim(0, 2)});
  c.output(1, DType::int32, {c.dim(0, 0), c.dim(0, 1)});
  c.output(2, DType::int32, {c.dim(0, 0) + 1});
  c.output(3, DType::int32, {1});
}

// Only the rows that stay cross memory.
void remove_padding_work(const OpView& v, Work& w) { w.reads[0] = v.output_bytes(0); }

void infer_restore_padding(InferContext& c) {
  if (!c.need_inputs(2)) return;
  if (!has_rank(c, 0, 2) || !has_rank(c, 1, 2)) return c.output_unranked(0, c.dtype(0));
  c.output(0, c.dtype(0), {c.dim(1, 0), c.dim(1, 1), c.dim(0, 1)});
}

constexpr std::string_view with_projection =
    "2*b*s*i*(q + k + v) + 2*b*h*q*k*(d + e); vector as Attention, 1 an element of the biases";

#define MICROSOFT(op_name, op_kind) \
  .domain = "com.microsoft", .name = op_name, .since = 1, .kind = op_kind
#define PROJECTED(op_name, past, mask) \
  MICROSOFT(op_name, Kind::attention), .access = heads_notation, \
  .access_rule = projected_access<past, mask>, .infer = infer_projected<past, mask>

constexpr OpInfo table[] = {
    {PROJECTED("Attention", 4, 3), .work = projected_work<4, 3>, .formula = with_projection},
    {PROJECTED("DecoderMaskedSelfAttention", 4, 3), .work = projected_work<4, 3>,
     .formula = with_projection},
    {PROJECTED("QAttention", 8, 5), .work = quantized_work, .auxiliary = 0b11011000,
     .formula = with_projection},
    {MICROSOFT("QOrderedAttention", Kind::attention), .access = heads_notation,
     .access_rule = [](const OpView& v) { return heads_access(v, ordered_heads(v).heads, 0); },
     .infer = infer_ordered, .work = ordered_work, .auxiliary = 0b11100011100011110,
     .formula = "2*b*s*i*(q + k + v) + 2*b*h*q*k*(d + e) in int8"},
    {MICROSOFT("DecoderAttention", Kind::attention), .access = heads_notation,
     .access_rule = [](const OpView& v) { return heads_access(v, decoder_heads(v).heads, 0); },
     .infer = infer_decoder, .work = decoder_work,
     .formula = "2*b*(s + 2*new)*w^2 + 2*b*h*q*k*(d + e); uncounted unless its flags are known"},
    {MICROSOFT("LongformerAttention", Kind::attention), .infer = same_as_first,
     .work = longformer_work<1>,
     .formula = "4*b*s*i*(q + k + v) + 2*b*h*q*(2*window + 1)*(d + e)"},
    {MICROSOFT("QOrderedLongformerAttention", Kind::attention), .infer = same_as_first,
     .work = longformer_work<2>, .auxiliary = 0b10101001101010,
     .formula = "4*b*s*i*(q + k + v) + 2*b*h*q*(2*window + 1)*(d + e) in int8"},
    {MICROSOFT("PackedAttention", Kind::attention), .infer = infer_packed, .work = packed_work<3>,
     .formula = "2*tokens*i*(q + k + v) + 2*tokens*h*longest*(d + e)"},
    {MICROSOFT("PackedMultiHeadAttention", Kind::attention), .infer = infer_packed_heads,
     .work = packed_work<4>, .formula = "2*tokens*h*longest*(d + e)"},
    {MICROSOFT("PagedAttention", Kind::attention), .infer = infer_paged, .work = paged_work,
     .formula = "2*tokens*h*keys*(d + e), keys at most those of a sequence's blocks"},
    {MICROSOFT("SparsePagedAttention", Kind::attention), .infer = infer_paged,
     .work = sparse_paged_work,
     .formula = "2*tokens*h*(selected + local window)*(d + e), selected at most the list's length"},
    {MICROSOFT("DynamicSparseAttention", Kind::attention), .infer = infer_dynamic,
     .work = dynamic_work,
     .formula = "2*b*s*h*(selected + local window)*(d + e), selected at most the list's length"},
    {MICROSOFT("RemovePadding", Kind::movement), .infer = infer_remove_padding,
     .work = remove_padding_work, .formula = "0; bytes rows that stay, twice"},
    {MICROSOFT("RestorePadding", Kind::movement), .infer = infer_restore_padding, .formula = "0"},
};

}  // namespace

OpFamily packed_attention_ops() { return table; }

}  // namespace roofcast
