// What is left of com.microsoft: small ops with a formula, and those whose cost cannot be told from
// the graph, each with the reason.
#include "ops/op_table.h"
#include "ops/rules.h"
#include "ops/scalar_costs.h"

namespace roofcast {
namespace {

namespace sc = scalar_cost;

template <int PerOutput> void per_output(const OpView& v, Work& w) {
  if (v.out(0) && v.out(0)->is_tensor()) w.vector_flops = v.out(0)->elements() * PerOutput;
}

// A [m, k], B [n, k] → [m, n]: squared distances by |a|² + |b|² − 2·a·b.
void cdist_work(const OpView& v, Work& w) {
  if (!v.out(0) || !v.ranked(0) || v.rank(0) != 2 || !v.in(1)) return;
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
  if (!c.ranked(0) || c.rank(0) != 2 || !c.ranked(1)) return c.output_unranked(0, c.dtype(0));
  std::vector<Expr> dims = c.in(1)->dims;
  dims.push_back(c.dim(0, 1));
  c.output(0, c.dtype(0), std::move(dims));
}
void embedding_work(const OpView& v, Work& w) { w.reads[0] = v.output_bytes(0); }

// A [b.., k], packed weights with K and N as attributes (or the shape of B).
template <bool Transposed> void infer_packed(InferContext& c) {
  if (!c.need_inputs(2)) return;
  if (!c.ranked(0) || c.rank(0) < 1) return c.output_unranked(0, c.dtype(0));
  std::vector<Expr> dims = c.in(0)->dims;
  dims.back() = c.attribute("N") ? Expr(c.integer("N", 0)) : c.ranked(1) && c.rank(1) >= 1 ? c.dim(1, 0) : Expr();
  c.output(0, c.dtype(0), std::move(dims));
}
void packed_work(const OpView& v, Work& w) {
  if (!v.out(0) || !v.ranked(0) || v.rank(0) < 1) {
    w.matrix_flops = {};
    return;
  }
  w.matrix_flops = v.out(0)->elements() * v.dim(0, v.rank(0) - 1) * 2;
}

void infer_scalar_bool(InferContext& c) { c.output(0, DType::boolean, {}); }

#define COUNTED(op_name, op_kind, infer_rule, work_rule, formula_text) \
  {.domain = "com.microsoft", .name = op_name, .since = 1, .kind = op_kind, .infer = infer_rule, .work = work_rule, .formula = formula_text}
#define POINTWISE(op_name, pattern, per_point) \
  {.domain = "com.microsoft", .name = op_name, .since = 1, .kind = Kind::pointwise, .access = pattern, .cost = {.vector_per_point = per_point}}
#define UNCOUNTED(op_name, reason) \
  {.domain = "com.microsoft", .name = op_name, .since = 1, .kind = Kind::opaque, .uncounted = reason}

constexpr std::string_view decides_steps = "generates tokens until data says stop; analyse its decoder graph instead";
constexpr std::string_view layout_private = "its weights' layout is private to one runtime";
constexpr std::string_view data_decides = "how much it computes is decided by data";
constexpr std::string_view recurrent_state = "a fused state-space step whose shapes its documentation does not fix";

constexpr OpInfo table[] = {
    {.name = "Det", .since = 11, .kind = Kind::reduction, .infer = infer_det, .work = det_work, .formula = "2/3*n^3 a matrix"},
    {.name = "SwiGLU", .since = 28, .kind = Kind::pointwise, .access = "b.., b.. -> b..", .cost = {.vector_per_point = sc::silu + 1}},
    COUNTED("CDist", Kind::contraction, [](InferContext& c) {
      if (!c.need_inputs(2)) return;
      c.output(0, c.dtype(0), {c.ranked(0) && c.rank(0) == 2 ? c.dim(0, 0) : Expr(), c.ranked(1) && c.rank(1) == 2 ? c.dim(1, 0) : Expr()});
    }, cdist_work, "2*m*n*k; vector 4*m*n + 2*(m + n)*k"),
    POINTWISE("ComplexMul", "b.., b.. -> b..", 3),
    POINTWISE("ComplexMulConj", "b.., b.. -> b..", 3),
    POINTWISE("ScaledSiLU", "b.., . -> b..", sc::silu + 1),
    POINTWISE("SwiGLU", "b.., b.. -> b..", sc::silu + 1),
    POINTWISE("QOrderedGelu", "b.., ., . -> b..", sc::dequantize + sc::gelu_erf + sc::quantize),
    POINTWISE("QuantizeWithOrder", "b.., . -> b..", sc::quantize),
    COUNTED("DequantizeWithOrder", Kind::pointwise, [](InferContext& c) {
      if (!c.need_inputs(1)) return;
      const DType d = static_cast<DType>(std::clamp<int64_t>(c.integer("to", 1), 0, dtype_count - 1));
      if (c.ranked(0)) c.output(0, d, c.in(0)->dims);
      else c.output_unranked(0, d);
    }, per_output<sc::dequantize>, "2*n"),
    COUNTED("MulInteger", Kind::pointwise, [](InferContext& c) {
      if (!c.need_inputs(3)) return;
      if (c.ranked(0)) c.output(0, DType::int32, c.in(0)->dims);
      else c.output_unranked(0, DType::int32);
    }, per_output<3>, "3*n"),
    COUNTED("Inverse", Kind::reduction, same_as_first, inverse_work, "2*n^3 a matrix"),
    COUNTED("IsAllFinite", Kind::reduction, infer_scalar_bool, [](const OpView& v, Work& w) {
      for (size_t i = 0; i < v.input_count(); ++i)
        if (v.in(i)) w.vector_flops += v.in(i)->elements();
    }, "1 per element"),
    COUNTED("UnfoldTensor", Kind::movement, infer_unfold, nullptr, "0"),
    COUNTED("TorchEmbedding", Kind::lookup, infer_embedding, embedding_work, "0; only the rows taken are read"),
    COUNTED("SampleOp", Kind::pointwise, same_as_first, nullptr, "0"),
    COUNTED("MatMulFpQ4", Kind::contraction, infer_packed<false>, packed_work, "2*m*n*k"),
    COUNTED("MatMulBlockQuantizedFp4Weight", Kind::contraction, infer_packed<true>, packed_work, "2*m*n*k"),
    COUNTED("MatMulBlockQuantizedFp8Weight", Kind::contraction, infer_packed<true>, packed_work, "2*m*n*k"),
    COUNTED("MatMulPacked", Kind::contraction, infer_packed<true>, packed_work, "2*m*n*k"),
    COUNTED("QOrderedMatMul", Kind::contraction, [](InferContext& c) {
      if (!c.need_inputs(3) || !c.need_rank(0, 2) || !c.need_rank(2, 2)) return;
      std::vector<Expr> dims = c.in(0)->dims;
      dims.back() = c.in(2)->dims.back();
      c.output(0, c.dtype(0), std::move(dims));
    }, [](const OpView& v, Work& w) {
      packed_work(v, w);
      w.math = MathType::int8;
    }, "2*m*n*k in int8"),
    COUNTED("NGramRepeatBlock", Kind::lookup, [](InferContext& c) { if (c.need_inputs(2)) c.output(0, c.in(1)); }, nullptr, "0"),
    COUNTED("BranchwiseRMSNorm", Kind::normalization, same_as_first, per_output<4>, "4*n"),
    COUNTED("GatedAdd", Kind::pointwise, same_as_first, per_output<2>, "2*n"),

    UNCOUNTED("BeamSearch", decides_steps), UNCOUNTED("GreedySearch", decides_steps), UNCOUNTED("Sampling", decides_steps),
    UNCOUNTED("WhisperBeamSearch", decides_steps),
    UNCOUNTED("BifurcationDetector", data_decides), UNCOUNTED("DynamicTimeWarping", data_decides), 
    UNCOUNTED("PackedSparseAttentionIndexer", data_decides),
    UNCOUNTED("PackedSparseAttentionIndexerMerge", data_decides), UNCOUNTED("SparseAttentionIndexer", data_decides),
    UNCOUNTED("SpeculativePrefixCommit", data_decides), UNCOUNTED("MoEGroupRouter", data_decides),
    UNCOUNTED("NGramHashMapping", data_decides), UNCOUNTED("VarlenNGramHashMapping", data_decides), 
    UNCOUNTED("EPContext", "a compiled blob of another runtime"), UNCOUNTED("Snpe", "a compiled blob of another runtime"),
    UNCOUNTED("QOrderedLayerNormalization", layout_private), 
    UNCOUNTED("GatherPacked", layout_private), UNCOUNTED("MoEPacked", layout_private), UNCOUNTED("MatMulNBitsMlp", layout_private),
    UNCOUNTED("MatMulNBitsQLoRA", layout_private), UNCOUNTED("MatMulNBitsQkv", layout_private), UNCOUNTED("RouterGateUpProj", layout_private),
    
    UNCOUNTED("EngramGate", recurrent_state), UNCOUNTED("HyperConnectionLowRankMix", recurrent_state),
    UNCOUNTED("HyperConnectionPostMix", recurrent_state), UNCOUNTED("HyperConnectionPreMix", recurrent_state), 
    UNCOUNTED("QEmbedLayerNormalization", "superseded; only an int8 table layout is documented"), UNCOUNTED("WordConvEmbedding", "superseded; its convolution has no documented shape"),
};

}  // namespace

OpFamily contrib_ops() { return table; }

}  // namespace roofcast
