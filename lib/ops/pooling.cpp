// Pooling: windows over spatial dims. A window of k elements takes k − 1 comparisons or additions,
// positions on padding included (as for convolutions); an average one division more.
#include "ops/op_table.h"
#include "ops/rules.h"
#include "ops/scalar_costs.h"
#include "ops/window.h"

namespace roofcast {
namespace {

namespace sc = scalar_cost;
using Dims = std::vector<Expr>;

DimMap one(uint8_t factor) { return {DimMap::Kind::product, {factor}}; }

// kernel_shape, one entry for each dim of the data but batch and channels.
AccessResult read_kernel(const OpView& v, Dims& kernel) {
  const auto given = v.integers("kernel_shape");
  if (!given || given->empty()) return {{}, "kernel_shape is missing", "onnx-attribute"};
  if (v.rank(0) != given->size() + 2)
    return {{}, std::to_string(v.rank(0)) + " dims for a kernel of " +
                    std::to_string(given->size()), "rank-mismatch"};
  for (int64_t k : *given) {
    if (k < 1) return {{}, "kernel_shape holds " + std::to_string(k), "onnx-attribute"};
    kernel.push_back(k);
  }
  return {};
}

AccessResult pool_access_at(const OpView& v, bool channels_last) {
  if (!v.ranked(0)) return {};
  Dims kernel;
  if (AccessResult bad = read_kernel(v, kernel); !bad.fault.empty()) return bad;
  std::string bad;
  const Window window = read_window(v, std::move(kernel), bad);
  if (!bad.empty()) return {{}, bad, "onnx-attribute"};
  AccessBuilder b;
  OperandMap in, out;
  auto plain = [&](const char* name, Expr size) {
    in.dims.push_back(one(b.factor(name, size))), out.dims.push_back(in.dims.back());
  };
  plain("n", v.dim(0, 0));
  if (!channels_last) plain("c", v.dim(0, 1));
  for (size_t d = 0; d < window.kernel.size(); ++d) {
    const Expr size = v.dim(0, d + (channels_last ? 1 : 2)), output = window.output(d, size);
    if (output.is_constant() && output.constant() < 0)
      return {{}, "a kernel that spans " + window.reach(d).text() + " does not fit in " +
                      size.text() + " and its padding", "dim-negative"};
    const uint8_t y = b.factor("y" + std::to_string(d), output);
    const uint8_t r = b.factor("r" + std::to_string(d), window.kernel[d], Role::window);
    in.dims.push_back({DimMap::Kind::window, {y, r}});
    out.dims.push_back(one(y));
  }
  if (channels_last) plain("c", v.dim(0, v.rank(0) - 1));
  b.input() = std::move(in);
  for (size_t i = 1; i < v.input_count(); ++i) b.input().outside = true;
  for (size_t i = 0; i < v.output_count(); ++i) b.output() = out;
  return {b.take(), {}, {}};
}

template <bool Last> AccessResult pool_access(const OpView& v) { return pool_access_at(v, Last); }
AccessResult quantized_pool_access(const OpView& v) {
  return pool_access_at(v, v.integer("channels_last", 0) != 0);
}

// The whole of each channel is one window.
AccessResult global_access_at(const OpView& v, bool channels_last) {
  if (!v.ranked(0)) return {};
  if (v.rank(0) < 2) return {{}, "needs a batch and a channel dim", "rank-mismatch"};
  AccessBuilder b;
  OperandMap in, out;
  const size_t channel = channels_last ? v.rank(0) - 1 : 1;
  for (size_t d = 0; d < v.rank(0); ++d) {
    const bool stays = d == 0 || d == channel;
    const std::string name = d == 0 ? "n" : stays ? "c" : "r" + std::to_string(d);
    const Role role = stays ? Role::pass : Role::reduce;
    in.dims.push_back(one(b.factor(name, v.dim(0, d), role)));
    out.dims.push_back(stays ? in.dims.back() : DimMap());
  }
  b.input() = std::move(in);
  for (size_t i = 1; i < v.input_count(); ++i) b.input().outside = true;
  b.output() = std::move(out);
  return {b.take(), {}, {}};
}
AccessResult global_access(const OpView& v) {
  return global_access_at(v, v.integer("channels_last", 0) != 0);
}

// The pooled values, and beside them where each was found.
void infer_pool(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const AccessResult r = access_of(c);
  if (!r.fault.empty()) return c.fail(r.code, r.fault, "check --shape");
  for (size_t i = 0; i < c.output_count() && i < 2; ++i) {
    const DType dtype = i == 0 ? c.dtype(0) : DType::int64;
    if (i < r.access.outputs.size()) c.output(i, dtype, dims_of(r.access, r.access.outputs[i]));
    else c.output_unranked(i, dtype);
  }
}

// A window's k − 1 operations, and more per element and per result.
template <int PerElement, int PerResult> void pool_work(const OpView& v, Work& w) {
  if (!v.out(0) || w.access.empty()) return;
  w.vector_flops = w.access.points() * (1 + PerElement) + v.out(0)->elements() * (PerResult - 1);
}

// (Σ |x|^p)^(1/p): p = 1 needs no powers; p = 2 is squares and a root; others take an absolute
// value and a power per element, and a power per result.
void lp_work(const OpView& v, Work& w) {
  const double p = v.opset() < 2 ? v.real("p", 2) : static_cast<double>(v.integer("p", 2));
  if (p == 1) pool_work<1, 0>(v, w);
  else if (p == 2) pool_work<1, 1>(v, w);
  else pool_work<2, 1>(v, w);
}

// ---- MaxUnpool puts each value back where its index says; all else is zero.

void infer_unpool(InferContext& c) {
  if (!c.need_inputs(2)) return;
  if (c.has(2)) {
    if (const auto shape = c.exprs(2)) return c.output(0, c.dtype(0), *shape);
    if (c.ranked(0)) return c.output(0, c.dtype(0), Dims(c.rank(0)));
  }
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  Dims kernel;
  const AccessResult wrong = read_kernel(c, kernel);
  if (!wrong.fault.empty()) return c.fail(wrong.code, wrong.fault);
  std::string bad;
  const Window window = read_window(c, std::move(kernel), bad);
  if (!bad.empty()) return c.fail("onnx-attribute", bad);
  Dims dims{c.dim(0, 0), c.dim(0, 1)};
  for (size_t d = 0; d < window.kernel.size(); ++d)
    dims.push_back(window.transposed_output(d, c.dim(0, d + 2), 0));
  c.output(0, c.dtype(0), std::move(dims));
}

// ---- Regions [k, 4 or 5] of the data, each pooled to a fixed size.

void infer_regions(InferContext& c, Expr height, Expr width) {
  const Expr regions = c.ranked(1) && c.rank(1) >= 1 ? c.dim(1, 0) : Expr();
  const Expr channels = c.ranked(0) && c.rank(0) >= 2 ? c.dim(0, 1) : Expr();
  c.output(0, c.dtype(0), {regions, channels, height, width});
}
void infer_roi_align(InferContext& c) {
  if (!c.need_inputs(3)) return;
  infer_regions(c, c.integer("output_height", 1), c.integer("output_width", 1));
}
void infer_max_roi(InferContext& c) {
  if (!c.need_inputs(2)) return;
  const auto shape = c.integers("pooled_shape");
  if (!shape || shape->size() != 2)
    return c.fail("onnx-attribute", "pooled_shape must hold two sizes");
  infer_regions(c, (*shape)[0], (*shape)[1]);
}

// Bilinear samples, sampling_ratio² to a result (0, which leaves it to the region's size, is taken
// as 2): a place's weights take 8 operations for all channels, a value 7, then the samples' mean or
// maximum.
void roi_align_work(const OpView& v, Work& w) {
  if (!v.out(0) || !v.ranked(0) || v.rank(0) != 4) return;
  const int64_t given = v.integer("sampling_ratio", 0);
  const Expr ratio = given > 0 ? given : 2, samples = ratio * ratio;
  const Expr results = v.out(0)->elements();
  const Expr places = exact_div(results, v.dim(0, 1)).value_or(Expr()) * samples;
  const int no_division = v.string("mode", "avg") == "max" ? 1 : 0;
  w.vector_flops = places * 8 + results * (samples * 8 - no_division);
  read_bytes(v, w, 0, min(v.bytes(0), storage_bytes(v.dtype(0), results * samples * 4)));
}

// Regions overlap as data says; each is taken as the whole map at most.
void max_roi_work(const OpView& v, Work& w) {
  if (!v.out(0) || !v.ranked(0) || v.rank(0) != 4 || !v.ranked(1) || v.rank(1) < 1) return;
  w.vector_flops = v.dim(1, 0) * v.dim(0, 1) * v.dim(0, 2) * v.dim(0, 3);
}

#define POOL(op_name, per_element, per_result, text)                                       \
  {.name = op_name, .kind = Kind::pooling, .access = "n c y+r x+s -> n c y x",             \
   .access_rule = pool_access<false>, .infer = infer_pool,                                 \
   .work = pool_work<per_element, per_result>, .formula = text}
#define GLOBAL(op_name, work_rule, text)                                                   \
  {.name = op_name, .kind = Kind::pooling, .access = "n c r.. -> n c 1",                   \
   .access_rule = global_access, .infer = infer_pool, .work = work_rule, .formula = text}
#define MICROSOFT(op_name) .domain = "com.microsoft", .name = op_name, .kind = Kind::pooling

constexpr OpInfo table[] = {
    POOL("MaxPool", 0, 0, "outputs*(kernel - 1)"),
    POOL("AveragePool", 0, 1, "outputs*kernel: sum, divide"),
    {.name = "LpPool", .kind = Kind::pooling, .access = "n c y+r x+s -> n c y x",
     .access_rule = pool_access<false>, .infer = infer_pool, .work = lp_work,
     .formula = "p=2: 2*outputs*kernel; p=1: less 1 per output; other p: 3*outputs*kernel"},
    GLOBAL("GlobalAveragePool", (pool_work<0, 1>), "inputs: sum, divide"),
    GLOBAL("GlobalMaxPool", (pool_work<0, 0>), "inputs - outputs"),
    GLOBAL("GlobalLpPool", lp_work, "p=2: 2*inputs; p=1: less 1 per output; other p: 3*inputs"),
    {.name = "MaxUnpool", .since = 9, .kind = Kind::pooling,
     .access = "n c i j, n c i j, . -> n c @y @x", .infer = infer_unpool,
     .formula = "0; values are put in place"},
    {.name = "MaxRoiPool", .kind = Kind::pooling, .access = "@n c @h @w, k @e -> k c y x",
     .infer = infer_max_roi, .work = max_roi_work,
     .formula = "regions*C*H*W: at most one comparison per region, channel and place"},
    {.name = "RoiAlign", .since = 10, .kind = Kind::pooling,
     .access = "@n c @h @w, k @e, k -> k c y x", .infer = infer_roi_align, .work = roi_align_work,
     .formula = "8*samples per place, 8*samples per output; samples = sampling_ratio^2 (0: 2^2); "
                "mode=max 1 less"},

    {MICROSOFT("NhwcMaxPool"), .access = "n y+r x+s c -> n y x c",
     .access_rule = pool_access<true>, .infer = infer_pool, .work = pool_work<0, 0>,
     .formula = "outputs*(kernel - 1)"},
    // The mask is compared with at each element.
    {MICROSOFT("MaxpoolWithMask"), .access = "n c y+r x+s, . -> n c y x",
     .access_rule = pool_access<false>, .infer = infer_pool, .work = pool_work<1, 0>,
     .formula = "outputs*(2*kernel - 1)"},
    {MICROSOFT("QLinearAveragePool"), .access = "n c y+r x+s, ., ., ., . -> n c y x",
     .access_rule = quantized_pool_access, .infer = infer_pool,
     .work = pool_work<0, 1 + sc::quantize>, .formula = "outputs*(kernel + 5)"},
    {MICROSOFT("QLinearGlobalAveragePool"), .access = "n c r.., ., ., ., . -> n c 1",
     .access_rule = global_access, .infer = infer_pool, .work = pool_work<0, 1 + sc::quantize>,
     .formula = "inputs + 5*outputs"},
};

}  // namespace

OpFamily pooling_ops() { return table; }

}  // namespace roofcast
