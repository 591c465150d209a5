// Ops that move bytes without changing them: Transpose, Concat, Split, Slice, Pad, Tile and their like.
#include "ops/op_table.h"
#include "ops/rules.h"

#include <algorithm>
#include <numeric>

namespace roofcast {
namespace {

using Values = std::optional<std::vector<Scalar>>;

std::vector<int64_t> row_strides(const std::vector<Expr>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d].as_constant().value_or(0);
  return strides;
}

// Values of an input whose every element is followed; absent if their number is not that of its dims.
const std::vector<Scalar>* small_values(const OpView& v, size_t i) {
  const auto n = v.values(i) ? small_size(v.in(i)) : std::nullopt;
  return n && v.values(i)->items.size() == *n ? &v.values(i)->items : nullptr;
}

// ---- Transpose

std::optional<std::vector<size_t>> permutation(const OpView& v) {
  const size_t rank = v.rank(0);
  std::vector<size_t> perm(rank);
  const auto given = v.integers("perm");
  if (!given) {
    for (size_t d = 0; d < rank; ++d) perm[d] = rank - 1 - d;
    return perm;
  }
  std::vector<char> seen(rank);
  if (given->size() != rank) return std::nullopt;
  for (size_t d = 0; d < rank; ++d) {
    const int64_t p = (*given)[d] < 0 ? (*given)[d] + static_cast<int64_t>(rank) : (*given)[d];
    if (p < 0 || p >= static_cast<int64_t>(rank) || seen[static_cast<size_t>(p)]) return std::nullopt;
    seen[static_cast<size_t>(p)] = 1;
    perm[d] = static_cast<size_t>(p);
  }
  return perm;
}

AccessResult transpose_access(const OpView& v) {
  if (!v.ranked(0)) return {};
  const auto perm = permutation(v);
  if (!perm) return {{}, "perm is no permutation of " + std::to_string(v.rank(0)) + " dims", "rank-mismatch"};
  AccessBuilder b;
  OperandMap in, out;
  for (size_t d = 0; d < v.rank(0); ++d)
    in.dims.push_back({DimMap::Kind::product, {b.factor("d" + std::to_string(d), v.dim(0, d))}});
  for (size_t d : *perm) out.dims.push_back({DimMap::Kind::product, {static_cast<uint8_t>(d)}});
  b.input() = std::move(in);
  b.output() = std::move(out);
  return {b.take(), {}, {}};
}

Values transpose_value(const OpView& v) {
  const auto* items = small_values(v, 0);
  const auto perm = items ? permutation(v) : std::nullopt;
  if (!perm) return std::nullopt;
  const auto from = row_strides(v.in(0)->dims);
  const auto& to = v.out(0)->dims;
  std::vector<Scalar> out;
  for (size_t flat = 0; flat < items->size(); ++flat) {
    size_t rest = flat;
    int64_t at = 0;
    for (size_t d = to.size(); d-- > 0;) {
      const size_t n = static_cast<size_t>(to[d].constant());
      at += static_cast<int64_t>(rest % n) * from[(*perm)[d]];
      rest /= n;
    }
    out.push_back((*items)[static_cast<size_t>(at)]);
  }
  return out;
}

// ---- Concat

void infer_concat(InferContext& c) {
  if (!c.need_inputs(1)) return;
  std::optional<size_t> first;
  for (size_t i = 0; i < c.input_count(); ++i)
    if (c.ranked(i) && !first) first = i;
  if (!first) return c.output_unranked(0, c.dtype(0));
  const size_t rank = c.rank(*first);
  // Opset 1 had 1 as its default axis.
  const auto axis = c.axis(c.integer("axis", c.opset() < 4 ? 1 : 0), rank);
  if (!axis) return;
  std::vector<Expr> dims = c.in(*first)->dims;
  Expr total = 0;
  for (size_t i = 0; i < c.input_count(); ++i) {
    if (!c.has(i)) continue;
    if (!c.ranked(i)) {
      total = {};
      continue;
    }
    if (c.rank(i) != rank)
      return c.fail("rank-mismatch", "input " + std::to_string(i) + " has " + std::to_string(c.rank(i)) + " dims, input " + std::to_string(*first) + " has " + std::to_string(rank));
    total = total.is_known() ? total + c.dim(i, *axis) : total;
    if (!c.dim(i, *axis).is_known()) total = {};
    for (size_t d = 0; d < rank; ++d) {
      if (d == *axis) continue;
      const Expr e = c.dim(i, d);
      if (!dims[d].is_known() || (!dims[d].is_constant() && e.is_constant())) dims[d] = e;
      else if (e.is_constant() && dims[d].is_constant() && e != dims[d])
        return c.fail("dim-mismatch", "dim " + std::to_string(d) + " is " + dims[d].text() + " and " + e.text() + " in input " + std::to_string(i));
    }
  }
  dims[*axis] = total;
  c.output(0, c.dtype(0), std::move(dims));
}

Values concat_value(const OpView& v) {
  const auto n = small_size(v.out(0));
  if (!n || !v.ranked(0)) return std::nullopt;
  const int64_t rank = static_cast<int64_t>(v.out(0)->dims.size());
  const int64_t axis = v.integer("axis", v.opset() < 4 ? 1 : 0);
  const size_t at = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  size_t outer = 1;
  for (size_t d = 0; d < at; ++d) outer *= static_cast<size_t>(v.out(0)->dims[d].constant());
  std::vector<Scalar> out;
  for (size_t o = 0; o < outer; ++o)
    for (size_t i = 0; i < v.input_count(); ++i) {
      const auto size = small_size(v.in(i));
      if (!size) return std::nullopt;
      const auto* items = small_values(v, i);
      const size_t chunk = *size / outer;
      for (size_t k = 0; k < chunk; ++k) out.push_back(items ? (*items)[o * chunk + k] : Scalar{});
    }
  return out;
}

// ---- Split

void infer_split(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const size_t count = c.output_count();
  if (!c.ranked(0)) {
    for (size_t i = 0; i < count; ++i) c.output_unranked(i, c.dtype(0));
    return;
  }
  const auto axis = c.axis(c.integer("axis", 0), c.rank(0));
  if (!axis) return;
  const Expr whole = c.dim(0, *axis);
  std::optional<std::vector<Expr>> sizes;
  if (const auto attribute = c.integers("split"); attribute && c.opset() < 13) sizes.emplace(attribute->begin(), attribute->end());
  else if (c.has(1)) {
    sizes = c.exprs(1);
    if (!sizes) sizes.emplace(count);
  }
  if (sizes && sizes->size() != count)
    return c.fail("dim-mismatch", std::to_string(sizes->size()) + " sizes for " + std::to_string(count) + " outputs");
  if (!sizes) {
    // Even parts; the last one is smaller if the dim does not divide (opset 18 on).
    const Expr part = ceil_div(whole, Expr(static_cast<int64_t>(count)));
    sizes.emplace(count, part);
    sizes->back() = whole - part * static_cast<int64_t>(count - 1);
    if (whole.is_constant() && sizes->back().is_constant() && sizes->back().constant() < 0)
      return c.fail("dim-mismatch", "a dim of " + whole.text() + " does not split in " + std::to_string(count));
  } else if (whole.is_constant()) {
    Expr total = 0;
    for (Expr s : *sizes) total = s.is_known() && total.is_known() ? total + s : Expr();
    if (total.is_constant() && total != whole)
      return c.fail("dim-mismatch", "the sizes add up to " + total.text() + ", the dim is " + whole.text());
  }
  for (size_t i = 0; i < count; ++i) {
    std::vector<Expr> dims = c.in(0)->dims;
    dims[*axis] = (*sizes)[i];
    c.output(i, c.dtype(0), std::move(dims));
  }
  // Values, for shape arithmetic on a vector.
  if (c.rank(0) != 1 || !c.values(0)) return;
  size_t from = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto n = (*sizes)[i].as_constant();
    if (!n || *n < 0 || from + static_cast<size_t>(*n) > c.values(0)->items.size()) return;
    const auto begin = c.values(0)->items.begin() + static_cast<ptrdiff_t>(from);
    c.output_values(i, {begin, begin + *n});
    from += static_cast<size_t>(*n);
  }
}

