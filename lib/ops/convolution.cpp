// Convolutions: every output position takes every kernel position, also those that fall on padding
// (as torch's FlopCounterMode and the usual GEMM kernels do).
#include "ops/op_table.h"
#include "ops/rules.h"
#include "ops/scalar_costs.h"
#include "ops/window.h"

#include <algorithm>

namespace roofcast {
namespace {

namespace sc = scalar_cost;

// Where an op keeps its operands, and whether channels come last.
struct Layout {
  size_t data = 0, weight = 1;
  bool channels_last = false;
};

struct Conv {
  Expr batch = 1, groups = 1, channels, filters;  // channels and filters of one group
  std::vector<Expr> size, kernel, output;          // spatial
  bool batched = true;
};

// Reads the geometry; `fault` says what does not fit. Absent: ranks not known.
std::optional<Conv> geometry(const OpView& v, Layout at, std::string& fault, std::string_view& code) {
  code = "dim-mismatch";
  if (!v.ranked(at.data) || !v.ranked(at.weight)) return std::nullopt;
  const auto& x = v.in(at.data)->dims;
  const auto& w = v.in(at.weight)->dims;
  Conv c;
  if (w.size() < 3 || (x.size() != w.size() && x.size() + 1 != w.size())) {
    code = "rank-mismatch";
    return fault = "data of " + std::to_string(x.size()) + " dims and weights of " + std::to_string(w.size()), std::nullopt;
  }
  c.batched = x.size() == w.size();  // torch allows [c, h, w] without a batch
  const size_t spatial = w.size() - 2, first = c.batched ? 1 : 0;
  c.batch = c.batched ? x[0] : Expr(1);
  c.groups = v.integer("group", 1);
  if (c.groups.constant() < 1) return code = "onnx-attribute", fault = "group must be 1 or more", std::nullopt;
  const Expr x_channels = at.channels_last ? x.back() : x[first];
  // Channels-last ops store weights as [m, c, h, w] or [m, h, w, c]; the channel count tells.
  const bool weight_last = at.channels_last && x_channels != w[1] * c.groups && x_channels == w.back() * c.groups;
  c.channels = weight_last ? w.back() : w[1];
  c.filters = floor_div(w[0], c.groups);
  for (size_t d = 0; d < spatial; ++d) {
    c.size.push_back(x[first + d + (at.channels_last ? 0 : 1)]);
    c.kernel.push_back(w[d + (weight_last ? 1 : 2)]);
  }
  if (x_channels.is_constant() && (c.channels * c.groups).is_constant() && x_channels != c.channels * c.groups)
    return fault = "the data has " + x_channels.text() + " channels, the weights take " + (c.channels * c.groups).text(), std::nullopt;
  if (w[0].is_constant() && w[0].constant() % c.groups.constant() != 0)
    return fault = w[0].text() + " filters do not divide by " + c.groups.text() + " groups", std::nullopt;
  std::string bad;
  const Window window = read_window(v, c.kernel, bad);
  if (!bad.empty()) return code = "onnx-attribute", fault = bad, std::nullopt;
  for (size_t d = 0; d < spatial; ++d) {
    c.output.push_back(window.output(d, c.size[d]));
    if (c.output[d].is_constant() && c.output[d].constant() < 0)
      return code = "dim-negative", fault = "a kernel of " + window.reach(d).text() + " does not fit in " + c.size[d].text() + " and its padding", std::nullopt;
  }
  return c;
}

DimMap one(uint8_t f) { return {DimMap::Kind::product, {f}}; }

// n (g c) y+r x+s, (g m) c r s -> n (g m) y x
AccessResult conv_access_at(const OpView& v, Layout at) {
  std::string fault;
  std::string_view code;
  const auto c = geometry(v, at, fault, code);
  if (!fault.empty()) return {{}, fault, code};
  if (!c) return {};
  AccessBuilder b;
  const uint8_t n = b.factor("n", c->batch), g = b.factor("g", c->groups), in = b.factor("c", c->channels, Role::reduce), m = b.factor("m", c->filters);
  OperandMap x, w, y;
  if (c->batched) x.dims.push_back(one(n)), y.dims.push_back(one(n));
  const DimMap x_channels{DimMap::Kind::product, {g, in}}, y_channels{DimMap::Kind::product, {g, m}};
  w.dims = {{DimMap::Kind::product, {g, m}}, one(in)};
  if (!at.channels_last) x.dims.push_back(x_channels), y.dims.push_back(y_channels);
  for (size_t d = 0; d < c->size.size(); ++d) {
    const uint8_t o = b.factor("y" + std::to_string(d), c->output[d]);
    const uint8_t r = b.factor("r" + std::to_string(d), c->kernel[d], Role::window);
    x.dims.push_back({DimMap::Kind::window, {o, r}});
    w.dims.push_back(one(r)), y.dims.push_back(one(o));
  }
  if (at.channels_last) x.dims.push_back(x_channels), y.dims.push_back(y_channels);
  for (size_t i = 0; i < v.input_count(); ++i) {
    if (i == at.data) b.input() = x;
    else if (i == at.weight) b.input() = w;
    else b.input().outside = true;
  }
  b.output() = std::move(y);
  return {b.take(), {}, {}};
}

template <size_t Data, size_t Weight, bool Last> AccessResult conv_access(const OpView& v) { return conv_access_at(v, {Data, Weight, Last}); }

// Output dims by the access; the element type is that of input `Like`.
template <size_t Data, size_t Weight, bool Last, size_t Like> void infer_conv(InferContext& c) {
  if (!c.need_inputs(Weight + 1)) return;
  const DType d = c.instance.op->result != DType::undefined ? c.instance.op->result : c.dtype(Like);
  const AccessResult r = conv_access_at(c, {Data, Weight, Last});
  if (!r.fault.empty()) return c.fail(r.code, r.fault, r.code == "dim-mismatch" ? "is the input NHWC? check --shape" : "check --shape");
  if (r.access.outputs.empty()) {
    if (c.ranked(Data)) return c.output(0, d, std::vector<Expr>(c.rank(Data)));
    return c.output_unranked(0, d);
  }
  c.output(0, d, dims_of(r.access, r.access.outputs[0]));
}

template <int Bias> void conv_work(const OpView& v, Work& w) {
  if (v.has(Bias) && v.out(0)) w.vector_flops += v.out(0)->elements();
}
template <int Bias> void quantized_work(const OpView& v, Work& w) {
  w.math = MathType::int8;
  conv_work<Bias>(v, w);
}

int activation_cost(std::string_view name) {
  if (name == "Relu") return sc::relu;
  if (name == "Sigmoid") return sc::sigmoid;
  if (name == "Tanh") return sc::special;
  if (name == "LeakyRelu") return sc::leaky_relu;
  if (name == "Clip") return sc::clip;
  if (name == "HardSigmoid") return sc::hard_sigmoid;
  if (name == "HardSwish") return sc::hard_swish;
  return name.empty() ? 0 : 1;
}
void fused_work(const OpView& v, Work& w) {
  if (v.out(0)) w.vector_flops += v.out(0)->elements() * ((v.has(2) ? 1 : 0) + (v.has(3) ? 1 : 0) + activation_cost(v.string("activation", "")));
}

// ---- ConvTranspose: every input position adds a kernel's worth to the output.

std::vector<Expr> transpose_output(const OpView& v, const Window& w, const std::vector<Expr>& size, std::string& fault) {
  const size_t rank = size.size();
  std::vector<Expr> out(rank);
  if (const auto shape = v.integers("output_shape"); shape && (shape->size() == rank || shape->size() == rank + 2)) {
    for (size_t d = 0; d < rank; ++d) out[d] = (*shape)[shape->size() - rank + d];
    return out;
  }
  const auto extra = v.integers("output_padding");
  if (extra && extra->size() != rank) fault = "output_padding has " + std::to_string(extra->size()) + " entries, " + std::to_string(rank) + " are wanted";
  if (!fault.empty()) return out;
  for (size_t d = 0; d < rank; ++d) {
    const Expr more = extra ? Expr((*extra)[d]) : Expr(0);
    if (w.auto_pad == "SAME_UPPER" || w.auto_pad == "SAME_LOWER") out[d] = size[d] * w.stride[d];
    else if (w.auto_pad == "VALID") out[d] = w.stride[d] * (size[d] - 1) + more + w.reach(d);
    else out[d] = w.stride[d] * (size[d] - 1) + more + w.reach(d) - w.pad_begin[d] - w.pad_end[d];
  }
  return out;
}

AccessResult transpose_access_at(const OpView& v, size_t data, size_t weight, bool known_output) {
  if (!v.ranked(data) || !v.ranked(weight)) return {};
  const auto& x = v.in(data)->dims;
  const auto& w = v.in(weight)->dims;
  if (x.size() != w.size() || x.size() < 3)
    return {{}, "data of " + std::to_string(x.size()) + " dims and weights of " + std::to_string(w.size()), "rank-mismatch"};
  const Expr groups = v.integer("group", 1);
  if (groups.constant() < 1) return {{}, "group must be 1 or more", "onnx-attribute"};
  if (x[1].is_constant() && w[0].is_constant() && x[1] != w[0])
    return {{}, "the data has " + x[1].text() + " channels, the weights take " + w[0].text(), "dim-mismatch"};
  const std::vector<Expr> size(x.begin() + 2, x.end());
  std::string fault;
  const Window window = read_window(v, {w.begin() + 2, w.end()}, fault);
  const std::vector<Expr> out = known_output && fault.empty() ? transpose_output(v, window, size, fault) : std::vector<Expr>(size.size());
  if (!fault.empty()) return {{}, fault, "onnx-attribute"};
  AccessBuilder b;
  const uint8_t n = b.factor("n", x[0]), g = b.factor("g", groups), c = b.factor("c", floor_div(x[1], groups), Role::reduce), m = b.factor("m", w[1]);
  OperandMap xm, wm, ym;
  xm.dims = {one(n), {DimMap::Kind::product, {g, c}}};
  wm.dims = {{DimMap::Kind::product, {g, c}}, one(m)};
  ym.dims = {one(n), {DimMap::Kind::product, {g, m}}};
  for (size_t d = 0; d < size.size(); ++d) {
    const uint8_t i = b.factor("i" + std::to_string(d), size[d]), r = b.factor("r" + std::to_string(d), w[d + 2], Role::window);
    xm.dims.push_back(one(i)), wm.dims.push_back(one(r));
    ym.dims.push_back({DimMap::Kind::window, {i, r}});
  }
  for (size_t i = 0; i < v.input_count(); ++i) {
    if (i == data) b.input() = xm;
    else if (i == weight) b.input() = wm;
    else b.input().outside = true;
  }
  b.output() = std::move(ym);
  return {b.take(), {}, {}};
}
template <size_t Data, size_t Weight> AccessResult transpose_access(const OpView& v) { return transpose_access_at(v, Data, Weight, true); }

template <size_t Data, size_t Weight, bool DynamicPads> void infer_transpose(InferContext& c) {
  if (!c.need_inputs(Weight + 1)) return;
  const AccessResult r = transpose_access_at(c, Data, Weight, true);
  if (!r.fault.empty()) return c.fail(r.code, r.fault, "check --shape");
  if (r.access.outputs.empty()) return c.output_unranked(0, c.dtype(Data));
  const auto& x = c.in(Data)->dims;
  const auto& w = c.in(Weight)->dims;
  std::string fault;
  Window window = read_window(c, {w.begin() + 2, w.end()}, fault);
  if (DynamicPads) {
    const auto pads = c.exprs(2);
    for (size_t d = 0; d < window.kernel.size(); ++d) {
      const bool given = pads && pads->size() == 2 * window.kernel.size();
      window.pad_begin[d] = given ? (*pads)[d] : Expr();
      window.pad_end[d] = given ? (*pads)[d + window.kernel.size()] : Expr();
    }
  }
  std::vector<Expr> dims{x[0], w[1] * c.integer("group", 1)};
  for (Expr d : transpose_output(c, window, {x.begin() + 2, x.end()}, fault)) dims.push_back(d);
  if (!fault.empty()) return c.fail("onnx-attribute", fault);
  c.output(0, c.dtype(Data), std::move(dims));
}

// ---- DeformConv: samples at offsets by bilinear interpolation (8 per place for its weights, 7 per
// value, 1 more under a mask), then convolves.
void deform_work(const OpView& v, Work& w) {
  if (!v.out(0) || !v.ranked(0) || !v.ranked(1) || v.out(0)->dims.size() < 3 || v.rank(1) < 3) return;
  Expr places = v.out(0)->dims[0];
  for (size_t d = 2; d < v.out(0)->dims.size(); ++d) places *= v.out(0)->dims[d];
  for (size_t d = 2; d < v.rank(1); ++d) places *= v.dim(1, d);
  w.vector_flops = places * v.integer("offset_group", 1) * 8 + places * v.dim(0, 1) * (v.has(4) ? 8 : 7);
  if (v.has(3)) w.vector_flops += v.out(0)->elements();
}

constexpr std::string_view notation = "n (g c) y+r x+s, (g m) c r s -> n (g m) y x";
constexpr std::string_view notation_last = "n y+r x+s (g c), (g m) c r s -> n y x (g m)";
#define MICROSOFT(op_name) .domain = "com.microsoft", .name = op_name, .since = 1, .kind = Kind::convolution

constexpr OpInfo table[] = {
    {.name = "Conv", .since = 1, .kind = Kind::convolution, .access = notation, .access_rule = conv_access<0, 1, false>, .infer = infer_conv<0, 1, false, 0>,
     .work = conv_work<2>, .cost = {.matrix_per_point = 2}, .formula = "2*points; bias: 1 per output"},
    {.name = "ConvInteger", .since = 10, .kind = Kind::convolution, .access = notation, .access_rule = conv_access<0, 1, false>, .infer = infer_conv<0, 1, false, 0>,
     .work = quantized_work<99>, .result = DType::int32, .cost = {.matrix_per_point = 2}, .auxiliary = 0b1100, .formula = "2*points in int8"},
    {.name = "QLinearConv", .since = 10, .kind = Kind::convolution, .access = notation, .access_rule = conv_access<0, 3, false>, .infer = infer_conv<0, 3, false, 7>,
     .work = quantized_work<8>, .cost = {.matrix_per_point = 2, .vector_per_output = sc::quantize}, .auxiliary = 0b11110110, .formula = "2*points in int8; 5 per output to requantise, 1 with a bias"},
    {.name = "ConvTranspose", .since = 1, .kind = Kind::convolution, .access = "n (g c) i j, (g c) m r s -> n (g m) i+r j+s", .access_rule = transpose_access<0, 1>,
     .infer = infer_transpose<0, 1, false>, .work = conv_work<2>, .cost = {.matrix_per_point = 2}, .formula = "2*points (input positions × kernel); bias: 1 per output"},
    {.name = "DeformConv", .since = 19, .kind = Kind::convolution, .access = notation, .access_rule = conv_access<0, 1, false>, .infer = infer_conv<0, 1, false, 0>,
     .work = deform_work, .cost = {.matrix_per_point = 2}, .formula = "2*points; vector 8 per place and offset group, 7 per sampled value (8 with a mask), bias 1 per output"},

    {MICROSOFT("FusedConv"), .access = notation, .access_rule = conv_access<0, 1, false>, .infer = infer_conv<0, 1, false, 0>, .work = fused_work,
     .cost = {.matrix_per_point = 2}, .formula = "2*points; bias, sum and activation per output"},
    {MICROSOFT("NhwcConv"), .access = notation_last, .access_rule = conv_access<0, 1, true>, .infer = infer_conv<0, 1, true, 0>, .work = conv_work<2>,
     .cost = {.matrix_per_point = 2}, .formula = "2*points; bias: 1 per output"},
    {MICROSOFT("NhwcFusedConv"), .access = notation_last, .access_rule = conv_access<0, 1, true>, .infer = infer_conv<0, 1, true, 0>, .work = fused_work,
     .cost = {.matrix_per_point = 2}, .formula = "2*points; bias, sum and activation per output"},
    {MICROSOFT("QLinearConv"), .access = notation,
     .access_rule = [](const OpView& v) { return conv_access_at(v, {0, 3, v.integer("channels_last", 0) != 0}); },
     .infer = [](InferContext& c) { c.integer("channels_last", 0) ? infer_conv<0, 3, true, 7>(c) : infer_conv<0, 3, false, 7>(c); },
     .work = quantized_work<8>, .cost = {.matrix_per_point = 2, .vector_per_output = sc::quantize}, .auxiliary = 0b11110110, .formula = "2*points in int8; 5 per output to requantise, 1 with a bias"},
    {MICROSOFT("ConvTransposeWithDynamicPads"), .access = "n (g c) i j, (g c) m r s -> n (g m) i+r j+s", .access_rule = transpose_access<0, 1>,
     .infer = infer_transpose<0, 1, true>, .work = conv_work<3>, .cost = {.matrix_per_point = 2}, .formula = "2*points; bias: 1 per output"},
    {MICROSOFT("QLinearConvTranspose"), .access = "n (g c) i j, (g c) m r s -> n (g m) i+r j+s", .access_rule = transpose_access<0, 3>,
     .infer = infer_transpose<0, 3, false>, .work = quantized_work<8>, .cost = {.matrix_per_point = 2, .vector_per_output = sc::quantize}, .auxiliary = 0b11110110,
     .formula = "2*points in int8; 5 per output to requantise"},
};

}  // namespace

OpFamily convolution_ops() { return table; }

}  // namespace roofcast
