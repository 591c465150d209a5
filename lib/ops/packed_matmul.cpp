// Products with weights packed by blocks, whose rows hold other numbers of bytes than of elements,
// and fused groups of such products that share their input.
//
// Dequantising takes 2 an element of the weights (subtract the zero point, scale), once.
#include "ops/op_table.h"
#include "ops/rules.h"
#include "ops/scalar_costs.h"

namespace roofcast {
namespace {

namespace sc = scalar_cost;

// A [.., k] times a weight: the dims before the last, and their product.
std::vector<Expr> with_width(const OpView& v, Expr width) {
  std::vector<Expr> dims = v.in(0)->dims;
  dims.back() = width;
  return dims;
}
bool has_lines(const OpView& v) { return v.ranked(0) && v.rank(0) > 0; }
Expr rows_of(const OpView& v) { return product(std::span(v.in(0)->dims).first(v.rank(0) - 1)); }
Expr last_of(const OpView& v) { return v.in(0)->dims.back(); }

// Types of outputs by their widths; a width that is not known gives a dim that is not.
void infer_widths(InferContext& c, std::initializer_list<Expr> widths) {
  size_t i = 0;
  for (Expr width : widths) {
    if (has_lines(c)) c.output(i, c.dtype(0), with_width(c, width));
    else c.output_unranked(i, c.dtype(0));
    ++i;
  }
}

// `width` columns in all from k features; `biases` of them with a bias.
void count_columns(const OpView& v, Work& w, Expr width, Expr biases = 0) {
  if (!has_lines(v)) {
    w.matrix_flops = {};
    return;
  }
  w.matrix_flops = rows_of(v) * last_of(v) * width * 2;
  w.vector_flops = last_of(v) * width * sc::dequantize + rows_of(v) * biases;
}

// RMS normalization of the input, at first added to a residual: inputs 1 (skip) and 2 (scale).
Expr norm_flops(const OpView& v) {
  if (!has_lines(v)) return {};
  const Expr skip = v.has(1) ? rows_of(v) * last_of(v) : Expr(0);
  return v.has(2) ? skip + rows_of(v) * (last_of(v) * 4 + 3) : skip;
}

// ---- One product: the number of columns comes from an attribute, the weight or a shape.

Expr columns_of(const OpView& v) {
  if (v.attribute("N")) return v.integer("N", 0);
  if (v.op_name() == "MatMulFpQ4") {  // B is a blob, its shape [K, N] an input
    const auto shape = v.exprs(2);
    return shape && shape->size() == 2 ? (*shape)[1] : Expr();
  }
  return v.ranked(1) && v.rank(1) >= 1 ? v.dim(1, 0) : Expr();
}
void infer_columns(InferContext& c) {
  if (c.need_inputs(2)) infer_widths(c, {columns_of(c)});
}
template <size_t Bias> void columns_work(const OpView& v, Work& w) {
  count_columns(v, w, columns_of(v), v.has(Bias) ? columns_of(v) : Expr(0));
}
constexpr size_t no_bias = limits::rank;
Expr column_weights(const OpView& v, size_t i) {
  return i == 1 && has_lines(v) ? columns_of(v) * last_of(v) : Expr();
}

// QOrderedMatMul: A [.., k], B [k, n], or [n, k] where order_B is ORDER_COL (0); all int8.
Expr ordered_columns(const OpView& v) {
  return v.ranked(2) && v.rank(2) == 2 ? v.dim(2, v.integer("order_B", 0) == 0 ? 0 : 1) : Expr();
}
void infer_ordered(InferContext& c) {
  if (c.need_inputs(3)) infer_widths(c, {ordered_columns(c)});
}
void ordered_work(const OpView& v, Work& w) {
  w.math = MathType::int8;
  if (!has_lines(v)) {
    w.matrix_flops = {};
    return;
  }
  const Expr outputs = rows_of(v) * ordered_columns(v);
  w.matrix_flops = outputs * last_of(v) * 2;
  w.vector_flops = outputs * (sc::quantize + (v.has(5) ? 1 : 0) + (v.has(6) ? 2 : 0));
}

// ---- Fused groups.

// activation(A·gate) · (A·up): N columns each.
void infer_mlp(InferContext& c) {
  if (!c.need_inputs(1)) return;
  infer_widths(c, {Expr(c.integer("N", 0)), has_lines(c) ? last_of(c) : Expr()});
}
void mlp_work(const OpView& v, Work& w) {
  const Expr n = v.integer("N", 0);
  count_columns(v, w, n * 2, n * (int{v.has(5)} + int{v.has(8)}));
  if (has_lines(v)) w.vector_flops += norm_flops(v) + rows_of(v) * n * (sc::silu + 1);
}

void infer_qkv(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const Expr q = c.integer("Nq", 0), kv = c.integer("Nkv", 0);
  infer_widths(c, {q, kv, kv, has_lines(c) ? last_of(c) : Expr()});
}
void qkv_work(const OpView& v, Work& w) {
  const Expr q = v.integer("Nq", 0), kv = v.integer("Nkv", 0);
  const Expr biases = (v.has(5) ? q : Expr(0)) + kv * (int{v.has(8)} + int{v.has(11)});
  count_columns(v, w, q + kv * 2, biases);
  w.vector_flops += norm_flops(v);
}
Expr fused_weights(const OpView& v, size_t i) {
  const Expr k = v.integer("K", 0);
  if (v.op_name() == "MatMulNBitsMlp") return i == 3 || i == 6 ? k * v.integer("N", 0) : Expr();
  if (i == 3) return k * v.integer("Nq", 0);
  return i == 6 || i == 9 ? k * v.integer("Nkv", 0) : Expr();
}

// A·W + (A·down)·up with an adapter of rank r: down [r, ..], up [N, ..].
Expr adapter_rank(const OpView& v) { return v.ranked(3) && v.rank(3) >= 1 ? v.dim(3, 0) : Expr(); }
void adapter_work(const OpView& v, Work& w) {
  const Expr n = v.integer("N", 0), rank = adapter_rank(v);
  count_columns(v, w, n + rank);
  if (!has_lines(v)) return;
  w.matrix_flops += rows_of(v) * rank * n * 2;
  w.vector_flops += rank * n * sc::dequantize + rows_of(v) * n;
}
Expr adapter_weights(const OpView& v, size_t i) {
  const Expr k = v.integer("K", 0), n = v.integer("N", 0);
  return i == 1 ? k * n : i == 3 ? k * adapter_rank(v) : i == 5 ? adapter_rank(v) * n : Expr();
}

// Router logits and a gated expert from one dense product: W [k, router + 2·inter].
Expr shared_inner(const OpView& v) {
  if (!v.ranked(1) || v.rank(1) != 2) return {};
  return floor_div(v.dim(1, 1) - Expr(v.integer("router_size", 0)), 2);
}
void infer_router_gate(InferContext& c) {
  if (!c.need_inputs(2)) return;
  infer_widths(c, {Expr(c.integer("router_size", 0)), shared_inner(c)});
}
void router_gate_work(const OpView& v, Work& w) {
  if (!has_lines(v) || !v.ranked(1) || v.rank(1) != 2) {
    w.matrix_flops = {};
    return;
  }
  w.matrix_flops = rows_of(v) * last_of(v) * v.dim(1, 1) * 2;
  w.vector_flops = rows_of(v) * shared_inner(v) * (sc::silu + 1);
}

// Rows of a packed table [rows, bytes], dequantised.
void infer_packed_rows(InferContext& c) {
  if (!c.need_inputs(2)) return;
  const int64_t type = c.integer("output_dtype", static_cast<int64_t>(DType::bfloat16));
  const DType to = type > 0 && type < dtype_count ? static_cast<DType>(type) : DType::bfloat16;
  if (!c.ranked(1)) return c.output_unranked(0, to);
  std::vector<Expr> dims = c.in(1)->dims;
  dims.push_back(c.integer("K", 0));
  c.output(0, to, std::move(dims));
}
void packed_rows_work(const OpView& v, Work& w) {
  if (!v.out(0) || !v.in(1) || !v.ranked(0) || v.rank(0) != 2) return;
  w.vector_flops = v.out(0)->elements() * sc::dequantize;
  w.reads[0] = storage_bytes(v.dtype(0), v.in(1)->elements() * v.dim(0, 1));
}
Expr row_weights(const OpView& v, size_t i) {
  return i == 0 && v.ranked(0) && v.rank(0) == 2 ? v.dim(0, 0) * v.integer("K", 0) : Expr();
}

#define MICROSOFT(op_name, op_kind) \
  .domain = "com.microsoft", .name = op_name, .since = 1, .kind = op_kind
#define COLUMNS(op_name, bias, scales) \
  MICROSOFT(op_name, Kind::contraction), .infer = infer_columns, .work = columns_work<bias>, \
  .auxiliary = scales, .packed_weight = column_weights, .formula = one_product

constexpr std::string_view one_product = "2*m*n*k; vector 2*n*k to dequantise, m*n for a bias";

constexpr OpInfo table[] = {
    {COLUMNS("MatMulFpQ4", no_bias, 0b100)},
    {COLUMNS("MatMulPacked", no_bias, 0b100)},
    {COLUMNS("MatMulBlockQuantizedFp4Weight", 5, 0b11100)},
    {COLUMNS("MatMulBlockQuantizedFp8Weight", 4, 0b1100)},
    {MICROSOFT("QOrderedMatMul", Kind::contraction), .infer = infer_ordered, .work = ordered_work,
     .auxiliary = 0b10011010, .formula = "2*m*n*k in int8; vector 5 per output, 1 a bias, 2 for C"},
    {MICROSOFT("MatMulNBitsMlp", Kind::contraction), .infer = infer_mlp, .work = mlp_work,
     .auxiliary = 0b10010000, .packed_weight = fused_weights,
     .formula = "4*m*N*K; vector 4*N*K to dequantise, 6*m*N to gate, norm 4*m*K + 3*m"},
    {MICROSOFT("MatMulNBitsQkv", Kind::contraction), .infer = infer_qkv, .work = qkv_work,
     .auxiliary = 0b10010010000, .packed_weight = fused_weights,
     .formula = "2*m*K*(Nq + 2*Nkv); vector as much by weights to dequantise, norm 4*m*K + 3*m"},
    {MICROSOFT("MatMulNBitsQLoRA", Kind::contraction),
     .infer = [](InferContext& c) {
       if (c.need_inputs(1)) infer_widths(c, {Expr(c.integer("N", 0))});
     },
     .work = adapter_work, .auxiliary = 0b1010100, .packed_weight = adapter_weights,
     .formula = "2*m*(N*K + r*K + r*N); vector 2 per weight to dequantise, m*N"},
    {MICROSOFT("RouterGateUpProj", Kind::contraction), .infer = infer_router_gate,
     .work = router_gate_work, .formula = "2*m*k*(router + 2*inner); vector 6*m*inner"},
    {MICROSOFT("GatherPacked", Kind::lookup), .infer = infer_packed_rows,
     .work = packed_rows_work, .packed_weight = row_weights,
     .formula = "2*outputs to dequantise; bytes packed rows taken + indices + outputs"},
};

}  // namespace

OpFamily packed_matmul_ops() { return table; }

}  // namespace roofcast