// ---- Slice

struct SliceAxis {
  Expr start, length;
  int64_t step = 1;
  bool taken = false;  // false: the whole dim
};

// start or end as counted from the front and clamped to [0, n] (step > 0) or [-1, n − 1].
Expr clamp_index(Expr at, Expr n, bool forward, bool is_end) {
  if (!at.is_known() || !n.is_known()) return {};
  const Expr low = forward ? Expr(0) : is_end ? Expr(-1) : Expr(0);
  const Expr high = forward ? n : n - 1;
  if (at.is_constant()) {
    const int64_t a = at.constant();
    if (a < 0) {
      // INT64_MIN and its like mean "before the first".
      if (a <= -(int64_t{1} << 31) + 1) return low;
      return max(low, n + a);
    }
    if (a >= (int64_t{1} << 31) - 1) return high;
    return min(at, high);
  }
  if (upper_bound(at) < 0) return max(low, n + at);
  // A start past the end is the file's fault; symbolic positions are taken as inside where that is sure.
  if (known_le(at, high) && lower_bound(at) >= 0) return at;
  return lower_bound(at) >= 0 ? min(at, high) : Expr();
}

std::optional<std::vector<SliceAxis>> slice_axes(const OpView& v, std::string& fault) {
  if (!v.ranked(0)) return std::nullopt;
  const size_t rank = v.rank(0);
  std::optional<std::vector<Expr>> starts, ends;
  std::optional<std::vector<int64_t>> axes, steps;
  if (v.opset() < 10) {
    auto expr_list = [&](const char* name) -> std::optional<std::vector<Expr>> {
      const auto list = v.integers(name);
      if (!list) return std::nullopt;
      std::vector<Expr> out;
      for (int64_t i : *list) out.push_back(std::clamp(i, -limits::dim, limits::dim));
      return out;
    };
    starts = expr_list("starts"), ends = expr_list("ends"), axes = v.integers("axes");
  } else {
    starts = v.exprs(1), ends = v.exprs(2);
    if (v.has(3) && !(axes = v.constants(3))) return std::nullopt;
    if (v.has(4) && !(steps = v.constants(4))) return std::nullopt;
  }
  std::vector<SliceAxis> out(rank);
  size_t count = 0;
  if (starts) count = starts->size();
  else if (ends) count = ends->size();
  else if (axes) count = axes->size();
  else if (v.opset() >= 10 && v.ranked(1) && v.rank(1) == 1 && v.dim(1, 0).is_constant()) count = static_cast<size_t>(std::min<int64_t>(v.dim(1, 0).constant(), 64));
  else return std::nullopt;
  if (!axes) {
    axes.emplace(count);
    std::iota(axes->begin(), axes->end(), 0);
  }
  if ((starts && starts->size() != count) || (ends && ends->size() != count) || axes->size() != count || (steps && steps->size() != count))
    return fault = "starts, ends, axes and steps differ in length", std::nullopt;
  for (size_t i = 0; i < count; ++i) {
    const int64_t a = (*axes)[i] < 0 ? (*axes)[i] + static_cast<int64_t>(rank) : (*axes)[i];
    if (a < 0 || a >= static_cast<int64_t>(rank)) return fault = "axis " + std::to_string((*axes)[i]) + " is outside of " + std::to_string(rank) + " dims", std::nullopt;
    SliceAxis& s = out[static_cast<size_t>(a)];
    const Expr n = v.dim(0, static_cast<size_t>(a));
    s.taken = true;
    s.step = steps ? (*steps)[i] : 1;
    if (s.step == 0) return fault = "a step is 0", std::nullopt;
    const bool forward = s.step > 0;
    s.start = starts ? clamp_index((*starts)[i], n, forward, false) : Expr();
    const Expr end = ends ? clamp_index((*ends)[i], n, forward, true) : Expr();
    if (!s.start.is_known() || !end.is_known()) {
      s.length = {};
      continue;
    }
    const Expr span = forward ? end - s.start : s.start - end;
    const int64_t magnitude = forward ? s.step : -std::max(s.step, -limits::dim);
    s.length = max(0, ceil_div(span, Expr(magnitude)));
  }
  return out;
}

