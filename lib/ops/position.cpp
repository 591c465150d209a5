// Positions in attention: rotary embeddings and relative biases.
//
// Rotating takes two products and an addition an element: x·cos + rotated(x)·sin. The rows of the
// tables that positions pick are read, never the whole table.
// RoPE: J. Su et al., arXiv:2104.09864; T5 biases: C. Raffel et al., JMLR 2020.
#include "ops/attention.h"
#include "ops/op_table.h"
#include "ops/rules.h"

namespace roofcast {
namespace {

// x [b, h, s, d] or [b, s, h·d]; only the first rotary_embedding_dim elements of a head turn.
Expr rotated_elements(const OpView& v) {
  if (!v.ranked(0) || v.rank(0) < 3) return {};
  const int64_t turned = v.integer("rotary_embedding_dim", 0), heads = v.integer("num_heads", 0);
  if (turned > 0 && v.rank(0) == 4) return v.dim(0, 0) * v.dim(0, 1) * v.dim(0, 2) * turned;
  if (turned > 0 && heads > 0) return v.dim(0, 0) * v.dim(0, 1) * heads * turned;
  return v.in(0)->elements();
}

// `Cos` is the first table's input, `Positions` that of the ids: [b, s], or [1] where a sequence
// counts up from one position.
template <size_t Cos, size_t Positions> void rotary_work(const OpView& v, Work& w) {
  w.vector_flops = rotated_elements(v) * 3;
  if (!v.has(Positions) || !v.ranked(Positions) || !v.ranked(0) || v.rank(0) < 3) return;
  const Expr rows = v.rank(Positions) >= 2 ? v.in(Positions)->elements()
                                           : v.dim(0, v.rank(0) == 4 ? 2 : 1);
  for (size_t i : {Cos, Cos + 1}) read_table_rows(v, w, i, rows);
}

void infer_rotary(InferContext& c) {
  if (c.need_inputs(1) && (!c.ranked(0) || c.need_rank(0, 3, 4))) c.output(0, c.in(0));
}

// Queries and keys [b, h, s, d] with their rotated halves, from emb [b, s, d]: its sine and cosine
// once, then 3 an element of each.
void infer_gemma(InferContext& c) {
  if (!c.need_inputs(4)) return;
  c.output(0, c.in(1)), c.output(1, c.in(3));
}
void gemma_work(const OpView& v, Work& w) {
  if (!v.in(0) || !v.in(1) || !v.in(3)) return;
  w.vector_flops = (v.in(1)->elements() + v.in(3)->elements()) * 3 + v.in(0)->elements() * 2;
}

// x [b, s, heads, stride]: a slice of each head is normalized, then its first part turned.
Expr normalized_width(const OpView& v) {
  if (const int64_t width = v.integer("input_width", 0); width > 0) return width;
  return v.ranked(0) && v.rank(0) == 4 ? v.dim(0, 3) : Expr();
}
void infer_norm_rotary(InferContext& c) {
  if (!c.need_inputs(2)) return;
  const DType type = c.integer("output_fp16", 0) ? DType::float16 : DType::bfloat16;
  if (!c.ranked(0)) return c.output_unranked(0, type);
  if (!c.need_rank(0, 4, 4)) return;
  const Expr b = c.dim(0, 0), s = c.dim(0, 1), heads = c.dim(0, 2), width = normalized_width(c);
  if (c.integer("flatten_batch", 0)) c.output(0, type, {1, b * s, heads * width});
  else c.output(0, type, {b, s, heads * width});
  c.output(1, DType::float32, {b, s, heads, width});
}
void norm_rotary_work(const OpView& v, Work& w) {
  if (!v.ranked(0) || v.rank(0) != 4) {
    w.vector_flops = {};
    return;
  }
  const Expr tokens = v.dim(0, 0) * v.dim(0, 1), lines = tokens * v.dim(0, 2);
  const Expr width = normalized_width(v);
  w.vector_flops = lines * (width * 4 + 3 + v.integer("rotary_embedding_dim", 0) * 3);
  w.reads[0] = storage_bytes(v.dtype(0), lines * width);
  for (size_t i : {3, 4}) read_table_rows(v, w, i, tokens);
}

// bias_table [buckets, h] → [1, h, q, k].
void infer_relative_bias(InferContext& c) {
  if (!c.need_inputs(3)) return;
  const Expr heads = c.ranked(0) && c.rank(0) == 2 ? c.dim(0, 1) : Expr();
  c.output(0, c.dtype(0), {1, heads, scalar_expr(c, 1), scalar_expr(c, 2)});
}

// query [b, s, h·d] or [tokens, h·d], rel_pos [1, h, s, s], weight [d, D], token_offset [b, s].
Expr bias_batch(const OpView& v) {
  if (v.ranked(0) && v.rank(0) == 3) return v.dim(0, 0);
  return v.ranked(6) && v.rank(6) == 2 ? v.dim(6, 0) : Expr();
}
void infer_gated_bias(InferContext& c) {
  if (!c.need_inputs(3)) return;
  const Expr s = c.ranked(2) && c.rank(2) == 4 ? c.dim(2, 3) : Expr();
  const int64_t heads = c.integer("num_heads", 0);
  if (heads < 1) return c.fail("onnx-attribute", "needs num_heads");
  c.output(0, c.dtype(0), {bias_batch(c), Expr(heads), s, s});
}
// Per query and head: D gate sums with bias, two sigmoids (4 each), u·(r·a − 1) + 2; then the
// product.
void gated_bias_work(const OpView& v, Work& w) {
  const bool fits = v.out(0) && v.ranked(0) && v.ranked(2) && v.rank(2) == 4 && v.ranked(3) &&
                    v.rank(3) == 2 && !v.in(0)->dims.empty();
  if (!fits) {
    w.matrix_flops = {};
    return;
  }
  const Expr gates = v.dim(3, 1), tokens = bias_batch(v) * v.dim(2, 3);
  const Expr rows = tokens * v.integer("num_heads", 0);
  w.matrix_flops = rows * v.dim(3, 0) * gates * 2;
  w.vector_flops = v.in(0)->elements() + rows * (gates * 2 + 10) + v.out(0)->elements();
}

// x [b, h, s, d] or [b, s, h·d]; sine and cosine tables lie outside of the loops.
template <size_t Positions> AccessResult rotary_access(const OpView& v) {
  if (!v.ranked(0) || (v.rank(0) != 3 && v.rank(0) != 4)) return {};
  const bool flat = v.rank(0) == 3;
  const int64_t count = v.integer("num_heads", 0);
  if (flat && count < 1) return {};
  const Expr heads = flat ? Expr(count) : v.dim(0, 1);
  const Expr head = flat ? floor_div(v.dim(0, 2), heads) : v.dim(0, 3);
  AccessBuilder b;
  auto one = [](uint8_t f) { return DimMap{DimMap::Kind::product, {f}}; };
  const uint8_t n = b.factor("b", v.dim(0, 0)), h = b.factor("h", heads),
                s = b.factor("s", v.dim(0, flat ? 1 : 2)), d = b.factor("d", head, Role::whole);
  const OperandMap map = flat ? OperandMap{{one(n), one(s), DimMap{DimMap::Kind::product, {h, d}}}}
                              : OperandMap{{one(n), one(h), one(s), one(d)}};
  for (size_t i = 0; i < v.input_count(); ++i) {
    if (i == 0) b.input() = map;
    else if (i == Positions && v.ranked(i) && v.rank(i) == 2) b.input() = {{one(n), one(s)}};
    else b.input().outside = true;
  }
  b.output() = map;
  return {b.take(), {}, {}};
}

#define MICROSOFT(op_name, op_kind) \
  .domain = "com.microsoft", .name = op_name, .since = 1, .kind = op_kind

constexpr std::string_view turning = "3 per rotated element; bytes 2*n + rows of the tables";

constexpr OpInfo table[] = {
    {.name = "RotaryEmbedding", .since = 23, .kind = Kind::pointwise,
     .access = "b h s d! -> b h s d!", .access_rule = rotary_access<3>, .infer = infer_rotary,
     .work = rotary_work<1, 3>, .formula = turning},
    {MICROSOFT("RotaryEmbedding", Kind::pointwise), .access = "b h s d! -> b h s d!",
     .access_rule = rotary_access<1>, .infer = infer_rotary,
     .work = rotary_work<2, 1>, .formula = turning},
    {MICROSOFT("MRotaryEmbedding", Kind::pointwise), .infer = infer_rotary,
     .work = rotary_work<2, 1>, .formula = turning},
    {MICROSOFT("GemmaRotaryEmbedding", Kind::pointwise), .infer = infer_gemma, .work = gemma_work,
     .formula = "3 per element of queries and keys, sine and cosine of the embedding"},
    {MICROSOFT("RMSNormRotary", Kind::normalization), .infer = infer_norm_rotary,
     .work = norm_rotary_work, .formula = "4*n + 3*lines, 3 per rotated element"},
    {MICROSOFT("RelativePositionBias", Kind::lookup), .infer = infer_relative_bias,
     .work = [](const OpView& v, Work& w) { w.reads[0] = min(v.bytes(0), v.output_bytes(0)); },
     .formula = "0; bytes rows of the table + outputs"},
    {MICROSOFT("GatedRelativePositionBias", Kind::pointwise), .infer = infer_gated_bias,
     .work = gated_bias_work,
     .formula = "matrix 2*b*s*h*d*D; vector b*s*h*(d + 2*D + 10) + 1 per output"},
};

}  // namespace

OpFamily position_ops() { return table; }

}  // namespace roofcast
