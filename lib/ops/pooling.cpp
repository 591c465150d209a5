// Pooling: windows over spatial dims. A window of k elements takes k − 1 comparisons or additions,
// positions on padding included; an average one division more.
#include "ops/op_table.h"
#include "ops/rules.h"
#include "ops/scalar_costs.h"
#include "ops/window.h"

namespace roofcast {
namespace {

namespace sc = scalar_cost;

template <bool Last> AccessResult pool_access(const OpView& v) {
  if (!v.ranked(0)) return {};
  const auto& x = v.in(0)->dims;
  const auto kernel = v.integers("kernel_shape");
  if (!kernel) return {{}, "kernel_shape is missing", "onnx-attribute"};
  if (x.size() != kernel->size() + 2)
    return {{}, std::to_string(x.size()) + " dims for a kernel of " + std::to_string(kernel->size()), "rank-mismatch"};
  for (int64_t k : *kernel)
    if (k < 1) return {{}, "kernel_shape holds " + std::to_string(k), "onnx-attribute"};
  std::string fault;
  const Window window = read_window(v, {kernel->begin(), kernel->end()}, fault);
  if (!fault.empty()) return {{}, fault, "onnx-attribute"};
  AccessBuilder b;
  OperandMap in, out;
  auto plain = [&](const char* name, Expr size) {
    const DimMap own{DimMap::Kind::product, {b.factor(name, size)}};
    in.dims.push_back(own), out.dims.push_back(own);
  };
  plain("n", x[0]);
  if (!Last) plain("c", x[1]);
  for (size_t d = 0; d < kernel->size(); ++d) {
    const Expr size = x[d + (Last ? 1 : 2)];
    const uint8_t o = b.factor("y" + std::to_string(d), window.output(d, size));
    const uint8_t r = b.factor("r" + std::to_string(d), window.kernel[d], Role::window);
    in.dims.push_back({DimMap::Kind::window, {o, r}});
    out.dims.push_back({DimMap::Kind::product, {o}});
  }
  if (Last) plain("c", x.back());
  b.input() = std::move(in);
  for (size_t i = 1; i < v.input_count(); ++i) b.input().outside = true;
  b.output() = out;
  b.output() = std::move(out);
  return {b.take(), {}, {}};
}

template <bool Last> void infer_pool(InferContext& c) {
  if (!c.need_inputs(1)) return;
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  const AccessResult r = pool_access<Last>(c);
  if (!r.fault.empty()) return c.fail(r.code, r.fault, "check --shape");
  c.output(0, c.dtype(0), dims_of(r.access, r.access.outputs[0]));
  if (c.wants(1)) c.output(1, DType::int64, dims_of(r.access, r.access.outputs[0]));
}

// `Before` per point, `After` − 1 per output (a line of k takes k − 1).
template <int Before, int After> void pool_work(const OpView& v, Work& w) {
  if (v.out(0) && !w.access.empty()) w.vector_flops = w.access.points() * (1 + Before) + v.out(0)->elements() * (After - 1);
}

// LpPool: |x|^p is a square for p = 2, an absolute value for p = 1, else both and a power.
void lp_pool_work(const OpView& v, Work& w) {
  if (!v.out(0)) return;
  const int64_t p = v.integer("p", 2);
  const Expr points = w.access.empty() ? v.in(0)->elements() : w.access.points();
  w.vector_flops = points * (1 + (p == 1 || p == 2 ? 1 : 2)) + v.out(0)->elements() * (p == 1 ? -1 : 0);
}

void infer_global(InferContext& c) {
  if (!c.need_inputs(1)) return;
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  if (!c.need_rank(0, 2)) return;
  std::vector<Expr> dims = c.in(0)->dims;
  for (size_t d = 2; d < dims.size(); ++d) dims[d] = 1;
  c.output(0, c.dtype(0), std::move(dims));
}
template <int After> void global_work(const OpView& v, Work& w) {
  if (v.in(0) && v.out(0)) w.vector_flops = v.in(0)->elements() + v.out(0)->elements() * (After - 1);
}

void infer_unpool(InferContext& c) {
  if (!c.need_inputs(2)) return;
  if (const auto shape = c.has(2) ? c.exprs(2) : std::nullopt) return c.output(0, c.dtype(0), *shape);
  if (!c.ranked(0) || c.has(2)) return c.ranked(0) ? c.output(0, c.dtype(0), std::vector<Expr>(c.rank(0))) : c.output_unranked(0, c.dtype(0));
  const auto kernel = c.integers("kernel_shape");
  if (!kernel || kernel->size() + 2 != c.rank(0)) return c.fail("onnx-attribute", "kernel_shape does not fit the data's dims");
  std::string fault;
  const Window w = read_window(c, {kernel->begin(), kernel->end()}, fault);
  if (!fault.empty()) return c.fail("onnx-attribute", fault);
  std::vector<Expr> dims{c.dim(0, 0), c.dim(0, 1)};
  for (size_t d = 0; d < kernel->size(); ++d)
    dims.push_back((c.dim(0, d + 2) - 1) * w.stride[d] + w.kernel[d] - w.pad_begin[d] - w.pad_end[d]);
  c.output(0, c.dtype(0), std::move(dims));
}

// Regions [k, 4 or 5] of the data, each pooled to a fixed size.
template <bool Align> void infer_roi(InferContext& c) {
  if (!c.need_inputs(2)) return;
  const Expr rois = c.ranked(1) && c.rank(1) >= 1 ? c.dim(1, 0) : Expr();
  const Expr channels = c.ranked(0) && c.rank(0) >= 2 ? c.dim(0, 1) : Expr();
  if (Align) return c.output(0, c.dtype(0), {rois, channels, c.integer("output_height", 1), c.integer("output_width", 1)});
  const auto shape = c.integers("pooled_shape");
  if (!shape || shape->size() != 2) return c.fail("onnx-attribute", "pooled_shape must hold two sizes");
  c.output(0, c.dtype(0), {rois, channels, (*shape)[0], (*shape)[1]});
}
// Bilinear samples: 7 each, sampling_ratio² to an output (0 is taken as 2: it depends on the region).
void roi_align_work(const OpView& v, Work& w) {
  if (!v.out(0)) return;
  const int64_t given = v.integer("sampling_ratio", 0), ratio = given > 0 ? given : 2;
  w.vector_flops = v.out(0)->elements() * (Expr(ratio) * ratio * 8);
  w.reads[0] = min(v.bytes(0), v.output_bytes(0) * (Expr(ratio) * ratio * 4));
}
void max_roi_work(const OpView& v, Work& w) {
  if (!v.out(0) || !v.in(0)) return;
  // Regions overlap as data says; each is taken as the whole map at most.
  const Expr rois = v.ranked(1) && v.rank(1) >= 1 ? v.dim(1, 0) : Expr();
  w.vector_flops = v.ranked(0) && v.rank(0) == 4 ? rois * v.dim(0, 1) * v.dim(0, 2) * v.dim(0, 3) : Expr();
}

#define POOL(op_domain, op_name, last, before, after, formula_text) \
  {.domain = op_domain, .name = op_name, .since = 1, .kind = Kind::pooling, .access = last ? "n y+r x+s c -> n y x c" : "n c y+r x+s -> n c y x", \
   .access_rule = pool_access<last>, .infer = infer_pool<last>, .work = pool_work<before, after>, .formula = formula_text}

constexpr OpInfo table[] = {
    POOL("", "MaxPool", false, 0, 0, "outputs*(kernel - 1)"),
    POOL("", "AveragePool", false, 0, 1, "outputs*kernel: the sum, and a division"),
    {.name = "LpPool", .since = 1, .kind = Kind::pooling, .access = "n c y+r x+s -> n c y x", .access_rule = pool_access<false>, .infer = infer_pool<false>,
     .work = lp_pool_work, .formula = "2*outputs*kernel; p=1: less one per output; other p: 3*outputs*kernel"},
    {.name = "GlobalAveragePool", .since = 1, .kind = Kind::pooling, .infer = infer_global, .work = global_work<1>, .formula = "inputs: the sum, and a division"},
    {.name = "GlobalMaxPool", .since = 1, .kind = Kind::pooling, .infer = infer_global, .work = global_work<0>, .formula = "inputs - outputs"},
    {.name = "GlobalLpPool", .since = 1, .kind = Kind::pooling, .infer = infer_global, .work = lp_pool_work, .formula = "2*inputs; p=1: less one per output"},
    {.name = "MaxUnpool", .since = 9, .kind = Kind::pooling, .infer = infer_unpool},
    {.name = "MaxRoiPool", .since = 1, .kind = Kind::pooling, .infer = infer_roi<false>, .work = max_roi_work, .formula = "at most one comparison per region, channel and position"},
    {.name = "RoiAlign", .since = 10, .kind = Kind::pooling, .infer = infer_roi<true>, .work = roi_align_work, .formula = "8*sampling_ratio^2 per output (ratio 0: 2)"},
    POOL("com.microsoft", "NhwcMaxPool", true, 0, 0, "outputs*(kernel - 1)"),
    POOL("com.microsoft", "MaxpoolWithMask", false, 1, 0, "outputs*(2*kernel - 1)"),
    {.domain = "com.microsoft", .name = "QLinearAveragePool", .since = 1, .kind = Kind::pooling, .access = "n c y+r x+s -> n c y x",
     .access_rule = [](const OpView& v) { return v.integer("channels_last", 0) ? pool_access<true>(v) : pool_access<false>(v); },
     .infer = [](InferContext& c) { c.integer("channels_last", 0) ? infer_pool<true>(c) : infer_pool<false>(c); },
     .work = pool_work<0, 1 + sc::quantize>, .formula = "outputs*(kernel + 5)"},
    {.domain = "com.microsoft", .name = "QLinearGlobalAveragePool", .since = 1, .kind = Kind::pooling,
     .infer = [](InferContext& c) {
       if (!c.need_inputs(1) || !c.need_rank(0, 3)) return;
       std::vector<Expr> dims = c.in(0)->dims;
       const bool last = c.integer("channels_last", 0) != 0;
       for (size_t d = last ? 1 : 2; d < dims.size() - (last ? 1 : 0); ++d) dims[d] = 1;
       c.output(0, c.dtype(0), std::move(dims));
     }, .work = global_work<1 + sc::quantize>, .formula = "inputs + 5*outputs"},
};

}  // namespace

OpFamily pooling_ops() { return table; }

}  // namespace roofcast