void infer_slice(InferContext& c) {
  if (!c.need_inputs(c.opset() < 10 ? 1 : 3)) return;
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  std::string fault;
  const auto axes = slice_axes(c, fault);
  if (!fault.empty()) return c.fail("onnx-attribute", fault);
  std::vector<Expr> dims = c.in(0)->dims;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!axes) dims[d] = {};
    else if ((*axes)[d].taken) dims[d] = (*axes)[d].length;
  }
  c.output(0, c.dtype(0), std::move(dims));
}

Values slice_value(const OpView& v) {
  const auto* items = small_values(v, 0);
  std::string fault;
  const auto axes = items ? slice_axes(v, fault) : std::nullopt;
  const auto n = small_size(v.out(0));
  if (!axes || !n) return std::nullopt;
  const auto strides = row_strides(v.in(0)->dims);
  const auto& to = v.out(0)->dims;
  std::vector<Scalar> out;
  for (size_t flat = 0; flat < *n; ++flat) {
    size_t rest = flat;
    int64_t at = 0;
    for (size_t d = to.size(); d-- > 0;) {
      const auto size = static_cast<size_t>(to[d].constant());
      const auto index = static_cast<int64_t>(rest % size);
      rest /= size;
      const SliceAxis& s = (*axes)[d];
      if (s.taken && !s.start.is_constant()) return std::nullopt;
      at += strides[d] * (s.taken ? s.start.constant() + index * s.step : index);
    }
    if (at < 0 || at >= static_cast<int64_t>(items->size())) return std::nullopt;
    out.push_back((*items)[static_cast<size_t>(at)]);
  }
  return out;
}

