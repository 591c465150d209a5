// Normalizations, each one kernel: the data crosses memory once in and once out.
//
// A line of n elements takes, for the mean: n − 1 additions and a division; for the variance: n
// subtractions, n squares, n − 1 additions and a division. Then per line: add ε, root, reciprocal;
// per element: products with 1/σ and with the scale, and an addition of the bias. Where a line has
// one scale, scale/σ is formed once a line, which saves a product per element.
#include "ops/op_table.h"
#include "ops/rules.h"
#include "ops/scalar_costs.h"

#include <algorithm>

namespace roofcast {
namespace {

namespace sc = scalar_cost;

DimMap one(uint8_t factor) { return {DimMap::Kind::product, {factor}}; }

AccessResult wrong_axis(size_t rank) {
  return {{}, "axis is outside of " + std::to_string(rank) + " dims", "onnx-attribute"};
}

// `count` times ", operand": of optional outputs that follow the first.
std::string more(size_t count, const std::string& operand) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += ", " + operand;
  return out;
}

// Lines along the dims for which `in_line` holds; other operands lie outside the loops.
template <class F> AccessResult lines_along(const OpView& v, F&& in_line) {
  AccessBuilder b;
  OperandMap map;
  for (size_t d = 0; d < v.rank(0); ++d) {
    const Role role = in_line(d) ? Role::online : Role::pass;
    const std::string name = (role == Role::online ? "s" : "b") + std::to_string(d);
    map.dims.push_back(one(b.factor(name, v.dim(0, d), role)));
  }
  b.input() = map;
  for (size_t i = 1; i < v.input_count(); ++i) b.input().outside = true;
  b.output() = std::move(map);
  return {b.take(), {}, {}};
}

void same_as_first_checked(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const AccessResult r = access_of(c);
  if (!r.fault.empty()) return c.fail(r.code, r.fault, "is the layout another? check --shape");
  c.output(0, c.in(0));
}

// ---- LayerNormalization: all dims from the axis make one line; scale and bias broadcast to it.

std::optional<size_t> layer_axis(const OpView& v) {
  const int64_t rank = static_cast<int64_t>(v.rank(0)), axis = v.integer("axis", -1);
  if (axis < -rank || axis >= rank) return std::nullopt;
  return static_cast<size_t>(axis < 0 ? axis + rank : axis);
}

AccessResult layer_access(const OpView& v) {
  if (!v.ranked(0)) return {};
  const auto axis = layer_axis(v);
  if (!axis) return wrong_axis(v.rank(0));
  std::string data, stats, pattern;
  std::vector<std::string> names;
  for (size_t d = 0; d < v.rank(0); ++d) {
    names.push_back((d < *axis ? "b" : "d") + std::to_string(d));
    data += names[d] + (d < *axis ? " " : "~ ");
    stats += (d < *axis ? names[d] : "1") + " ";
  }
  pattern = data;
  for (size_t i = 1; i < v.input_count(); ++i) {
    pattern += ", ";
    if (!v.ranked(i) || v.rank(i) > v.rank(0)) pattern += ".";
    else
      for (size_t d = v.rank(0) - v.rank(i); d < v.rank(0); ++d) pattern += names[d] + "? ";
  }
  const size_t extra = std::max<size_t>(v.output_count(), 1) - 1;
  return bind_notation(v, pattern + " -> " + data + more(extra, stats));
}

// Outputs: the data, then mean and 1/σ of each line, in float32 unless stash_type says otherwise.
void infer_layer(InferContext& c) {
  if (!c.need_inputs(1) || c.output_count() == 0) return;
  const AccessResult r = layer_access(c);
  if (!r.fault.empty()) return c.fail(r.code, r.fault, "check --shape");
  // The forms without a mean give the scale's type.
  const bool mean = c.op_name() == "LayerNormalization";
  const DType out = !mean && c.in(1) ? c.dtype(1) : c.dtype(0);
  const DType stash = static_cast<DType>(std::clamp<int64_t>(c.integer("stash_type", 1), 0, 26));
  for (size_t i = 0; i < c.output_count(); ++i) {
    const DType dtype = i == 0 ? out : stash;
    if (i >= r.access.outputs.size()) c.output_unranked(i, dtype);
    else c.output(i, dtype, dims_of(r.access, r.access.outputs[i]));
  }
}

// Each of these operands adds one operation per element.
template <size_t... Inputs> void with_optional(const OpView& v, Work& w) {
  if (!w.access.empty()) w.vector_flops += w.access.points() * ((v.has(Inputs) ? 1 : 0) + ... + 0);
}

// ---- BatchNormalization: with known statistics a = scale / √(σ² + ε) and b = bias − mean · a are
// formed per channel, and an element takes a product and an addition. Training takes them from the
// batch, as lines of one channel, and moves the running ones: two products and an addition each.

bool trains(const OpView& v) {
  if (v.opset() >= 14) return v.integer("training_mode", 0) != 0;
  return v.output_count() > 1 && v.integer("is_test", 0) == 0;
}

AccessResult batch_access(const OpView& v) {
  if (!v.ranked(0)) return {};
  const std::string lines = trains(v) ? "~" : "";
  std::string data = "n" + lines + " c d.." + lines, channel = "c";
  if (v.rank(0) == 1) data = "n" + lines, channel = "1";
  if (v.opset() < 9 && v.integer("spatial", 1) == 0) data = "n" + lines + " c..", channel = "c..";
  const size_t extra = std::max<size_t>(v.output_count(), 1) - 1;
  return bind_notation(v, data + more(4, channel) + " -> " + data + more(extra, channel));
}

void infer_batch(InferContext& c) {
  if (!c.need_inputs(5)) return;
  same_as_first_checked(c);
  for (size_t i = 1; i < c.output_count(); ++i)
    if (c.in(3)) c.output(i, c.in(3));
}

void batch_work(const OpView& v, Work& w) {
  if (!v.in(0) || !v.in(1)) return;
  const Expr n = v.in(0)->elements(), channels = v.in(1)->elements();
  w.vector_flops = trains(v) ? n * 6 + channels * 9 : n * 2 + channels * 5;
}

// ---- GroupNormalization: lines of a group of channels and all places.

AccessResult group_access(const OpView& v, int64_t groups, bool channels_last,
                          bool scale_by_group) {
  if (!v.ranked(0)) return {};
  if (v.rank(0) < 2)
    return {{}, "the data has " + std::to_string(v.rank(0)) + " dims, at least 2 are needed",
            "rank-mismatch"};
  if (groups < 1) return {{}, "the number of groups must be 1 or more", "onnx-attribute"};
  const Expr channels = v.dim(0, channels_last ? v.rank(0) - 1 : 1);
  if (channels.is_constant() && channels.constant() % groups != 0)
    return {{}, channels.text() + " channels do not divide by " + std::to_string(groups) +
                    " groups", "dim-mismatch"};
  AccessBuilder b;
  const uint8_t n = b.factor("n", v.dim(0, 0)), g = b.factor("g", groups);
  const uint8_t c = b.factor("c", floor_div(channels, groups), Role::online);
  const DimMap both{DimMap::Kind::product, {g, c}};
  OperandMap data, scale;
  data.dims.push_back(one(n));
  if (!channels_last) data.dims.push_back(both);
  for (size_t d = channels_last ? 1 : 2; d + (channels_last ? 1 : 0) < v.rank(0); ++d)
    data.dims.push_back(one(b.factor("d" + std::to_string(d), v.dim(0, d), Role::online)));
  if (channels_last) data.dims.push_back(both);
  scale.dims.push_back(scale_by_group ? one(g) : both);
  for (size_t i = 0; i < v.input_count(); ++i) {
    if (i == 0 || (i == 3 && v.ranked(3) && v.rank(3) == v.rank(0))) b.input() = data;
    else if (v.ranked(i) && v.rank(i) == 1) b.input() = scale;
    else b.input().outside = true;
  }
  for (size_t i = 0; i < v.output_count(); ++i) b.output() = data;
  return {b.take(), {}, {}};
}

// Before opset 21 scale and bias were by group.
AccessResult onnx_group_access(const OpView& v) {
  return group_access(v, v.integer("num_groups", 1), false, v.opset() < 21);
}
AccessResult contrib_group_access(const OpView& v) {
  return group_access(v, v.integer("groups", 1), v.integer("channels_last", 1) != 0, false);
}

void infer_contrib_group(InferContext& c) {
  same_as_first_checked(c);
  c.output(1, c.in(0));
}

void contrib_group_work(const OpView& v, Work& w) {
  if (v.integer("activation", 0) == 1) w.vector_flops += w.access.points() * sc::silu;
}
void skip_group_work(const OpView& v, Work& w) {
  contrib_group_work(v, w);
  with_optional<3, 4>(v, w);
}

// ---- LpNormalization, MeanVarianceNormalization, LRN.

AccessResult lp_access(const OpView& v) {
  if (!v.ranked(0)) return {};
  const auto axis = layer_axis(v);
  if (!axis) return wrong_axis(v.rank(0));
  return lines_along(v, [&](size_t d) { return d == *axis; });
}
void lp_work(const OpView& v, Work& w) {
  if (!v.in(0) || w.access.empty()) return;
  w.vector_flops = w.access.points() * 3;
  if (v.integer("p", 2) != 1) return;
  // Without squares there is no root at a line's end to make up for the one addition less.
  Expr lines = 1;
  for (const Factor& f : w.access.factors)
    if (f.role == Role::pass) lines *= f.size;
  w.vector_flops = w.vector_flops - lines;
}

AccessResult mean_variance_access(const OpView& v) {
  if (!v.ranked(0)) return {};
  const auto axes = v.integers("axes").value_or(std::vector<int64_t>{0, 2, 3});
  const int64_t rank = static_cast<int64_t>(v.rank(0));
  for (int64_t a : axes)
    if (a < -rank || a >= rank) return wrong_axis(v.rank(0));
  return lines_along(v, [&](size_t d) {
    const int64_t at = static_cast<int64_t>(d);
    return std::any_of(axes.begin(), axes.end(),
                       [&](int64_t a) { return a == at || a + rank == at; });
  });
}

AccessResult lrn_access(const OpView& v) {
  if (!v.ranked(0)) return {};
  if (v.rank(0) < 2) return {{}, "needs a batch and a channel dim", "rank-mismatch"};
  AccessBuilder b;
  OperandMap in, out;
  for (size_t d = 0; d < v.rank(0); ++d) {
    const std::string name = d == 0 ? "n" : d == 1 ? "c" : "d" + std::to_string(d);
    const uint8_t own = b.factor(name, v.dim(0, d));
    out.dims.push_back(one(own)), in.dims.push_back(one(own));
  }
  in.dims[1] = {DimMap::Kind::window, {1, b.factor("r", v.integer("size", 1), Role::window)}};
  b.input() = std::move(in);
  b.output() = std::move(out);
  return {b.take(), {}, {}};
}
// An element's square is taken once; then size − 1 additions, α/size, bias, power, division.
void lrn_work(const OpView& v, Work& w) {
  if (v.in(0)) w.vector_flops = v.in(0)->elements() * (Expr(v.integer("size", 1)) + 4);
}

// ---- com.microsoft: residual sums before the norm. Outputs: data, mean, 1/σ, the sum.

void infer_skip(InferContext& c) {
  if (!c.need_inputs(3)) return;
  const AccessResult r = access_of(c);
  if (!r.fault.empty()) return c.fail(r.code, r.fault, "check --shape");
  c.output(0, c.in(0)), c.output(3, c.in(0));
  for (size_t i = 1; i < 3; ++i) {
    if (i >= r.access.outputs.size()) c.output_unranked(i, DType::float32);
    else c.output(i, DType::float32, dims_of(r.access, r.access.outputs[i]));
  }
}

// Rows of two or three tables are added, then normalized; rows are read, not tables.
void infer_embed(InferContext& c) {
  if (!c.need_inputs(1)) return;
  if (!c.has(2) || !c.has(3)) return c.fail("onnx-missing-input", "needs word and position tables");
  const AccessResult r = access_of(c);
  if (!r.fault.empty()) return c.fail(r.code, r.fault, "check --shape");
  for (size_t i = 0; i < c.output_count(); ++i) {
    const DType dtype = i == 1 ? DType::int32 : c.dtype(2);
    if (i >= r.access.outputs.size()) c.output_unranked(i, dtype);
    else c.output(i, dtype, dims_of(r.access, r.access.outputs[i]));
  }
}
void embed_work(const OpView& v, Work& w) {
  if (!v.out(0) || !v.ranked(0) || v.rank(0) != 2 || !v.ranked(3) || v.rank(3) != 2) return;
  const Expr rows = v.output_bytes(0);
  read_bytes(v, w, 2, rows);
  read_bytes(v, w, 3, v.has(8) ? min(v.bytes(3), rows)
                               : storage_bytes(v.dtype(3), v.dim(0, 1) * v.dim(3, 1)));
  read_bytes(v, w, 4, min(v.bytes(4), rows));
  with_optional<4, 6>(v, w);
  if (v.has(7)) w.vector_flops += v.in(7) ? v.in(7)->elements() : Expr();  // the mask's length
}

// Lines of as many elements as the scale has: a head's, on packed heads.
AccessResult gated_access(const OpView& v) {
  if (!v.ranked(0) || !v.ranked(1)) return {};
  if (v.rank(0) == 0 || v.rank(1) != 1)
    return {{}, "the scale must have one dim and the data at least one", "rank-mismatch"};
  std::string data;
  for (size_t d = 0; d + 1 < v.rank(0); ++d) data += "b" + std::to_string(d) + " ";
  data += "(h d)";
  return bind_notation(v, data + ", d~, " + data + " -> " + data);
}
void gated_work(const OpView& v, Work& w) {
  const int gate = v.string("activation", "silu") == "sigmoid" ? sc::sigmoid : sc::silu;
  w.vector_flops += w.access.points() * (1 + gate);
}

#define LAYER(op_domain, op_name)                                                                 \
  {.domain = op_domain, .name = op_name, .kind = Kind::normalization,                             \
   .access = "b.. d~, d, d -> b.. d~, b.. 1, b.. 1", .access_rule = layer_access,                 \
   .infer = infer_layer, .work = with_optional<2>,                                                \
   .cost = {.vector_per_point = 6, .vector_per_line = 3},                                         \
   .formula = "6*n + 3*lines; n more with a bias"}
#define RMS(op_domain, op_name, version)                                                          \
  {.domain = op_domain, .name = op_name, .since = version, .kind = Kind::normalization,           \
   .access = "b.. d~, d -> b.. d~, b.. 1", .access_rule = layer_access, .infer = infer_layer,     \
   .cost = {.vector_per_point = 4, .vector_per_line = 3}, .formula = "4*n + 3*lines"}
#define MICROSOFT(op_name) \
  .domain = "com.microsoft", .name = op_name, .kind = Kind::normalization

constexpr OpInfo table[] = {
    LAYER("", "LayerNormalization"),
    RMS("", "RMSNormalization", 23),
    RMS("", "SimplifiedLayerNormalization", 1),
    {.name = "BatchNormalization", .kind = Kind::normalization,
     .access = "n c d.., c, c, c, c -> n c d..", .access_rule = batch_access,
     .infer = infer_batch, .work = batch_work, .formula = "2*n + 5*C; training: 6*n + 9*C"},
    {.name = "InstanceNormalization", .kind = Kind::normalization,
     .access = "n c d..~, c, c -> n c d..~", .infer = same_as_first_checked,
     .cost = {.vector_per_point = 6, .vector_per_line = 3}, .formula = "6*n + 3*lines"},
    {.name = "GroupNormalization", .since = 18, .kind = Kind::normalization,
     .access = "n (g c) d..~, g, g -> n (g c) d..~", .access_rule = onnx_group_access,
     .infer = same_as_first_checked, .cost = {.vector_per_point = 6, .vector_per_line = 3},
     .formula = "6*n + 3*lines"},
    {.name = "GroupNormalization", .since = 21, .kind = Kind::normalization,
     .access = "n (g c) d..~, (g c), (g c) -> n (g c) d..~", .access_rule = onnx_group_access,
     .infer = same_as_first_checked, .cost = {.vector_per_point = 7, .vector_per_line = 3},
     .formula = "7*n + 3*lines"},
    {.name = "LpNormalization", .kind = Kind::normalization, .access = "b.. s~ -> b.. s~",
     .access_rule = lp_access, .infer = same_as_first_checked, .work = lp_work,
     .formula = "3*n; p=1: 3*n - lines"},
    {.name = "MeanVarianceNormalization", .kind = Kind::normalization,
     .access = "s~ b s..~ -> s~ b s..~", .access_rule = mean_variance_access,
     .infer = same_as_first_checked, .cost = {.vector_per_point = 5, .vector_per_line = 2},
     .formula = "5*n + 2*lines"},
    {.name = "LRN", .kind = Kind::normalization, .access = "n c+r d.. -> n c d..",
     .access_rule = lrn_access, .infer = same_as_first_checked, .work = lrn_work,
     .formula = "(size + 4)*n"},

    LAYER("com.microsoft", "LayerNormalization"),
    RMS("com.microsoft", "SimplifiedLayerNormalization", 1),
    {MICROSOFT("SkipLayerNormalization"),
     .access = "b.. d~, b.. d, d, d, d -> b.. d~, b.. 1, b.. 1, b.. d", .infer = infer_skip,
     .work = with_optional<3, 4>, .cost = {.vector_per_point = 7, .vector_per_line = 3},
     .formula = "7*n + 3*lines; n more for each of beta and bias"},
    {MICROSOFT("SkipSimplifiedLayerNormalization"),
     .access = "b.. d~, b.. d, d, d -> b.. d~, b.. 1, b.. 1, b.. d", .infer = infer_skip,
     .work = with_optional<3>, .cost = {.vector_per_point = 5, .vector_per_line = 3},
     .formula = "5*n + 3*lines; n more with a bias"},
    {MICROSOFT("EmbedLayerNormalization"),
     .access = "b s, b s, @v d, @p d, @t d, d, d, b s, b? s -> b s d~, b, b s d",
     .infer = infer_embed, .work = embed_work,
     .cost = {.vector_per_point = 7, .vector_per_line = 3},
     .formula = "7*n + 3*lines; n more for each of segments and beta, 1 per element of the mask"},
    {MICROSOFT("GatedRMSNorm"), .access = "b.. (h d), d~, b.. (h d) -> b.. (h d)",
     .access_rule = gated_access, .infer = same_as_first_checked, .work = gated_work,
     .cost = {.vector_per_point = 4, .vector_per_line = 3},
     .formula = "4*n + 3*lines; the gate 6*n with silu, 5*n with sigmoid"},
    {MICROSOFT("GroupNorm"), .access = "n d..~ (g c), (g c), (g c) -> n d..~ (g c)",
     .access_rule = contrib_group_access, .infer = same_as_first_checked,
     .work = contrib_group_work, .cost = {.vector_per_point = 7, .vector_per_line = 3},
     .formula = "7*n + 3*lines; silu 5*n"},
    {MICROSOFT("SkipGroupNorm"),
     .access = "n d..~ (g c), (g c), (g c), n d.. (g c), (g c) -> n d..~ (g c), n d.. (g c)",
     .access_rule = contrib_group_access, .infer = infer_contrib_group, .work = skip_group_work,
     .cost = {.vector_per_point = 7, .vector_per_line = 3},
     .formula = "8*n + 3*lines; bias n, silu 5*n"},
};

}  // namespace

OpFamily normalization_ops() { return table; }

}  // namespace roofcast
