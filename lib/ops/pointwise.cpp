// Pointwise ops: one output element from the elements at the same place of each operand.
#include "ops/op_table.h"
#include "ops/rules.h"
#include "ops/scalar_costs.h"

#include <cmath>

namespace roofcast {
namespace {

namespace sc = scalar_cost;
using Values = std::optional<std::vector<Scalar>>;

Scalar negate(const Scalar& a) { return subtract(Scalar::integer(0), a); }
Scalar absolute(const Scalar& a) { return maximum(a, negate(a)); }
Scalar root(const Scalar& a) {
  const auto v = a.as_double();
  return v && *v >= 0 ? Scalar::from_double(std::sqrt(*v)) : Scalar{};
}
Scalar reciprocal(const Scalar& a) { return divide(Scalar::integer(1), a); }
Scalar invert(const Scalar& a) { return subtract(Scalar::integer(1), a); }
Scalar rounded(const Scalar& a) {
  if (a.kind == Scalar::Kind::rational && a.den == 1) return a;
  const auto v = a.as_double();
  return v ? Scalar::from_double(std::nearbyint(*v)) : Scalar{};
}
Scalar power(const Scalar& a, const Scalar& b) {
  if (b.as_expr() == Expr(2)) return multiply(a, a);
  const auto x = a.as_double(), y = b.as_double();
  return x && y && std::isfinite(std::pow(*x, *y)) ? Scalar::from_double(std::pow(*x, *y)) : Scalar{};
}

template <int... Orders> Scalar compares(const Scalar& a, const Scalar& b) {
  const auto order = compare(a, b);
  return order ? Scalar::integer(((*order == Orders) || ...) ? 1 : 0) : Scalar{};
}
Scalar both(const Scalar& a, const Scalar& b) { return multiply(a, b); }
Scalar either(const Scalar& a, const Scalar& b) { return maximum(a, b); }
Scalar differ(const Scalar& a, const Scalar& b) {
  const auto order = compare(a, b);
  return order ? Scalar::integer(*order != 0) : Scalar{};
}

Values divide_value(const OpView& v) {
  return broadcast_values(v, is_float(v.dtype(0)) ? &divide : &divide_integer);
}

// Cast keeps values; to an integer it truncates, to bool it compares with 0.
Values cast_value(const OpView& v) {
  const DType to = v.out(0) ? v.out(0)->dtype : DType::undefined;
  if (to == DType::boolean)
    return map_values(v, +[](const Scalar& s) { return compares<-1, 1>(s, Scalar::integer(0)); });
  if (is_integer(to)) return map_values(v, &truncate);
  return is_float(to) ? pass_value(v) : std::nullopt;
}

void infer_cast(InferContext& c) {
  if (!c.need_inputs(1)) return;
  DType to = static_cast<DType>(c.integer("to", 0));
  if (c.opset() < 6)  // the type is given by name
    if (const auto named = dtype_from_name([&] {
          static constexpr std::pair<std::string_view, std::string_view> names[] = {
              {"FLOAT", "float32"}, {"DOUBLE", "float64"}, {"FLOAT16", "float16"}, {"INT64", "int64"}, {"INT32", "int32"},
              {"INT16", "int16"}, {"INT8", "int8"}, {"UINT8", "uint8"}, {"UINT16", "uint16"}, {"UINT32", "uint32"},
              {"UINT64", "uint64"}, {"BOOL", "bool"}, {"STRING", "string"}};
          for (auto [onnx, ours] : names)
            if (c.string("to", "") == onnx) return ours;
          return std::string_view();
        }()))
      to = *named;
  if (to == DType::undefined || static_cast<int>(to) >= dtype_count)
    return c.fail("onnx-attribute", "attribute \"to\" is no element type");
  if (!c.ranked(0)) return c.output_unranked(0, to);
  c.output(0, to, c.in(0)->dims);
}

void infer_cast_like(InferContext& c) {
  if (!c.need_inputs(2) || c.dtype(1) == DType::undefined) return;
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(1));
  c.output(0, c.dtype(1), c.in(0)->dims);
}

void infer_bitcast(InferContext& c) {
  const DType to = static_cast<DType>(c.integer("to", 0));
  if (!c.need_inputs(1)) return;
  if (to == DType::undefined || static_cast<int>(to) >= dtype_count)
    return c.fail("onnx-attribute", "attribute \"to\" is no element type");
  if (bits(to) != bits(c.dtype(0))) return c.fail("type-mismatch", "element sizes differ");
  if (!c.ranked(0)) return c.output_unranked(0, to);
  c.output(0, to, c.in(0)->dims);
}

// Where: the element type is that of the second operand.
void infer_where(InferContext& c) {
  if (!c.need_inputs(3)) return;
  const AccessResult r = broadcast_all(c);
  if (!r.fault.empty()) return c.fail(r.code, r.fault);
  const DType d = c.dtype(1) == DType::undefined ? c.dtype(2) : c.dtype(1);
  if (r.access.outputs.empty()) return c.output_unranked(0, d);
  c.output(0, d, dims_of(r.access, r.access.outputs[0]));
}

Values where_value(const OpView& v) {
  const auto n = small_size(v.out(0));
  if (!n) return std::nullopt;
  for (size_t i = 0; i < 3; ++i)
    if (!v.values(i) || !small_size(v.in(i)) ||
        v.values(i)->items.size() != *small_size(v.in(i)) || !broadcasts(v.out(0), v.in(i)))
      return std::nullopt;
  std::vector<Scalar> out(*n);
  for (size_t flat = 0; flat < *n; ++flat) {
    auto pick = [&](size_t i) { return v.values(i)->items[broadcast_index(flat, v.out(0), v.in(i))]; };
    const auto chosen = pick(0).as_expr().as_constant();
    if (chosen) out[flat] = pick(*chosen ? 1 : 2);
    else if (pick(1) == pick(2)) out[flat] = pick(1);
  }
  return out;
}

// Dropout and its like: output 0 as the input, an optional mask of bools beside it.
void infer_dropout(InferContext& c) {
  if (!c.need_inputs(1)) return;
  c.output(0, c.in(0));
  const DType mask = c.opset() < 10 ? c.dtype(0) : DType::boolean;
  if (c.ranked(0)) c.output(1, mask, c.in(0)->dims);
  else c.output_unranked(1, mask);
}

// Outside of training a Dropout passes its input on.
void dropout_work(const OpView& v, Work& w) {
  if (v.has(2) && v.scalar(2).value_or(0) != 0) return;
  w.kind = Kind::view;
  w.vector_flops = 0;
  for (Expr& r : w.reads) r = 0;
  w.writes[0] = 0;
}

// Before opset 7 a slope of one dim is by channel.
AccessResult prelu_access(const OpView& v) {
  const bool by_channel = v.opset() < 7 && v.ranked(0) && v.rank(0) >= 2 && v.ranked(1) &&
                          v.rank(1) == 1;
  return bind_notation(v, by_channel ? "n c d.., c? -> n c d.." : "b.., b.. -> b..");
}

// Bias, an optional residual, and what a Dropout takes in training.
void bias_dropout_work(const OpView& v, Work& w) {
  const bool trains = v.has(4) && v.scalar(4).value_or(0) != 0;
  w.vector_flops = w.access.points() * (1 + (v.has(2) ? 1 : 0) + (trains ? 3 : 0));
}

void infer_bias_split_gelu(InferContext& c) {
  if (!c.need_inputs(1) || !c.need_rank(0, 1)) return;
  std::vector<Expr> dims = c.in(0)->dims;
  dims.back() = floor_div(dims.back(), 2);
  c.output(0, c.dtype(0), std::move(dims));
}

#define UNARY(op_name, version, flops) \
  {.name = op_name, .since = version, .kind = Kind::pointwise, .access = "b.. -> b..", .cost = {.vector_per_point = flops}}
#define UNARY_VALUE(op_name, version, flops, rule) \
  {.name = op_name, .since = version, .kind = Kind::pointwise, .access = "b.. -> b..", .value = unary<rule>, .cost = {.vector_per_point = flops}}
#define BINARY(op_name, version, rule) \
  {.name = op_name, .since = version, .kind = Kind::pointwise, .access = "b.., b.. -> b..", .access_rule = broadcast_all, .value = rule, .cost = {.vector_per_point = 1}}
#define LINEAR(op_name, version, rule) \
  {.name = op_name, .since = version, .kind = Kind::pointwise, .access = "b.., b.. -> b..", .access_rule = broadcast_all, .value = rule, .cost = {.vector_per_point = 1}, .gradient = Gradient::linear}
#define PRODUCT(op_name, version, rule) \
  {.name = op_name, .since = version, .kind = Kind::pointwise, .access = "b.., b.. -> b..", .access_rule = broadcast_all, .value = rule, .cost = {.vector_per_point = 1}, .gradient = Gradient::product}
#define COMPARE(op_name, version, rule) \
  {.name = op_name, .since = version, .kind = Kind::pointwise, .access = "b.., b.. -> b..", .access_rule = broadcast_all, .value = rule, .result = DType::boolean, .cost = {.vector_per_point = 1}}
#define CONTRIB(op_name, pattern, flops) \
  {.domain = "com.microsoft", .name = op_name, .since = 1, .kind = Kind::pointwise, .access = pattern, .cost = {.vector_per_point = flops}}

// n operands take n − 1 operations a point.
void variadic_work(const OpView& v, Work& w) {
  const int64_t n = static_cast<int64_t>(v.input_count());
  const bool mean = v.op_name() == "Mean";
  w.vector_flops = w.access.points() * (n - 1 + (mean ? 1 : 0));
}

constexpr OpInfo table[] = {
    UNARY_VALUE("Abs", 1, 1, absolute),
    UNARY("Acos", 7, sc::special), UNARY("Acosh", 9, sc::special), UNARY("Asin", 7, sc::special),
    UNARY("Asinh", 9, sc::special), UNARY("Atan", 7, sc::special), UNARY("Atanh", 9, sc::special),
    LINEAR("Add", 1, binary<add>), LINEAR("Sub", 1, binary<subtract>), PRODUCT("Mul", 1, binary<multiply>),
    PRODUCT("Div", 1, divide_value), BINARY("Mod", 10, binary<modulo>), BINARY("Pow", 1, binary<power>),
    BINARY("BitShift", 11, nullptr), BINARY("BitwiseAnd", 18, nullptr), BINARY("BitwiseOr", 18, nullptr), BINARY("BitwiseXor", 18, nullptr),
    UNARY("BitwiseNot", 18, 1),
    COMPARE("And", 1, binary<both>), COMPARE("Or", 1, binary<either>), COMPARE("Xor", 1, binary<differ>),
    {.name = "Equal", .since = 1, .kind = Kind::pointwise, .access = "b.., b.. -> b..", .access_rule = broadcast_all,
     .value = binary<compares<0>>, .result = DType::boolean, .cost = {.vector_per_point = 1}, .routing = Routing::one_hot},
    COMPARE("Greater", 1, (binary<compares<1>>)),
    COMPARE("Less", 1, (binary<compares<-1>>)), COMPARE("GreaterOrEqual", 12, (binary<compares<0, 1>>)),
    COMPARE("LessOrEqual", 12, (binary<compares<-1, 0>>)),
    UNARY_VALUE("Not", 1, 1, invert),
    {.name = "IsNaN", .since = 9, .kind = Kind::pointwise, .access = "b.. -> b..", .result = DType::boolean, .cost = {.vector_per_point = 1}},
    {.name = "IsInf", .since = 10, .kind = Kind::pointwise, .access = "b.. -> b..", .result = DType::boolean, .cost = {.vector_per_point = 1}},
    {.name = "Cast", .since = 1, .kind = Kind::pointwise, .access = "b.. -> b..", .infer = infer_cast, .value = cast_value, .gradient = Gradient::linear},
    {.name = "CastLike", .since = 15, .kind = Kind::pointwise, .access = "b.., . -> b..", .infer = infer_cast_like, .value = cast_value,
     .work = [](const OpView& v, Work& w) { read_bytes(v, w, 1, 0); }},
    {.name = "BitCast", .since = 1, .kind = Kind::view, .access = "b.. -> b..", .infer = infer_bitcast},
    UNARY_VALUE("Ceil", 1, 1, ceil), UNARY_VALUE("Floor", 1, 1, floor), UNARY_VALUE("Round", 11, 1, rounded),
    {.name = "Neg", .since = 1, .kind = Kind::pointwise, .access = "b.. -> b..", .value = unary<negate>, .cost = {.vector_per_point = 1}, .gradient = Gradient::linear}, UNARY_VALUE("Reciprocal", 1, 1, reciprocal), {.name = "Sqrt", .since = 1, .kind = Kind::pointwise, .access = "b.. -> b..", .value = unary<root>, .cost = {.vector_per_point = sc::special}, .gradient = Gradient::of_output},
    UNARY("Celu", 12, sc::celu), UNARY("Cos", 7, sc::special), UNARY("Cosh", 9, sc::special), UNARY("Elu", 1, sc::elu),
    UNARY("Erf", 9, sc::special), {.name = "Exp", .since = 1, .kind = Kind::pointwise, .access = "b.. -> b..", .cost = {.vector_per_point = sc::special}, .gradient = Gradient::of_output}, UNARY("HardSigmoid", 1, sc::hard_sigmoid),
    UNARY("HardSwish", 14, sc::hard_swish), UNARY("LeakyRelu", 1, sc::leaky_relu), UNARY("Log", 1, sc::special),
    UNARY("Mish", 18, sc::mish), {.name = "Relu", .since = 1, .kind = Kind::pointwise, .access = "b.. -> b..", .cost = {.vector_per_point = sc::relu}, .gradient = Gradient::of_output}, UNARY("Selu", 1, sc::selu), UNARY("Shrink", 9, sc::shrink),
    {.name = "Sigmoid", .since = 1, .kind = Kind::pointwise, .access = "b.. -> b..", .cost = {.vector_per_point = sc::sigmoid}, .gradient = Gradient::of_output}, UNARY("Sign", 9, sc::sign), UNARY("Sin", 7, sc::special), UNARY("Sinh", 9, sc::special),
    UNARY("Softplus", 1, sc::softplus), UNARY("Softsign", 1, sc::softsign),
    UNARY("Tan", 7, sc::special), {.name = "Tanh", .since = 1, .kind = Kind::pointwise, .access = "b.. -> b..", .cost = {.vector_per_point = sc::special}, .gradient = Gradient::of_output}, UNARY("ThresholdedRelu", 10, sc::threshold),
    // Experimental ops of the first opsets.
    UNARY("Affine", 1, 2), UNARY("ParametricSoftplus", 1, 5), UNARY("ScaledTanh", 1, 3), UNARY("ThresholdedRelu", 1, sc::threshold),
    UNARY("ImageScaler", 1, 2), UNARY("Scale", 1, 1),
    {.name = "Gelu", .since = 20, .kind = Kind::pointwise, .access = "b.. -> b..",
     .work = [](const OpView& v, Work& w) {
       w.vector_flops = w.access.points() * (v.string("approximate", "none") == "tanh" ? sc::gelu_tanh : sc::gelu_erf);
     },
     .cost = {.vector_per_point = sc::gelu_erf}, .formula = "5*n; approximate=tanh: 9*n"},
    {.name = "Swish", .since = 24, .kind = Kind::pointwise, .access = "b.. -> b..",
     .work = [](const OpView& v, Work& w) {
       w.vector_flops = w.access.points() * (sc::silu + (v.real("alpha", 1) != 1 ? 1 : 0));
     },
     .cost = {.vector_per_point = sc::silu}, .formula = "5*n; alpha other than 1: 6*n"},
    {.name = "Clip", .since = 1, .kind = Kind::pointwise, .access = "b.., ., . -> b..", .value = [](const OpView& v) -> Values {
       if (!v.values(0)) return std::nullopt;
       std::vector<Scalar> out = v.values(0)->items;
       auto bound = [&](size_t i) { return v.has(i) && v.values(i) && v.values(i)->items.size() == 1 ? v.values(i)->items[0] : Scalar{}; };
       const Scalar low = bound(1), high = bound(2);
       if ((v.has(1) && !low.is_known()) || (v.has(2) && !high.is_known()) || v.opset() < 11) return std::nullopt;
       for (Scalar& s : out) {
         if (v.has(1)) s = maximum(s, low);
         if (v.has(2)) s = minimum(s, high);
       }
       return out;
     },
     .work = [](const OpView& v, Work& w) {  // before opset 11 both bounds are attributes
       const int bounds = v.opset() < 11 ? 2 : (v.has(1) ? 1 : 0) + (v.has(2) ? 1 : 0);
       w.vector_flops = w.access.points() * bounds;
     },
     .cost = {.vector_per_point = sc::clip}, .formula = "n for each bound"},
    {.name = "PRelu", .kind = Kind::pointwise, .access = "b.., b.. -> b..",
     .access_rule = prelu_access, .infer = same_as_first,
     .cost = {.vector_per_point = sc::leaky_relu}},
    {.name = "Max", .since = 1, .kind = Kind::pointwise, .access = "b.., b.. -> b..", .access_rule = broadcast_all, .value = binary<maximum>, .work = variadic_work, .formula = "(inputs - 1)*n"},
    {.name = "Min", .since = 1, .kind = Kind::pointwise, .access = "b.., b.. -> b..", .access_rule = broadcast_all, .value = binary<minimum>, .work = variadic_work, .formula = "(inputs - 1)*n"},
    {.name = "Sum", .since = 1, .kind = Kind::pointwise, .access = "b.., b.. -> b..", .access_rule = broadcast_all, .value = binary<add>, .work = variadic_work, .gradient = Gradient::linear, .formula = "(inputs - 1)*n"},
    {.name = "Mean", .since = 1, .kind = Kind::pointwise, .access = "b.., b.. -> b..", .access_rule = broadcast_all, .work = variadic_work, .formula = "inputs*n"},
    {.name = "Where", .since = 9, .kind = Kind::pointwise, .access = "b.., b.. -> b..", .access_rule = broadcast_all, .infer = infer_where, .value = where_value, .cost = {.vector_per_point = 1}, .gradient = Gradient::linear},
    {.name = "Dropout", .since = 1, .kind = Kind::pointwise, .access = "b.., ., . -> b.., b..", .infer = infer_dropout, .work = dropout_work,
     .cost = {.vector_per_point = 3}, .gradient = Gradient::of_mask, .formula = "0 unless training_mode; then 3*n"},

    CONTRIB("BiasGelu", "b.. h, h -> b.. h", 1 + sc::gelu_erf),
    {.domain = "com.microsoft", .name = "FastGelu", .kind = Kind::pointwise,
     .access = "b.., b.. -> b..",
     .work = [](const OpView& v, Work& w) {
       w.vector_flops = w.access.points() * (sc::gelu_tanh + (v.has(1) ? 1 : 0));
     },
     .cost = {.vector_per_point = sc::gelu_tanh}, .formula = "9*n; bias n"},
    CONTRIB("QuickGelu", "b.. -> b..", sc::gelu_quick),
    CONTRIB("Gelu", "b.. -> b..", sc::gelu_erf),
    CONTRIB("BiasAdd", "b.. h, h, b.. h -> b.. h", 2),
    {.domain = "com.microsoft", .name = "BiasSplitGelu", .since = 1, .kind = Kind::pointwise, .access = "b.. (t h), (t h) -> b.. h",
     .infer = infer_bias_split_gelu, .work = [](const OpView& v, Work& w) { if (v.out(0)) w.vector_flops = v.out(0)->elements() * (3 + sc::gelu_erf); },
     .formula = "8 per output: two biases, gelu, gate"},
    {.domain = "com.microsoft", .name = "BiasDropout", .kind = Kind::pointwise,
     .access = "b.., b.., b.., ., . -> b.., b..", .infer = infer_dropout,
     .work = bias_dropout_work, .formula = "n; residual n; training 3*n"},
    {.domain = "com.microsoft", .name = "BitmaskBiasDropout", .kind = Kind::pointwise,
     .access = "b.., b.., b.., ., . -> b.., .", .infer = same_as_first,
     .work = bias_dropout_work, .formula = "n; residual n; training 3*n"},
    {.domain = "com.microsoft", .name = "BitmaskDropout", .kind = Kind::pointwise,
     .access = "b.., ., . -> b.., .", .infer = same_as_first, .work = dropout_work,
     .cost = {.vector_per_point = 3}, .gradient = Gradient::of_mask, .formula = "0 unless training_mode; then 3*n"},
};

}  // namespace

OpFamily pointwise_ops() { return table; }

}  // namespace roofcast
