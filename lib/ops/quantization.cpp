// Quantization: QuantizeLinear, DequantizeLinear, their dynamic form, and the QLinear* pointwise ops.
// Quantising takes 5 an element (divide, round, add the zero point, two comparisons), dequantising 2.
#include "ops/op_table.h"
#include "ops/rules.h"
#include "ops/scalar_costs.h"

namespace roofcast {
namespace {

namespace sc = scalar_cost;

// The zero point's type, else output_dtype, else uint8.
void infer_quantize(InferContext& c) {
  if (!c.need_inputs(2)) return;
  DType to = DType::uint8;
  if (c.has(2)) to = c.dtype(2);
  else if (const int64_t wanted = c.integer("output_dtype", 0); wanted > 0 && wanted < dtype_count) to = static_cast<DType>(wanted);
  if (!c.ranked(0)) return c.output_unranked(0, to);
  c.output(0, to, c.in(0)->dims);
}

// The scale's type, unless output_dtype says otherwise.
void infer_dequantize(InferContext& c) {
  if (!c.need_inputs(2)) return;
  const int64_t wanted = c.integer("output_dtype", 0);
  const DType to = wanted > 0 && wanted < dtype_count ? static_cast<DType>(wanted) : c.dtype(1);
  if (!c.ranked(0)) return c.output_unranked(0, to);
  c.output(0, to, c.in(0)->dims);
}

// Outputs: uint8 data, float scale, uint8 zero point. Minimum and maximum first, then each element.
void infer_dynamic(InferContext& c) {
  if (!c.need_inputs(1)) return;
  if (c.ranked(0)) c.output(0, DType::uint8, c.in(0)->dims);
  else c.output_unranked(0, DType::uint8);
  c.output(1, DType::float32, {});
  c.output(2, DType::uint8, {});
}
void dynamic_work(const OpView& v, Work& w) {
  if (v.in(0)) w.vector_flops = v.in(0)->elements() * (2 + sc::quantize);
}

// A, a_scale, a_zero, B, b_scale, b_zero, c_scale, c_zero.
AccessResult qlinear_binary_access(const OpView& v) {
  std::string pattern;
  for (size_t i = 0; i < v.input_count(); ++i) pattern += std::string(i ? ", " : "") + (i == 0 || i == 3 ? "b.." : ".");
  return bind_notation(v, pattern + " -> b..");
}

void infer_qlinear_softmax(InferContext& c) {
  if (!c.need_inputs(2)) return;
  c.output(0, c.in(0));
}
void qlinear_softmax_work(const OpView& v, Work& w) {
  if (v.in(0)) w.vector_flops = v.in(0)->elements() * (5 + sc::dequantize + sc::quantize);
}

// Y_scale, Y_zero, then (data, scale, zero) for each input.
void infer_qlinear_concat(InferContext& c) {
  if (!c.need_inputs(5)) return;
  if (!c.ranked(2)) return c.output_unranked(0, c.dtype(2));
  std::vector<Expr> dims = c.in(2)->dims;
  const auto axis = c.axis(c.integer("axis", 0), dims.size());
  if (!axis) return;
  for (size_t i = 5; i < c.input_count(); i += 3)
    dims[*axis] = c.ranked(i) && c.rank(i) == dims.size() ? dims[*axis] + c.dim(i, *axis) : Expr();
  c.output(0, c.dtype(2), std::move(dims));
}
void requantize_work(const OpView& v, Work& w) {
  if (v.out(0)) w.vector_flops = v.out(0)->elements() * (sc::dequantize + sc::quantize);
}

// condition, X, x_scale, x_zero, Y, y_scale, y_zero, z_scale, z_zero.
AccessResult qlinear_where_access(const OpView& v) { return bind_notation(v, "b.., b.., ., ., b.., ., ., ., . -> b.."); }
void infer_qlinear_where(InferContext& c) {
  if (!c.need_inputs(5)) return;
  const AccessResult r = qlinear_where_access(c);
  if (!r.fault.empty()) return c.fail(r.code, r.fault);
  if (r.access.outputs.empty()) return c.output_unranked(0, c.dtype(1));
  c.output(0, c.dtype(1), dims_of(r.access, r.access.outputs[0]));
}

void infer_qlinear_reduce(InferContext& c) {
  if (!c.need_inputs(2)) return;
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  std::vector<int64_t> axes = c.integers("axes").value_or(std::vector<int64_t>{});
  if (axes.empty())
    for (size_t d = 0; d < c.rank(0); ++d) axes.push_back(static_cast<int64_t>(d));
  const auto at = normalize_axes(c, axes, c.rank(0));
  if (!at) return;
  std::vector<Expr> dims;
  const bool keep = c.integer("keepdims", 1) != 0;
  for (size_t d = 0; d < c.rank(0); ++d) {
    const bool reduced = std::find(at->begin(), at->end(), d) != at->end();
    if (!reduced) dims.push_back(c.dim(0, d));
    else if (keep) dims.push_back(1);
  }
  c.output(0, c.dtype(0), std::move(dims));
}
void qlinear_reduce_work(const OpView& v, Work& w) {
  if (v.in(0) && v.out(0)) w.vector_flops = v.in(0)->elements() + v.out(0)->elements() * sc::quantize;
}

// Block floating point: blocks of elements share an exponent.
void infer_quantize_bfp(InferContext& c) {
  if (!c.need_inputs(1)) return;
  c.output_unranked(0, DType::uint8);
  c.output(1, DType::int64, {Expr()});
  c.output(2, DType::int64, {Expr()});
}

#define QUANTIZE(op_domain, op_name, version, infer_rule, per_element, formula_text) \
  {.domain = op_domain, .name = op_name, .since = version, .kind = Kind::pointwise, .access = "b.., ., . -> b..", .infer = infer_rule, \
   .cost = {.vector_per_point = per_element}, .dequantizes = per_element == sc::dequantize, .auxiliary = 0b110, .formula = formula_text}
#define QLINEAR(op_name, per_output) \
  {.domain = "com.microsoft", .name = op_name, .since = 1, .kind = Kind::pointwise, .access = "b.., ., ., b.., ., ., ., . -> b..", \
   .access_rule = qlinear_binary_access, .cost = {.vector_per_point = per_output}, .auxiliary = 0b11110110}
#define QLINEAR_UNARY(op_name, per_output) \
  {.domain = "com.microsoft", .name = op_name, .since = 1, .kind = Kind::pointwise, .access = "b.., ., ., ., . -> b..", \
   .cost = {.vector_per_point = per_output}, .auxiliary = 0b11110}

constexpr OpInfo table[] = {
    QUANTIZE("", "QuantizeLinear", 10, infer_quantize, sc::quantize, "5*n"),
    QUANTIZE("", "DequantizeLinear", 10, infer_dequantize, sc::dequantize, "2*n; nothing for weights, whose consumers read the packed bytes"),
    QUANTIZE("com.microsoft", "QuantizeLinear", 1, infer_quantize, sc::quantize, "5*n"),
    QUANTIZE("com.microsoft", "DequantizeLinear", 1, infer_dequantize, sc::dequantize, "2*n; nothing for weights, whose consumers read the packed bytes"),
    {.name = "DynamicQuantizeLinear", .since = 11, .kind = Kind::pointwise, .access = "b.. -> b.., ., .", .infer = infer_dynamic, .work = dynamic_work, .formula = "7*n: minimum, maximum, quantise"},

    // Both operands dequantised, one operation, the result quantised.
    QLINEAR("QLinearAdd", 2 * sc::dequantize + 1 + sc::quantize),
    QLINEAR("QLinearMul", 2 * sc::dequantize + 1 + sc::quantize),
    QLINEAR_UNARY("QLinearSigmoid", sc::dequantize + sc::sigmoid + sc::quantize),
    QLINEAR_UNARY("QLinearLeakyRelu", sc::dequantize + sc::leaky_relu + sc::quantize),
    {.domain = "com.microsoft", .name = "QLinearSoftmax", .since = 1, .kind = Kind::softmax, .infer = infer_qlinear_softmax, .work = qlinear_softmax_work,
     .auxiliary = 0b11110, .formula = "12*n: dequantise, softmax, quantise"},
    {.domain = "com.microsoft", .name = "QLinearConcat", .since = 1, .kind = Kind::movement, .infer = infer_qlinear_concat, .work = requantize_work, .formula = "7*n: requantised"},
    {.domain = "com.microsoft", .name = "QLinearWhere", .since = 1, .kind = Kind::pointwise, .access = "b.., b.., ., ., b.., ., ., ., . -> b..",
     .access_rule = qlinear_where_access, .infer = infer_qlinear_where, .cost = {.vector_per_point = 1 + sc::dequantize + sc::quantize}},
    {.domain = "com.microsoft", .name = "QLinearReduceMean", .since = 1, .kind = Kind::reduction, .infer = infer_qlinear_reduce, .work = qlinear_reduce_work, .formula = "inputs + 5*outputs"},
    {.domain = "com.microsoft", .name = "QuantizeBFP", .since = 1, .kind = Kind::pointwise, .infer = infer_quantize_bfp, .uncounted = "block floating point has no documented layout of its output"},
    {.domain = "com.microsoft", .name = "DequantizeBFP", .since = 1, .kind = Kind::pointwise,
     .infer = [](InferContext& c) { c.output_unranked(0, DType::float32); }, .uncounted = "block floating point has no documented layout of its input"},
};

}  // namespace

OpFamily quantization_ops() { return table; }

}  // namespace roofcast
