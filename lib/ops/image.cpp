// Image ops: resizing, sampling, decoding. A value interpolated between t others takes t products
// and t − 1 additions. Weights count only where data decides the places (GridSample,
// CropAndResize): where sizes alone do (Resize), they are constants. Coordinates are addresses and
// count nothing.
#include "ops/op_table.h"
#include "ops/rules.h"
#include "ops/values.h"

#include <algorithm>
#include <cmath>

namespace roofcast {
namespace {

DimMap one(uint8_t factor) { return {DimMap::Kind::product, {factor}}; }

// Places along one axis that a value is made of.
int64_t taps_of(std::string_view mode) {
  if (mode.ends_with("cubic")) return 4;
  return mode.ends_with("linear") ? 2 : 1;
}

Expr power(int64_t base, size_t exponent) {
  Expr out = 1;
  for (size_t i = 0; i < exponent; ++i) out *= base;
  return out;
}

// Weights of one place in `dims` dims. Linear: a fraction, its complement; cubic (Keys): the
// fraction, three distances, two polynomials of 5 operations and two of 6. Then the products of all
// axes.
Expr weight_cost(int64_t taps, size_t dims) {
  if (taps == 1) return 0;
  const int64_t axes = static_cast<int64_t>(dims);
  return Expr(taps == 2 ? 2 : 26) * axes + power(taps, dims) * (axes - 1);
}

// ---- Resize and Upsample.

// dim · scale, rounded down. Runtimes multiply in float32; a scale that is a fraction in float32 is
// taken as that, which holds for symbolic dims too.
Expr scaled(Expr dim, const Scalar& scale) {
  const auto factor = scale.as_double();
  if (!factor) return floor(multiply(Scalar::integer(dim), scale)).as_expr();
  if (!dim.is_known() || !(*factor > 0) || *factor > 1e9) return {};
  const float single = static_cast<float>(*factor);
  if (const auto size = dim.as_constant(); size && *size < (int64_t{1} << 24))
    return static_cast<int64_t>(static_cast<float>(*size) * single);
  for (int64_t den = 1; den <= 256; ++den) {
    const double num = std::round(*factor * static_cast<double>(den));
    if (num >= 1 && static_cast<float>(num / static_cast<double>(den)) == single)
      return floor_div(dim * static_cast<int64_t>(num), den);
  }
  return {};
}

std::vector<Scalar> reals(const Attribute* a) {
  std::vector<Scalar> out;
  if (a && a->kind == Attribute::Kind::reals)
    for (double v : a->floats) out.push_back(Scalar::from_double(v));
  return out;
}

struct Target {
  bool by_sizes = false, known = false;
  std::vector<Scalar> items;  // sizes or scales
};

// Where the target size stands: two attributes, then a list, then an input (Upsample 1, 7, 9); an
// input behind the data (Resize 10) or one of two behind the region (11). An empty one is left out.
Target target_of(const OpView& v) {
  auto given = [&](size_t i) {
    return v.has(i) && !(v.ranked(i) && v.rank(i) == 1 && v.dim(i, 0) == Expr(0));
  };
  auto input = [&](size_t i, bool sizes) {
    const Elements e = v.values(i);
    return Target{sizes, e != nullptr, e ? e->items : std::vector<Scalar>{}};
  };
  if (v.op_name() == "Upsample" && v.opset() < 9) {
    if (v.opset() >= 7) return {false, true, reals(v.attribute("scales"))};
    const Scalar same = Scalar::integer(1);
    return {false, true, {same, same, Scalar::from_double(v.real("height_scale", 1)),
                          Scalar::from_double(v.real("width_scale", 1))}};
  }
  if (v.op_name() == "Upsample" || v.opset() < 11) return input(1, false);
  return given(3) ? input(3, true) : input(2, false);
}

// One scale for all axes, so that the result is within or around the sizes; rounded to nearest.
std::optional<std::vector<Expr>> keep_aspect(const std::vector<Expr>& dims,
                                             const std::vector<Scalar>& sizes, bool within) {
  std::optional<double> scale;
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto dim = dims[i].as_constant();
    const auto size = sizes[i].as_double();
    if (!dim || !size || *dim <= 0) return std::nullopt;
    const double own = *size / static_cast<double>(*dim);
    scale = !scale ? own : within ? std::min(*scale, own) : std::max(*scale, own);
  }
  std::vector<Expr> out;
  for (Expr d : dims) {
    const double size = std::floor(*scale * static_cast<double>(d.constant()) + 0.5);
    out.push_back(size < 9e18 ? Expr(static_cast<int64_t>(size)) : Expr::overflow());
  }
  return out;
}

// Output dims, unknown where the target is not known, and their scales where those are given.
struct Resized {
  std::vector<Expr> dims;
  std::vector<std::optional<double>> scales;
};

Resized resized(const OpView& v, std::string& fault) {
  std::vector<Expr> dims = v.in(0)->dims;
  const size_t rank = dims.size();
  const int64_t r = static_cast<int64_t>(rank);
  std::vector<std::optional<double>> scales(rank);
  std::vector<size_t> axes;
  if (const auto named = v.integers("axes")) {
    for (int64_t a : *named) {
      if (a < -r || a >= r) fault = "axis " + std::to_string(a) + " is outside of the data's dims";
      else axes.push_back(static_cast<size_t>(a < 0 ? a + r : a));
    }
  } else {
    for (size_t d = 0; d < rank; ++d) axes.push_back(d);
  }
  const Target target = target_of(v);
  if (target.known && target.items.size() != axes.size())
    fault = std::to_string(target.items.size()) + " sizes or scales for " +
            std::to_string(axes.size()) + " dims";
  if (!fault.empty() || !target.known) {
    for (size_t a : axes) dims[a] = {};
    return {dims, scales};
  }
  const std::string_view policy = v.string("keep_aspect_ratio_policy", "stretch");
  if (target.by_sizes && policy != "stretch") {
    std::vector<Expr> own;
    for (size_t a : axes) own.push_back(dims[a]);
    const auto kept = keep_aspect(own, target.items, policy == "not_larger");
    for (size_t i = 0; i < axes.size(); ++i) dims[axes[i]] = kept ? (*kept)[i] : Expr();
    return {dims, scales};
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    Expr& dim = dims[axes[i]];
    dim = target.by_sizes ? target.items[i].as_expr() : scaled(dim, target.items[i]);
    if (!target.by_sizes) scales[axes[i]] = target.items[i].as_double();
  }
  return {dims, scales};
}

// Taps of an axis, more where antialias shrinks: as many as the scale's reciprocal times.
Expr widened(int64_t taps, Expr from, Expr to, std::optional<double> scale) {
  if (!scale) return max(taps, ceil_div(from * taps, max(to, 1)));
  if (!(*scale > 1e-9)) return {};
  return std::max(taps, static_cast<int64_t>(std::ceil(static_cast<double>(taps) / *scale - 1e-4)));
}

// Each resized axis is a window.
AccessResult resize_access(const OpView& v) {
  if (!v.ranked(0)) return {};
  std::string fault;
  const auto [out, scales] = resized(v, fault);
  if (!fault.empty()) return {{}, fault, "dim-mismatch"};
  const int64_t taps = taps_of(v.string("mode", "nearest"));
  AccessBuilder b;
  OperandMap from, to;
  for (size_t d = 0; d < out.size(); ++d) {
    const uint8_t place = b.factor("y" + std::to_string(d), out[d]);
    to.dims.push_back(one(place)), from.dims.push_back(one(place));
    const bool same = scales[d] ? *scales[d] == 1 : out[d].is_known() && out[d] == v.dim(0, d);
    if (same) continue;
    const bool antialias = v.integer("antialias", 0) != 0 && taps > 1;
    Expr width = antialias ? widened(taps, v.dim(0, d), out[d], scales[d]) : Expr(taps);
    if (!scales[d]) {
      // 1 if the sizes differ: which symbolic ones do is known once they have values.
      const Expr change = out[d] - v.dim(0, d), changed = min(1, max(change, -change));
      width = (width - 1) * changed + 1;
    }
    const uint8_t tap = b.factor("r" + std::to_string(d), width, Role::window);
    from.dims.back() = {DimMap::Kind::window, {place, tap}};
  }
  b.input() = std::move(from);
  for (size_t i = 1; i < v.input_count(); ++i) b.input().outside = true;
  b.output() = std::move(to);
  return {b.take(), {}, {}};
}

void infer_resize(InferContext& c) {
  if (!c.need_inputs(1)) return;
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  const AccessResult r = resize_access(c);
  if (!r.fault.empty()) return c.fail(r.code, r.fault);
  c.output(0, c.dtype(0), dims_of(r.access, r.access.outputs[0]));
}

void resize_work(const OpView& v, Work& w) {
  if (!v.out(0) || w.access.empty()) return;
  const Expr outputs = v.out(0)->elements(), points = w.access.points();
  if (taps_of(v.string("mode", "nearest")) > 1) w.vector_flops = points * 2 - outputs;
  read_bytes(v, w, 0, min(v.bytes(0), storage_bytes(v.dtype(0), points)));
  for (size_t i = 1; i < v.input_count(); ++i) read_bytes(v, w, i, 0);
}

// ---- Sampling at places that data decides.

void infer_grid_sample(InferContext& c) {
  if (!c.need_inputs(2)) return;
  if (!c.ranked(0) || !c.ranked(1)) return c.output_unranked(0, c.dtype(0));
  const size_t rank = c.rank(0);
  if (rank < 3 || c.rank(1) != rank)
    return c.fail("rank-mismatch", "data of " + std::to_string(rank) + " dims and a grid of " +
                                       std::to_string(c.rank(1)));
  const Expr last = c.dim(1, rank - 1), spatial = static_cast<int64_t>(rank) - 2;
  if (last.is_constant() && last != spatial)
    return c.fail("dim-mismatch", "the grid holds " + last.text() + " coordinates a place, " +
                                      spatial.text() + " are wanted");
  std::vector<Expr> dims{c.dim(0, 0), c.dim(0, 1)};
  for (size_t d = 1; d + 1 < rank; ++d) dims.push_back(c.dim(1, d));
  c.output(0, c.dtype(0), std::move(dims));
}

// Weights once a place, then each channel's value.
void sample_work(const OpView& v, Work& w, int64_t taps, size_t dims, Expr channels) {
  const Expr outputs = v.out(0)->elements(), all = power(taps, dims);
  const Expr places = exact_div(outputs, channels).value_or(Expr());
  w.vector_flops = taps == 1 ? Expr(0) : places * weight_cost(taps, dims) + outputs * (all * 2 - 1);
  read_bytes(v, w, 0, min(v.bytes(0), storage_bytes(v.dtype(0), outputs * all)));
}

void grid_sample_work(const OpView& v, Work& w) {
  if (!v.out(0) || !v.ranked(0) || v.rank(0) < 3 || v.rank(0) > 16) return;
  sample_work(v, w, taps_of(v.string("mode", "linear")), v.rank(0) - 2, v.dim(0, 1));
}

void infer_crop_and_resize(InferContext& c) {
  if (!c.need_inputs(4)) return;
  if (c.ranked(0) && !c.need_rank(0, 4, 4)) return;
  const auto size = c.exprs(3);
  const bool sized = size && size->size() == 2;
  c.output(0, c.dtype(0), {c.ranked(1) && c.rank(1) > 0 ? c.dim(1, 0) : Expr(),
                           c.ranked(0) ? c.dim(0, 1) : Expr(), sized ? (*size)[0] : Expr(),
                           sized ? (*size)[1] : Expr()});
}
void crop_and_resize_work(const OpView& v, Work& w) {
  read_bytes(v, w, 3, 0);
  if (!v.out(0) || !v.ranked(0) || v.rank(0) != 4) return;
  sample_work(v, w, v.string("mode", "bilinear") == "nearest" ? 1 : 2, 2, v.dim(0, 1));
}

// theta [n, d, d + 1] and a size [n, c, d..] → the grid [n, d.., d].
void infer_affine_grid(InferContext& c) {
  if (!c.need_inputs(2)) return;
  const auto size = c.exprs(1);
  if (!size) {
    const auto length = c.ranked(1) && c.rank(1) == 1 ? c.dim(1, 0).as_constant() : std::nullopt;
    if (!length || *length < 3 || *length > static_cast<int64_t>(limits::rank))
      return c.output_unranked(0, c.dtype(0));
    std::vector<Expr> dims(static_cast<size_t>(*length));
    dims.back() = *length - 2;
    return c.output(0, c.dtype(0), std::move(dims));
  }
  if (size->size() < 3) return c.fail("dim-mismatch", "the size must name at least 3 dims");
  std::vector<Expr> dims{(*size)[0]};
  dims.insert(dims.end(), size->begin() + 2, size->end());
  dims.push_back(static_cast<int64_t>(size->size()) - 2);
  c.output(0, c.dtype(0), std::move(dims));
}
// A row of theta times a place: d products, d additions (the last coordinate is one).
void affine_grid_work(const OpView& v, Work& w) {
  read_bytes(v, w, 1, 0);
  if (v.out(0) && v.out(0)->ranked && !v.out(0)->dims.empty())
    w.vector_flops = v.out(0)->elements() * v.out(0)->dims.back() * 2;
}

// ---- Decoding, and cropping as the first opsets had it.

void infer_decoder(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const int64_t channels = c.string("pixel_format", "RGB") == "Grayscale" ? 1 : 3;
  c.output(0, DType::uint8, {c.fresh("height", {}, 1), c.fresh("width", {}, 1), channels});
}

void infer_crop(InferContext& c) {
  if (!c.need_inputs(1) || !c.need_rank(0, 4, 4)) return;
  const auto border = c.integers("border"), scale = c.integers("scale");
  std::vector<Expr> dims = c.in(0)->dims;
  if (scale && scale->size() == 2) {
    dims[2] = (*scale)[0], dims[3] = (*scale)[1];
  } else if (border && border->size() == 4) {  // left, top, right, bottom
    dims[2] = dims[2] - (*border)[1] - (*border)[3];
    dims[3] = dims[3] - (*border)[0] - (*border)[2];
  } else {
    return c.fail("onnx-attribute", "neither scale nor border names a size");
  }
  c.output(0, c.dtype(0), std::move(dims));
}

#define RESIZE(op_name, version)                                                         \
  {.name = op_name, .since = version, .kind = Kind::image,                               \
   .access = "n c y+r x+s -> n c y x", .access_rule = resize_access,                     \
   .infer = infer_resize, .work = resize_work,                                           \
   .formula = "outputs*(2*taps - 1); taps a resized axis: 1 nearest (free), 2 linear, "  \
              "4 cubic, times the scale where antialias shrinks"}
#define GRID_SAMPLE(op_domain, version)                                                  \
  {.domain = op_domain, .name = "GridSample", .since = version, .kind = Kind::image,     \
   .access = "n c @i.., n o.. @d -> n c o..", .infer = infer_grid_sample,                \
   .work = grid_sample_work,                                                             \
   .formula = "per place 2 an axis (linear) or 26 (cubic), taps^d*(d - 1) for the "      \
              "weights; 2*taps^d - 1 per output; nearest 0"}

constexpr OpInfo table[] = {
    RESIZE("Resize", 10),
    RESIZE("Upsample", 1),
    GRID_SAMPLE("", 16),
    GRID_SAMPLE("com.microsoft", 1),
    {.name = "AffineGrid", .since = 20, .kind = Kind::image, .access = "n e @k, . -> n d.. e",
     .infer = infer_affine_grid, .work = affine_grid_work, .formula = "2*d per output in d dims"},
    {.name = "ImageDecoder", .since = 20, .kind = Kind::image, .infer = infer_decoder,
     .formula = "0: what decoding takes is the codec's matter"},
    {.name = "Crop", .kind = Kind::image, .infer = infer_crop,
     .work = [](const OpView& v, Work& w) { read_bytes(v, w, 0, v.output_bytes(0)); },
     .formula = "0; bytes twice what is kept"},
    {.domain = "com.microsoft", .name = "CropAndResize", .kind = Kind::image,
     .access = "@n c @h @w, k @e, k, . -> k c y x", .infer = infer_crop_and_resize,
     .work = crop_and_resize_work,
     .formula = "bilinear: 8 per place for its weights, 7 per output; nearest 0"},
};

}  // namespace

OpFamily image_ops() { return table; }

}  // namespace roofcast