// Only what is taken moves.
void slice_work(const OpView& v, Work& w) {
  for (Expr& r : w.reads) r = 0;
  w.reads[0] = v.output_bytes(0);
}

// ---- Pad

std::optional<std::vector<std::pair<Expr, Expr>>> pad_widths(const OpView& v, std::string& fault) {
  if (!v.ranked(0)) return std::nullopt;
  const size_t rank = v.rank(0);
  std::optional<std::vector<Expr>> pads;
  if (!v.has(1)) {
    auto list = v.integers(v.opset() < 2 ? "paddings" : "pads");
    if (list) pads.emplace(list->begin(), list->end());
  } else {
    pads = v.exprs(1);
  }
  if (!pads) return std::nullopt;
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (v.has(3)) {
    const auto given = v.constants(3);
    if (!given) return std::nullopt;
    axes = *given;
  }
  if (pads->size() != 2 * axes.size()) return fault = std::to_string(pads->size()) + " pads for " + std::to_string(axes.size()) + " dims", std::nullopt;
  std::vector<std::pair<Expr, Expr>> out(rank, {0, 0});
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t a = axes[i] < 0 ? axes[i] + static_cast<int64_t>(rank) : axes[i];
    if (a < 0 || a >= static_cast<int64_t>(rank)) return fault = "an axis is outside of " + std::to_string(rank) + " dims", std::nullopt;
    out[static_cast<size_t>(a)] = {(*pads)[i], (*pads)[i + axes.size()]};
  }
  return out;
}

void infer_pad(InferContext& c) {
  if (!c.need_inputs(1)) return;
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  std::string fault;
  const auto widths = pad_widths(c, fault);
  if (!fault.empty()) return c.fail("onnx-attribute", fault);
  std::vector<Expr> dims = c.in(0)->dims;
  for (size_t d = 0; d < dims.size(); ++d)
    dims[d] = widths && (*widths)[d].first.is_known() && (*widths)[d].second.is_known() ? dims[d] + (*widths)[d].first + (*widths)[d].second : Expr();
  c.output(0, c.dtype(0), std::move(dims));
}

