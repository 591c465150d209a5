// What is left of com.microsoft: small ops with a formula, and those whose cost cannot be told from
// the graph, each with the reason.
#include "ops/attention.h"
#include "ops/op_table.h"
#include "ops/rules.h"
#include "ops/scalar_costs.h"

#include <algorithm>

namespace roofcast {
namespace {

namespace sc = scalar_cost;

bool has_rank(const OpView& v, size_t i, size_t rank) { return v.ranked(i) && v.rank(i) == rank; }

template <int PerOutput> void per_output(const OpView& v, Work& w) {
  if (v.out(0) && v.out(0)->is_tensor()) w.vector_flops = v.out(0)->elements() * PerOutput;
}

// ---- Linear algebra.

// A [m, k], B [n, k] → [m, n]: squared distances by |a|² + |b|² − 2·a·b.
void infer_cdist(InferContext& c) {
  if (!c.need_inputs(2)) return;
  c.output(0, c.dtype(0), {has_rank(c, 0, 2) ? c.dim(0, 0) : Expr(),
                           has_rank(c, 1, 2) ? c.dim(1, 0) : Expr()});
}
void cdist_work(const OpView& v, Work& w) {
  if (!v.out(0) || !has_rank(v, 0, 2) || !v.in(1)) return;
  w.matrix_flops = v.out(0)->elements() * v.dim(0, 1) * 2;
  w.vector_flops = v.out(0)->elements() * 4 + (v.in(0)->elements() + v.in(1)->elements()) * 2;
}

// LU factorisation and n right-hand sides: 2·n³ a matrix.
void inverse_work(const OpView& v, Work& w) {
  if (!v.ranked(0) || v.rank(0) < 2) return;
  w.vector_flops = v.in(0)->elements() * v.dim(0, v.rank(0) - 1) * 2;
}
// Determinant: LU factorisation, 2/3·n³ a matrix.
void det_work(const OpView& v, Work& w) {
  if (!v.ranked(0) || v.rank(0) < 2) return;
  w.vector_flops = floor_div(v.in(0)->elements() * v.dim(0, v.rank(0) - 1) * 2, 3);
}
void infer_det(InferContext& c) {
  if (!c.need_inputs(1)) return;
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  if (!c.need_rank(0, 2)) return;
  c.output(0, c.dtype(0), {c.in(0)->dims.begin(), c.in(0)->dims.end() - 2});
}

// The cheapest path through [m, n] has max(m, n) to m + n − 1 points; each point takes the least of
// three sums.
void infer_warping(InferContext& c) {
  if (!c.need_inputs(1) || !c.need_rank(0, 2, 3)) return;
  const Expr m = c.dim(0, c.rank(0) - 2), n = c.dim(0, c.rank(0) - 1);
  c.output(0, DType::int32, {2, c.fresh("path", m + n - 1, 1)});
}
void warping_work(const OpView& v, Work& w) {
  if (v.in(0)) w.vector_flops = v.in(0)->elements() * 3;
}

// ---- Tables and windows.

void infer_unfold(InferContext& c) {
  if (!c.need_inputs(1)) return;
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  const auto axis = c.axis(c.integer("dim", -1), c.rank(0));
  const int64_t size = c.integer("size", 1), step = c.integer("step", 1);
  if (!axis) return;
  if (step < 1) return c.fail("onnx-attribute", "step must be 1 or more");
  std::vector<Expr> dims = c.in(0)->dims;
  dims[*axis] = floor_div(dims[*axis] - Expr(size), Expr(step)) + 1;
  dims.push_back(size);
  c.output(0, c.dtype(0), std::move(dims));
}

void infer_embedding(InferContext& c) {
  if (!c.need_inputs(2)) return;
  if (!has_rank(c, 0, 2) || !c.ranked(1)) return c.output_unranked(0, c.dtype(0));
  std::vector<Expr> dims = c.in(1)->dims;
  dims.push_back(c.dim(0, 1));
  c.output(0, c.dtype(0), std::move(dims));
}
void embedding_work(const OpView& v, Work& w) { w.reads[0] = v.output_bytes(0); }

// Words as lists of characters [.., letters]: embed each by C [letters, e], convolve by
// W [f, 1, window, e], take the most over the word.
void infer_words(InferContext& c) {
  if (!c.need_inputs(4)) return;
  if (!c.ranked(0) || c.rank(0) < 1) return c.output_unranked(0, c.dtype(1));
  std::vector<Expr> dims = c.in(0)->dims;
  dims.back() = c.ranked(1) && c.rank(1) >= 1 ? c.dim(1, 0) : Expr();
  c.output(0, c.dtype(1), std::move(dims));
}
void words_work(const OpView& v, Work& w) {
  if (!v.ranked(0) || v.rank(0) < 1 || !has_rank(v, 1, 4) || !v.out(0) || !v.in(3)) {
    w.matrix_flops = {};
    return;
  }
  const Expr letters = v.in(0)->dims.back(), places = max(1, letters - v.dim(1, 2) + 1);
  const Expr sums = v.out(0)->elements() * places;
  w.matrix_flops = sums * v.dim(1, 2) * v.dim(1, 3) * 2;
  w.vector_flops = sums * 3;  // bias, tanh, maximum
  w.reads[3] = min(v.bytes(3), storage_bytes(v.dtype(3), v.in(0)->elements() * v.dim(1, 3)));
}

// Quantised embedding layers of BERT: ids [b, s], segments, tables of words, positions, segments.
void infer_quantized_embed(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const DType real = c.in(8) ? c.dtype(8) : DType::float32;
  if (!has_rank(c, 0, 2)) return c.output_unranked(0, real);
  const Expr hidden = has_rank(c, 2, 2) ? c.dim(2, 1) : Expr();
  c.output(0, real, {c.dim(0, 0), c.dim(0, 1), hidden});
  c.output(1, DType::int32, {c.dim(0, 0)});
}
void quantized_embed_work(const OpView& v, Work& w) {
  if (!v.out(0) || !has_rank(v, 0, 2) || !has_rank(v, 2, 2)) return;
  const Expr n = v.out(0)->elements(), lines = v.in(0)->elements();
  const int64_t tables = 2 + v.has(4);
  w.vector_flops = n * (sc::dequantize * tables + tables - 1 + 7) + lines * 3;
  w.reads[2] = storage_bytes(v.dtype(2), n);
  w.reads[3] = min(v.bytes(3), storage_bytes(v.dtype(3), v.dim(0, 1) * v.dim(2, 1)));
  if (v.has(4)) w.reads[4] = min(v.bytes(4), storage_bytes(v.dtype(4), n));
}

// ---- Pointwise ops and their like.

void infer_to(InferContext& c, DType to) {
  if (!c.need_inputs(1)) return;
  if (c.ranked(0)) c.output(0, to, c.in(0)->dims);
  else c.output_unranked(0, to);
}

// gate and up, or both halves in one.
void infer_swiglu(InferContext& c) {
  if (!c.need_inputs(1)) return;
  if (c.has(1)) return c.output(0, c.in(0));
  if (!c.ranked(0) || c.rank(0) < 1) return c.output_unranked(0, c.dtype(0));
  std::vector<Expr> dims = c.in(0)->dims;
  dims.back() = floor_div(dims.back(), 2);
  c.output(0, c.dtype(0), std::move(dims));
}
void swiglu_work(const OpView& v, Work& w) {
  if (!v.out(0)) return;
  const int64_t clamps = v.real("limit", 0) > 0 ? 3 : 0, beta = v.real("activation_beta", 0) != 0;
  const int64_t alpha = v.real("activation_alpha", 1) != 1;
  w.vector_flops = v.out(0)->elements() * (sc::silu + 1 + clamps + beta + alpha);
}

// x + y·gate, the gate [.., 1], or sigmoid(gate [.., k] · weight [k, 1]).
void gated_add_work(const OpView& v, Work& w) {
  if (!v.out(0)) return;
  w.vector_flops = v.out(0)->elements() * 2;
  if (!v.has(3) || !v.in(2) || !v.ranked(2) || v.rank(2) == 0) return;
  w.matrix_flops = v.in(2)->elements() * 2;
  w.vector_flops += product(std::span(v.in(2)->dims).first(v.rank(2) - 1)) * sc::sigmoid;
}

void finite_work(const OpView& v, Work& w) {
  for (size_t i = 0; i < v.input_count(); ++i)
    if (v.in(i)) w.vector_flops += v.in(i)->elements();
}

// RMS norm 4 an element, 3 a line; branches are the lines.
void branch_norm_work(const OpView& v, Work& w) {
  if (!v.ranked(0) || v.rank(0) < 2) return;
  const int64_t branches = v.integer("num_branches", 0);
  const Expr lines = product(std::span(v.in(0)->dims).first(v.rank(0) - 1));
  w.vector_flops = v.in(0)->elements() * 4 + lines * (branches > 0 ? branches : 1) * 3;
}

void ordered_norm_work(const OpView& v, Work& w) {
  if (!v.ranked(0) || v.rank(0) < 1) return;
  const Expr lines = product(std::span(v.in(0)->dims).first(v.rank(0) - 1));
  const int64_t per_element = sc::dequantize + 6 + v.has(3) + sc::quantize;
  w.vector_flops = v.in(0)->elements() * per_element + lines * 3;
}

// ---- Hyper-connections: C streams of width H, as [.., C, H] or, with num_branches, [.., C·H].
// D. Zhu et al., arXiv:2409.19606.

struct Streams {
  Expr tokens, branches, width;
  std::vector<Expr> lead;
};
std::optional<Streams> streams_of(const OpView& v) {
  if (!v.ranked(0)) return std::nullopt;
  const int64_t branches = v.integer("num_branches", 0);
  const size_t own = branches > 0 ? 1 : 2, rank = v.rank(0);
  if (rank < own) return std::nullopt;
  Streams s;
  s.lead.assign(v.in(0)->dims.begin(), v.in(0)->dims.end() - static_cast<std::ptrdiff_t>(own));
  s.tokens = product(s.lead);
  s.branches = branches > 0 ? Expr(branches) : v.dim(0, rank - 2);
  s.width = branches > 0 ? floor_div(v.dim(0, rank - 1), Expr(branches)) : v.dim(0, rank - 1);
  return s;
}
std::vector<Expr> lead_and(const Streams& s, Expr last) {
  std::vector<Expr> dims = s.lead;
  dims.push_back(last);
  return dims;
}

void infer_pre_mix(InferContext& c) {
  if (!c.need_inputs(2)) return;
  if (const auto s = streams_of(c)) c.output(0, c.dtype(0), lead_and(*s, s->width));
  else c.output_unranked(0, c.dtype(0));
}
void pre_mix_work(const OpView& v, Work& w) {
  if (const auto s = streams_of(v)) w.vector_flops = s->tokens * s->width * s->branches * 2;
  else w.vector_flops = {};
}
void post_mix_work(const OpView& v, Work& w) {
  const auto s = streams_of(v);
  if (!s) {
    w.vector_flops = {};
    return;
  }
  const Expr n = s->tokens * s->branches * s->width;
  w.vector_flops = n * 2;
  if (v.has(3)) w.matrix_flops = n * s->branches * 2;
}

void infer_low_rank(InferContext& c) {
  if (!c.need_inputs(5)) return;
  const auto s = streams_of(c);
  if (!s) return c.output_unranked(0, c.dtype(0));
  c.output(0, c.dtype(0), lead_and(*s, s->width));
  c.output(1, c.dtype(0), lead_and(*s, s->branches));
  c.output(2, c.in(0));
}
void low_rank_work(const OpView& v, Work& w) {
  const auto s = streams_of(v);
  if (!s || !has_rank(v, 2, 2)) {
    w.matrix_flops = {};
    return;
  }
  const Expr n = s->tokens * s->branches * s->width, rank = v.dim(2, 1);
  w.matrix_flops = n * (rank * 2 + s->branches) * 2;
  w.vector_flops = n * (4 + sc::sigmoid + 2 + (v.has(5) ? 2 : 0)) + s->tokens * s->branches * 3 +
                   s->tokens * (rank * (sc::silu + 1) + s->branches * (sc::sigmoid + 2));
}

// Keys, queries [b, s, c, h] and value [b, s, h]: two norms, their dot, a gate of 8, the product;
// the second output is normalized once more.
void infer_engram(InferContext& c) {
  if (!c.need_inputs(3)) return;
  c.output(0, c.in(0)), c.output(1, c.in(0));
}
void engram_work(const OpView& v, Work& w) {
  if (!v.ranked(0) || v.rank(0) != 4) return;
  const Expr lines = v.dim(0, 0) * v.dim(0, 1) * v.dim(0, 2), norm = v.dim(0, 3) * 4 + 3;
  w.vector_flops = lines * (norm * (v.wants(1) ? 3 : 2) + v.dim(0, 3) * 3 + 8);
}

#define COUNTED(op_name, op_kind, infer_rule, work_rule, formula_text) \
  {.domain = "com.microsoft", .name = op_name, .since = 1, .kind = op_kind, .infer = infer_rule, \
   .work = work_rule, .formula = formula_text}
#define POINTWISE(op_name, pattern, per_point) \
  {.domain = "com.microsoft", .name = op_name, .since = 1, .kind = Kind::pointwise, \
   .access = pattern, .cost = {.vector_per_point = per_point}}
#define BLOB(op_name) \
  {.domain = "com.microsoft", .name = op_name, .since = 1, .kind = Kind::opaque, \
   .uncounted = "a compiled blob of another runtime"}

constexpr OpInfo table[] = {
    {.name = "Det", .since = 11, .kind = Kind::reduction, .infer = infer_det, .work = det_work,
     .formula = "2/3*n^3 a matrix"},
    {.name = "SwiGLU", .since = 28, .kind = Kind::pointwise, .access = "b.., b.. -> b..",
     .work = [](const OpView& v, Work& w) {
       if (v.real("alpha", 1) != 1) w.vector_flops += w.access.points();
     },
     .cost = {.vector_per_point = sc::silu + 1}, .formula = "6*n; alpha: n more"},

    COUNTED("CDist", Kind::contraction, infer_cdist, cdist_work,
            "2*m*n*k; vector 4*m*n + 2*(m + n)*k"),
    COUNTED("Inverse", Kind::reduction, same_as_first, inverse_work, "2*n^3 a matrix"),
    COUNTED("DynamicTimeWarping", Kind::reduction, infer_warping, warping_work, "3 per input"),
    COUNTED("UnfoldTensor", Kind::movement, infer_unfold, nullptr, "0"),
    COUNTED("TorchEmbedding", Kind::lookup, infer_embedding, embedding_work,
            "0; bytes rows taken + indices + outputs"),
    COUNTED("WordConvEmbedding", Kind::convolution, infer_words, words_work,
            "2*words*places*f*window*e; vector 3*words*places*f"),
    COUNTED("QEmbedLayerNormalization", Kind::normalization, infer_quantized_embed,
            quantized_embed_work, "3 per table and element less 1, 7*n + 3*lines to normalize"),
    COUNTED("QOrderedLayerNormalization", Kind::normalization, same_as_first, ordered_norm_work,
            "13*n + 3*lines; n more with a bias"),
    COUNTED("BranchwiseRMSNorm", Kind::normalization, same_as_first, branch_norm_work,
            "4*n + 3*lines"),

    POINTWISE("ComplexMul", "b.., b.. -> b..", 3),
    POINTWISE("ComplexMulConj", "b.., b.. -> b..", 3),
    POINTWISE("ScaledSiLU", "b.., . -> b..", sc::silu + 1),
    POINTWISE("QOrderedGelu", "b.., ., . -> b..", sc::dequantize + sc::gelu_erf + sc::quantize),
    COUNTED("SwiGLU", Kind::pointwise, infer_swiglu, swiglu_work,
            "6*n; limit 3*n, beta n, alpha n more"),
    COUNTED("GatedAdd", Kind::pointwise, same_as_first, gated_add_work,
            "2*n, 4*rows with a gate's weight; matrix 2*rows*k with a gate's weight"),
    COUNTED("SampleOp", Kind::pointwise, same_as_first, nullptr, "0"),
    COUNTED("IsAllFinite", Kind::reduction,
            [](InferContext& c) { c.output(0, DType::boolean, {}); }, finite_work, "1 per element"),
    COUNTED("QuantizeWithOrder", Kind::pointwise,
            [](InferContext& c) { infer_to(c, DType::int8); }, per_output<sc::quantize>, "5*n"),
    COUNTED("DequantizeWithOrder", Kind::pointwise,
            [](InferContext& c) {
              const int64_t to = c.integer("to", 1);
              infer_to(c, to > 0 && to < dtype_count ? static_cast<DType>(to) : DType::float32);
            },
            per_output<sc::dequantize>, "2*n"),
    {.domain = "com.microsoft", .name = "MulInteger", .since = 1, .kind = Kind::pointwise,
     .access = "b.., ., b.., . -> b..",
     .access_rule = [](const OpView& v) {
       // A, its zero point, B, its zero point.
       return bind_notation(v,
                            v.input_count() > 3 ? "b.., ., b.., . -> b.." : "b.., ., b.. -> b..");
     },
     .result = DType::int32, .cost = {.vector_per_point = 3}},

    COUNTED("HyperConnectionPreMix", Kind::reduction, infer_pre_mix, pre_mix_work,
            "2*n over all streams"),
    COUNTED("HyperConnectionPostMix", Kind::contraction, same_as_first, post_mix_work,
            "2*n*C with a stream mix; vector 2*n over all streams"),
    COUNTED("HyperConnectionLowRankMix", Kind::contraction, infer_low_rank, low_rank_work,
            "2*n*(2*R + C); vector 10*n (12 with the prologue), 6*R + 9*C a token"),
    COUNTED("EngramGate", Kind::normalization, infer_engram, engram_work,
            "11*n + 14*lines; the second output 4*n + 3*lines more"),

    BLOB("EPContext"), BLOB("Snpe"),
};

}  // namespace

OpFamily contrib_ops() { return table; }

}  // namespace roofcast
