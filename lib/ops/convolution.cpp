// Convolutions. Every output position takes every kernel position, those that fall on padding too
// (as torch's FlopCounterMode counts, and as kernels built on matrix products do); a transposed one
// takes every kernel position for every input position, those that are cut off too.
#include "ops/op_table.h"
#include "ops/rules.h"
#include "ops/scalar_costs.h"
#include "ops/window.h"

#include <algorithm>

namespace roofcast {
namespace {

namespace sc = scalar_cost;
using Dims = std::vector<Expr>;

DimMap one(uint8_t factor) { return {DimMap::Kind::product, {factor}}; }

// Where an op keeps its operands, and whether channels come last.
struct Layout {
  size_t data = 0, weight = 1;
  bool channels_last = false;
};

AccessResult fault(std::string_view code, std::string text) { return {{}, std::move(text), code}; }

AccessResult channels_differ(Expr data, Expr weights) {
  return fault("dim-mismatch", "the data has " + data.text() + " channels, the weights take " +
                                   weights.text());
}

bool differ(Expr a, Expr b) { return a.is_constant() && b.is_constant() && a != b; }

// Ranks and groups, as both directions need them; a fault says what does not fit.
AccessResult check_operands(const OpView& v, Layout at) {
  const size_t x = v.rank(at.data), w = v.rank(at.weight);
  if (w < 3 || (x != w && x + 1 != w))
    return fault("rank-mismatch", "data of " + std::to_string(x) + " dims and weights of " +
                                      std::to_string(w));
  const int64_t group = v.integer("group", 1);
  if (group < 1 || group > limits::dim)
    return fault("onnx-attribute", "group must be 1 or more");
  return {};
}

// Spatial dims of the weights; where one is not known, what kernel_shape says.
Dims kernel_of(const OpView& v, const Dims& weight, size_t first, size_t count) {
  const auto given = v.integers("kernel_shape");
  Dims kernel;
  for (size_t d = 0; d < count; ++d) {
    kernel.push_back(weight[first + d]);
    if (!kernel[d].is_known() && given && given->size() == count) kernel[d] = (*given)[d];
  }
  return kernel;
}

// ---- n (g c) y+r x+s, (g m) c r s -> n (g m) y x

AccessResult conv_access_at(const OpView& v, Layout at) {
  if (!v.ranked(at.data) || !v.ranked(at.weight)) return {};
  if (AccessResult bad = check_operands(v, at); !bad.fault.empty()) return bad;
  const Dims& x = v.in(at.data)->dims;
  const Dims& w = v.in(at.weight)->dims;
  const bool batched = x.size() == w.size();  // torch allows [c, h, w] without a batch
  const size_t spatial = w.size() - 2, first = batched ? 1 : 0;
  const int64_t groups = v.integer("group", 1);
  const Expr x_channels = at.channels_last ? x.back() : x[first];
  // Channels-last ops keep weights as [m, c, h, w] or [m, h, w, c]: the channels tell which.
  const bool weight_last = at.channels_last && x_channels != w[1] * groups &&
                           x_channels == w.back() * groups;
  const Expr channels = weight_last ? w.back() : w[1];
  if (differ(x_channels, channels * groups)) return channels_differ(x_channels, channels * groups);
  if (w[0].is_constant() && w[0].constant() % groups != 0)
    return fault("dim-mismatch", w[0].text() + " filters do not divide by " +
                                     std::to_string(groups) + " groups");
  std::string bad;
  const Window window = read_window(v, kernel_of(v, w, weight_last ? 1 : 2, spatial), bad);
  if (!bad.empty()) return fault("onnx-attribute", bad);

  AccessBuilder b;
  OperandMap xs, ws, ys;
  if (batched) xs.dims.push_back(one(b.factor("n", x[0])));
  ys.dims = xs.dims;
  const uint8_t g = b.factor("g", groups), c = b.factor("c", channels, Role::reduce);
  const uint8_t m = b.factor("m", floor_div(w[0], groups));
  const DimMap x_map{DimMap::Kind::product, {g, c}}, y_map{DimMap::Kind::product, {g, m}};
  ws.dims.push_back(y_map);
  if (!weight_last) ws.dims.push_back(one(c));
  if (!at.channels_last) xs.dims.push_back(x_map), ys.dims.push_back(y_map);
  for (size_t d = 0; d < spatial; ++d) {
    const Expr size = x[first + d + (at.channels_last ? 0 : 1)], output = window.output(d, size);
    const Expr room = size + window.pad_begin[d] + window.pad_end[d] - window.reach(d);
    if (!window.same() && room.is_constant() && room.constant() < 0)
      return fault("dim-negative", "a kernel that spans " + window.reach(d).text() +
                                       " does not fit in " + size.text() + " and its padding");
    const uint8_t y = b.factor("y" + std::to_string(d), output);
    const uint8_t r = b.factor("r" + std::to_string(d), window.kernel[d], Role::window);
    xs.dims.push_back({DimMap::Kind::window, {y, r}});
    ws.dims.push_back(one(r)), ys.dims.push_back(one(y));
  }
  if (weight_last) ws.dims.push_back(one(c));
  if (at.channels_last) xs.dims.push_back(x_map), ys.dims.push_back(y_map);
  for (size_t i = 0; i < v.input_count(); ++i) {
    if (i == at.data) b.input() = xs;
    else if (i == at.weight) b.input() = ws;
    else b.input().outside = true;
  }
  b.output() = std::move(ys);
  return {b.take(), {}, {}};
}

template <size_t Weight, bool Last> AccessResult conv_access(const OpView& v) {
  return conv_access_at(v, {0, Weight, Last});
}
AccessResult quantized_conv_access(const OpView& v) {
  return conv_access_at(v, {0, 3, v.integer("channels_last", 0) != 0});
}

// Output dims by the access; QLinear ops give the type of the output's zero point.
template <size_t Weight> void infer_conv(InferContext& c) {
  if (!c.need_inputs(Weight + 1)) return;
  const DType result = c.instance.op->result;
  const DType dtype = result != DType::undefined ? result : c.dtype(Weight == 3 ? 7 : 0);
  const AccessResult r = access_of(c);
  if (!r.fault.empty())
    return c.fail(r.code, r.fault,
                  r.code == "dim-mismatch" ? "is the input NHWC? check --shape" : "check --shape");
  if (!r.access.empty()) return c.output(0, dtype, dims_of(r.access, r.access.outputs[0]));
  if (c.ranked(0)) return c.output(0, dtype, Dims(c.rank(0)));
  c.output_unranked(0, dtype);
}

// ---- n (g c) i j, (g c) m r s -> n (g m) i+r j+s

template <size_t Weight> AccessResult transpose_access(const OpView& v) {
  if (!v.ranked(0) || !v.ranked(Weight)) return {};
  if (AccessResult bad = check_operands(v, {0, Weight}); !bad.fault.empty()) return bad;
  const Dims& x = v.in(0)->dims;
  const Dims& w = v.in(Weight)->dims;
  const bool batched = x.size() == w.size();
  const size_t first = batched ? 1 : 0;
  const int64_t groups = v.integer("group", 1);
  if (differ(x[first], w[0])) return channels_differ(x[first], w[0]);
  if (w[0].is_constant() && w[0].constant() % groups != 0)
    return fault("dim-mismatch", w[0].text() + " channels do not divide by " +
                                     std::to_string(groups) + " groups");
  const Dims kernel = kernel_of(v, w, 2, w.size() - 2);
  AccessBuilder b;
  OperandMap xs, ws, ys;
  if (batched) xs.dims.push_back(one(b.factor("n", x[0])));
  ys.dims = xs.dims;
  const uint8_t g = b.factor("g", groups);
  const uint8_t c = b.factor("c", floor_div(x[first], groups), Role::reduce);
  const uint8_t m = b.factor("m", w[1]);
  const DimMap in{DimMap::Kind::product, {g, c}}, out{DimMap::Kind::product, {g, m}};
  xs.dims.push_back(in), ys.dims.push_back(out);
  ws.dims = {in, one(m)};
  for (size_t d = 0; d < kernel.size(); ++d) {
    const uint8_t i = b.factor("i" + std::to_string(d), x[first + 1 + d]);
    const uint8_t r = b.factor("r" + std::to_string(d), kernel[d], Role::window);
    xs.dims.push_back(one(i)), ws.dims.push_back(one(r));
    ys.dims.push_back({DimMap::Kind::window, {i, r}});
  }
  for (size_t i = 0; i < v.input_count(); ++i) {
    if (i == 0) b.input() = xs;
    else if (i == Weight) b.input() = ws;
    else b.input().outside = true;
  }
  b.output() = std::move(ys);
  return {b.take(), {}, {}};
}

// The output's spatial dims follow from the window, or are given by output_shape.
template <size_t Weight, bool DynamicPads> void infer_transpose(InferContext& c) {
  if (!c.need_inputs(Weight + 1)) return;
  const DType dtype = c.dtype(Weight == 3 ? 7 : 0);
  const AccessResult r = access_of(c);
  if (!r.fault.empty()) return c.fail(r.code, r.fault, "check --shape");
  if (r.access.empty()) {
    if (c.ranked(0)) return c.output(0, dtype, Dims(c.rank(0)));
    return c.output_unranked(0, dtype);
  }
  const Dims& x = c.in(0)->dims;
  const Dims& w = c.in(Weight)->dims;
  const size_t spatial = w.size() - 2, first = x.size() - spatial;
  std::string bad;
  Window window = read_window(c, kernel_of(c, w, 2, spatial), bad);
  if (DynamicPads && c.has(2)) {
    const auto pads = c.exprs(2);
    const bool given = pads && pads->size() == 2 * spatial;
    for (size_t d = 0; d < spatial; ++d) {
      window.pad_begin[d] = given ? (*pads)[d] : Expr();
      window.pad_end[d] = given ? (*pads)[d + spatial] : Expr();
    }
  }
  const auto extra = c.integers("output_padding"), shape = c.integers("output_shape");
  if (extra && !extra->empty() && extra->size() != spatial)
    bad = "output_padding has " + std::to_string(extra->size()) + " entries, " +
          std::to_string(spatial) + " are wanted";
  if (!bad.empty()) return c.fail("onnx-attribute", bad);
  Dims dims(x.begin(), x.begin() + static_cast<ptrdiff_t>(first));
  dims.back() = w[1] * c.integer("group", 1);
  for (size_t d = 0; d < spatial; ++d) {
    const Expr more = extra && !extra->empty() ? Expr((*extra)[d]) : Expr(0);
    // output_shape may name batch and channels too.
    const bool given = shape && (shape->size() == spatial || shape->size() == spatial + 2);
    dims.push_back(given ? Expr((*shape)[shape->size() - spatial + d])
                         : window.transposed_output(d, x[first + d], more));
  }
  c.output(0, dtype, std::move(dims));
}

// ---- Work beside the products: bias, sum and activation per output.

template <size_t Bias> void bias_work(const OpView& v, Work& w) {
  if (v.has(Bias) && v.out(0)) w.vector_flops += v.out(0)->elements();
}
void integer_work(const OpView&, Work& w) { w.math = MathType::int8; }
void quantized_work(const OpView& v, Work& w) {
  integer_work(v, w);
  bias_work<8>(v, w);
}

void fused_work(const OpView& v, Work& w) {
  if (!v.out(0)) return;
  const int bias = v.has(2) ? 1 : 0, sum = v.has(3) ? 1 : 0;
  const int activation = sc::activation(v.string("activation", ""));
  w.vector_flops += v.out(0)->elements() * (bias + sum + activation);
}

// DeformConv samples at offsets by bilinear interpolation, then convolves. A place's weights take
// two fractions, two complements and four products; a value four products and three additions, and
// one product more under a mask.
void deform_work(const OpView& v, Work& w) {
  if (!v.out(0) || !v.ranked(0) || w.access.empty()) return;
  Expr places = 1;
  for (const Factor& f : w.access.factors)
    if (f.name[0] != 'g' && f.name[0] != 'c' && f.name[0] != 'm') places *= f.size;
  const Expr channels = v.dim(0, 1);
  const Expr offsets = v.integer("offset_group", 1);
  w.vector_flops = places * (offsets * 8 + channels * (v.has(4) ? 8 : 7));
  bias_work<3>(v, w);
}

// ---- Causal depthwise convolution: a position and the kernel − 1 before it; a state carries them.

AccessResult causal_access(const OpView& v) {
  if (!v.ranked(0) || v.rank(0) != 3 || v.integer("channels_last", 0)) return {};
  return bind_notation(v, "n c y+r, c 1 r, c, n c p -> n c y, n c p");
}

void infer_causal(InferContext& c) {
  if (!c.need_inputs(2)) return;
  c.output(0, c.in(0));
  if (c.has(3)) return c.output(1, c.in(3));
  const bool plain = c.ranked(0) && c.rank(0) == 3 && c.ranked(1) && c.rank(1) == 3 &&
                     !c.integer("channels_last", 0) && !c.integer("state_window", 0);
  if (!plain) return c.output_unranked(1, c.dtype(0));
  if (differ(c.dim(0, 1), c.dim(1, 0))) {
    const AccessResult bad = channels_differ(c.dim(0, 1), c.dim(1, 0));
    return c.fail(bad.code, bad.fault, "check --shape");
  }
  const Expr before = (c.dim(1, 2) - 1) * c.integer("dilation", 1);
  c.output(1, c.dtype(0), {c.dim(0, 0), c.dim(0, 1), before});
}

// The packed form: input and output [tokens, channels], states beside them.
void infer_packed_causal(InferContext& c) {
  if (!c.need_inputs(3)) return;
  c.output(0, c.in(0)), c.output(1, c.in(4));
  const Expr sequences = c.ranked(4) && c.rank(4) == 3 ? c.dim(4, 0) : Expr();
  const Expr channels = c.ranked(1) && c.rank(1) == 3 ? c.dim(1, 0) : Expr();
  c.output(2, c.dtype(0), {sequences, c.integer("state_update_capacity", 0), channels});
}

template <size_t Bias> void causal_work(const OpView& v, Work& w) {
  if (!v.out(0) || !v.ranked(1) || v.rank(1) < 3) {
    w.matrix_flops = {};
    return;
  }
  const Expr outputs = v.out(0)->elements();
  w.matrix_flops = outputs * 2;
  for (size_t d = 2; d < v.rank(1); ++d) w.matrix_flops *= v.dim(1, d);
  w.vector_flops = outputs * sc::activation(v.string("activation", "none"));
  bias_work<Bias>(v, w);
}

constexpr std::string_view plain = "n (g c) y+r x+s, (g m) c r s -> n (g m) y x";
constexpr std::string_view quantized = "n (g c) y+r x+s, ., ., (g m) c r s -> n (g m) y x";
constexpr std::string_view last = "n y+r x+s (g c), (g m) c r s -> n y x (g m)";
constexpr std::string_view transposed = "n (g c) i j, (g c) m r s -> n (g m) i+r j+s";
constexpr std::string_view causal = "n c y+r, c 1 r, c, n c p -> n c y, n c p";
constexpr std::string_view with_bias = "2*points; vector outputs with a bias";
constexpr std::string_view with_epilogue = "2*points; vector bias, sum and activation per output";
constexpr std::string_view requantizing = "2*points in int8; vector 5*outputs to requantise, outputs with a bias";
constexpr std::string_view with_activation = "2*outputs*kernel; vector outputs with a bias, 5*outputs for silu";
constexpr uint32_t qlinear_scales = 0b11110110;

#define MICROSOFT(op_name) .domain = "com.microsoft", .name = op_name, .kind = Kind::convolution
#define PER_POINT .cost = {.matrix_per_point = 2}
#define REQUANTIZING .cost = {.matrix_per_point = 2, .vector_per_output = sc::quantize}

constexpr OpInfo table[] = {
    {.name = "Conv", .kind = Kind::convolution, .access = plain,
     .access_rule = conv_access<1, false>, .infer = infer_conv<1>, .work = bias_work<2>, PER_POINT,
     .formula = with_bias},
    {.name = "ConvInteger", .since = 10, .kind = Kind::convolution, .access = plain,
     .access_rule = conv_access<1, false>, .infer = infer_conv<1>, .work = integer_work,
     .result = DType::int32, PER_POINT, .auxiliary = 0b1100, .formula = "2*points in int8"},
    {.name = "QLinearConv", .since = 10, .kind = Kind::convolution, .access = quantized,
     .access_rule = conv_access<3, false>, .infer = infer_conv<3>, .work = quantized_work,
     REQUANTIZING, .auxiliary = qlinear_scales, .formula = requantizing},
    {.name = "ConvTranspose", .kind = Kind::convolution, .access = transposed,
     .access_rule = transpose_access<1>, .infer = infer_transpose<1, false>, .work = bias_work<2>,
     PER_POINT, .formula = with_bias},
    {.name = "DeformConv", .since = 19, .kind = Kind::convolution, .access = plain,
     .access_rule = conv_access<1, false>, .infer = infer_conv<1>, .work = deform_work, PER_POINT,
     .formula = "2*points; vector 8 per place and offset group, 7 per sampled value (8 with a "
                "mask), bias 1 per output"},
    {.name = "CausalConvWithState", .since = 27, .kind = Kind::convolution, .access = causal,
     .access_rule = causal_access, .infer = infer_causal, .work = causal_work<2>,
     .formula = with_activation},

    {MICROSOFT("FusedConv"), .access = plain, .access_rule = conv_access<1, false>,
     .infer = infer_conv<1>, .work = fused_work, PER_POINT, .formula = with_epilogue},
    {MICROSOFT("NhwcConv"), .access = last, .access_rule = conv_access<1, true>,
     .infer = infer_conv<1>, .work = bias_work<2>, PER_POINT, .formula = with_bias},
    {MICROSOFT("NhwcFusedConv"), .access = last, .access_rule = conv_access<1, true>,
     .infer = infer_conv<1>, .work = fused_work, PER_POINT, .formula = with_epilogue},
    {MICROSOFT("QLinearConv"), .access = quantized, .access_rule = quantized_conv_access,
     .infer = infer_conv<3>, .work = quantized_work, REQUANTIZING, .auxiliary = qlinear_scales,
     .formula = requantizing},
    {MICROSOFT("QLinearConvTranspose"), .access = transposed, .access_rule = transpose_access<3>,
     .infer = infer_transpose<3, false>, .work = quantized_work, REQUANTIZING,
     .auxiliary = qlinear_scales, .formula = requantizing},
    {MICROSOFT("ConvTransposeWithDynamicPads"), .access = transposed,
     .access_rule = transpose_access<1>, .infer = infer_transpose<1, true>, .work = bias_work<3>,
     PER_POINT, .formula = with_bias},
    {MICROSOFT("CausalConvWithState"), .access = causal, .access_rule = causal_access,
     .infer = infer_causal, .work = causal_work<2>, .formula = with_activation},
    {MICROSOFT("VarlenCausalConvWithState"), .infer = infer_packed_causal, .work = causal_work<3>,
     .formula = with_activation},
};

}  // namespace

OpFamily convolution_ops() { return table; }

}  // namespace roofcast