Values pad_value(const OpView& v) {
  const auto* items = small_values(v, 0);
  std::string fault;
  const auto widths = items && v.rank(0) == 1 && v.string("mode", "constant") == "constant" ? pad_widths(v, fault) : std::nullopt;
  const auto n = small_size(v.out(0));
  if (!widths || !n || !(*widths)[0].first.is_constant()) return std::nullopt;
  Scalar fill = Scalar::integer(0);
  if (v.has(2)) {
    if (!v.values(2) || v.values(2)->items.size() != 1) return std::nullopt;
    fill = v.values(2)->items[0];
  }
  std::vector<Scalar> out;
  const int64_t before = (*widths)[0].first.constant();
  for (int64_t i = 0; i < static_cast<int64_t>(*n); ++i) {
    const int64_t at = i - before;
    out.push_back(at >= 0 && at < static_cast<int64_t>(items->size()) ? (*items)[static_cast<size_t>(at)] : fill);
  }
  return out;
}

// ---- Tile, DepthToSpace and others

void infer_tile(InferContext& c) {
  if (!c.need_inputs(2)) return;
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  std::vector<Expr> dims = c.in(0)->dims;
  if (c.opset() < 6) {
    // tiles and axis are scalars.
    const auto tiles = c.exprs(1), at = c.exprs(2);
    const auto axis = at && at->size() == 1 ? (*at)[0].as_constant() : std::nullopt;
    for (size_t d = 0; d < dims.size(); ++d)
      if (!axis) dims[d] = {};
      else if (static_cast<int64_t>(d) == *axis) dims[d] = tiles && tiles->size() == 1 && (*tiles)[0].is_known() ? dims[d] * (*tiles)[0] : Expr();
    return c.output(0, c.dtype(0), std::move(dims));
  }
  const auto repeats = c.exprs(1);
  if (repeats && repeats->size() != dims.size())
    return c.fail("rank-mismatch", std::to_string(repeats->size()) + " repeats for " + std::to_string(dims.size()) + " dims");
  for (size_t d = 0; d < dims.size(); ++d) dims[d] = repeats && (*repeats)[d].is_known() ? dims[d] * (*repeats)[d] : Expr();
  c.output(0, c.dtype(0), std::move(dims));
}
Values tile_value(const OpView& v) {
  const auto* items = small_values(v, 0);
  const auto n = small_size(v.out(0));
  if (!items || !n || v.rank(0) != 1 || items->empty()) return std::nullopt;
  std::vector<Scalar> out;
  for (size_t i = 0; i < *n; ++i) out.push_back((*items)[i % items->size()]);
  return out;
}

void infer_blocks(InferContext& c, bool to_space) {
  if (!c.need_inputs(1) || !c.need_rank(0, 4, 4)) return;
  const Expr b = c.integer("blocksize", 0);
  if (b.constant() < 1) return c.fail("onnx-attribute", "blocksize must be 1 or more");
  std::vector<Expr> d = c.in(0)->dims;
  if (to_space) d = {d[0], floor_div(d[1], b * b), d[2] * b, d[3] * b};
  else d = {d[0], d[1] * b * b, floor_div(d[2], b), floor_div(d[3], b)};
  c.output(0, c.dtype(0), std::move(d));
}

void infer_center_crop_pad(InferContext& c) {
  if (!c.need_inputs(2)) return;
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  std::vector<Expr> dims = c.in(0)->dims;
  std::vector<int64_t> axes(dims.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (const auto given = c.integers("axes")) axes = *given;
  const auto at = normalize_axes(c, axes, dims.size());
  const auto target = c.exprs(1);
  if (!at) return;
  if (target && target->size() != at->size()) return c.fail("rank-mismatch", "shape and axes differ in length");
  for (size_t i = 0; i < at->size(); ++i) dims[(*at)[i]] = target ? (*target)[i] : Expr();
  c.output(0, c.dtype(0), std::move(dims));
}
void infer_reverse_sequence(InferContext& c) {
  if (!c.need_inputs(2) || (c.ranked(0) && !c.need_rank(0, 2))) return;
  c.output(0, c.in(0));
}

// Col2Im sums blocks into the image that they were cut from: N, C·∏block, L → N, C, image.
void infer_col2im(InferContext& c) {
  if (!c.need_inputs(3) || !c.need_rank(0, 3, 3)) return;
  const auto image = c.exprs(1), block = c.exprs(2);
  if (!image) return c.output_unranked(0, c.dtype(0));
  std::vector<Expr> dims{c.dim(0, 0), block ? floor_div(c.dim(0, 1), product(*block)) : Expr()};
  dims.insert(dims.end(), image->begin(), image->end());
  c.output(0, c.dtype(0), std::move(dims));
}

// Dims that all data operands share pass; along any other dim the operands run whole.
AccessResult aligned_access(const OpView& v, size_t data_inputs) {
  if (!v.ranked(0)) return {};
  const size_t rank = v.rank(0);
  std::vector<Type> data;
  for (size_t i = 0; i < std::min(v.input_count(), data_inputs); ++i)
    if (v.has(i)) data.push_back(v.in(i));
  for (size_t i = 0; i < v.output_count(); ++i)
    if (v.wants(i)) data.push_back(v.out(i));
  for (Type t : data)
    if (!t || !t->is_tensor() || !t->ranked || t->dims.size() != rank) return {};
  AccessBuilder b;
  std::vector<std::optional<uint8_t>> shared(rank);
  for (size_t d = 0; d < rank; ++d) {
    const Expr size = v.dim(0, d);
    if (size.is_known() && std::all_of(data.begin(), data.end(), [&](Type t) { return t->dims[d] == size; }))
      shared[d] = b.factor("d" + std::to_string(d), size);
  }
  auto map = [&](Type t) {
    OperandMap m;
    for (size_t d = 0; d < rank; ++d) {
      const uint8_t f = shared[d] ? *shared[d] : b.factor("w" + std::to_string(d), t->dims[d], Role::whole);
      m.dims.push_back({DimMap::Kind::product, {f}});
    }
    return m;
  };
  if ((data.size() + 1) * rank > UINT8_MAX) return {};  // factors are numbered by a byte
  for (size_t i = 0; i < v.input_count(); ++i) {
    OperandMap m;
    if (i < data_inputs && v.has(i)) m = map(v.in(i));
    else m.outside = true;
    b.input() = std::move(m);
  }
  for (size_t i = 0; i < v.output_count(); ++i) {
    OperandMap m;
    if (v.wants(i)) m = map(v.out(i));
    else m.outside = true;
    b.output() = std::move(m);
  }
  return {b.take(), {}, {}};
}
AccessResult all_aligned(const OpView& v) { return aligned_access(v, SIZE_MAX); }
AccessResult first_aligned(const OpView& v) { return aligned_access(v, 1); }
// Equal parts: the axis is (part d), an output has d.
AccessResult split_access(const OpView& v) {
  if (!v.ranked(0)) return {};
  const int64_t rank = static_cast<int64_t>(v.rank(0)), given = v.integer("axis", 0);
  const int64_t axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis >= rank) return {};
  const auto at = static_cast<size_t>(axis);
  const auto count = static_cast<int64_t>(v.output_count());
  for (size_t i = 0; i < v.output_count(); ++i)
    if (!v.out(i) || !v.out(i)->is_tensor() || v.out(i)->dims.size() != v.rank(0) ||
        v.out(i)->dims[at] * count != v.dim(0, at))
      return first_aligned(v);
  AccessBuilder b;
  OperandMap from, to;
  const uint8_t part = b.factor("part", count, Role::whole);
  for (size_t d = 0; d < v.rank(0); ++d) {
    const uint8_t f = b.factor("d" + std::to_string(d), d == at ? v.out(0)->dims[at] : v.dim(0, d));
    to.dims.push_back({DimMap::Kind::product, {f}});
    from.dims.push_back({DimMap::Kind::product, d == at ? std::vector<uint8_t>{part, f} : std::vector<uint8_t>{f}});
  }
  b.input() = std::move(from);
  for (size_t i = 1; i < v.input_count(); ++i) b.input().outside = true;
  for (size_t i = 0; i < v.output_count(); ++i) {
    b.output() = to;
    if (!v.wants(i)) b.output().outside = true;
  }
  return {b.take(), {}, {}};
}
// A step of −1 turns a dim around, so equal lengths are not equal places.
AccessResult slice_access(const OpView& v) {
  std::string fault;
  const auto axes = slice_axes(v, fault);
  if (!axes || std::any_of(axes->begin(), axes->end(), [](const SliceAxis& a) { return a.step < 0; })) return {};
  return first_aligned(v);
}
constexpr std::string_view aligned = "(dims that are not touched pass, the others run whole)";

// Shapes and positions beside the data are not counted.
void reads_data_only(const OpView&, Work& w) {
  for (size_t i = 1; i < w.reads.size(); ++i) w.reads[i] = 0;
}
// A part that is cut out of a larger input: no more than is written, nor than there is.
void cropped(const OpView& v, Work& w) {
  reads_data_only(v, w);
  w.reads[0] = min(v.bytes(0), v.output_bytes(0));
}

constexpr OpInfo table[] = {
    {.name = "Transpose", .since = 1, .kind = Kind::movement, .access = "(dims permuted)", .access_rule = transpose_access,
     .value = transpose_value, .formula = "0; if only dims of one move it is a view"},
    {.name = "Concat", .since = 1, .kind = Kind::movement, .access = aligned, .access_rule = all_aligned, .infer = infer_concat, .value = concat_value},
    {.name = "Split", .since = 1, .kind = Kind::movement, .access = "d.. (part a) e.. -> d.. a e.., …", .access_rule = split_access, .infer = infer_split,
     .work = [](const OpView& v, Work& w) { reads_data_only(v, w); }},
    {.name = "Slice", .since = 1, .kind = Kind::movement, .access = aligned, .access_rule = slice_access, .infer = infer_slice, .value = slice_value, .work = slice_work,
     .formula = "0; bytes twice what is taken"},
    {.name = "Pad", .since = 1, .kind = Kind::movement, .access = aligned, .access_rule = first_aligned, .infer = infer_pad, .value = pad_value, .work = cropped},
    {.name = "Tile", .since = 1, .kind = Kind::movement, .access = aligned, .access_rule = first_aligned, .infer = infer_tile, .value = tile_value, .work = reads_data_only},
    {.name = "DepthToSpace", .since = 1, .kind = Kind::movement, .infer = [](InferContext& c) { infer_blocks(c, true); }},
    {.name = "SpaceToDepth", .since = 1, .kind = Kind::movement, .infer = [](InferContext& c) { infer_blocks(c, false); }},
    {.name = "Trilu", .since = 14, .kind = Kind::pointwise, .access = "b.. -> b..", .infer = same_as_first, .work = reads_data_only},
    {.name = "CenterCropPad", .since = 18, .kind = Kind::movement, .infer = infer_center_crop_pad, .work = cropped},
    {.name = "ReverseSequence", .since = 10, .kind = Kind::movement, .infer = infer_reverse_sequence},
    {.name = "Col2Im", .since = 18, .kind = Kind::movement, .infer = infer_col2im,
     .work = [](const OpView& v, Work& w) {
       reads_data_only(v, w);
       if (v.in(0)) w.vector_flops = v.in(0)->elements();
     }, .formula = "one addition per input element"},
    {.domain = "com.microsoft", .name = "ExpandDims", .since = 1, .kind = Kind::view,
     .infer = [](InferContext& c) {
       if (!c.need_inputs(2)) return;
       const auto at = c.constants(1);
       if (!c.ranked(0) || !at || at->size() != 1) return c.output_unranked(0, c.dtype(0));
       std::vector<Expr> dims = c.in(0)->dims;
       const auto axis = c.axis((*at)[0], dims.size() + 1);
       if (!axis) return;
       dims.insert(dims.begin() + static_cast<ptrdiff_t>(*axis), 1);
       c.output(0, c.dtype(0), std::move(dims));
     }, .value = pass_value},
    {.domain = "com.microsoft", .name = "Trilu", .since = 1, .kind = Kind::pointwise, .access = "b.. -> b..", .infer = same_as_first, .work = reads_data_only},
    {.domain = "com.microsoft", .name = "Pad", .since = 1, .kind = Kind::movement, .infer = infer_pad, .work = reads_data_only},
};

}  // namespace

OpFamily movement_ops() { return table; }

}  // namespace roofcast
