// Normalizations, each one kernel: the data crosses memory once in and once out.
//
// A line of n elements takes, for the mean: n − 1 additions and a division; for the variance: n
// subtractions, n squares, n − 1 additions, a division; then ε, root and reciprocal, and per element a
// product with each of 1/σ and the scale, and an addition of the bias.
#include "ops/op_table.h"
#include "ops/rules.h"

#include <algorithm>

namespace roofcast {
namespace {

// All dims from the axis make one line; scale and bias have the line's dims.
AccessResult layer_access(const OpView& v) {
  if (!v.ranked(0)) return {};
  const int64_t rank = static_cast<int64_t>(v.rank(0));
  int64_t axis = v.integer("axis", -1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return {{}, "axis is outside of " + std::to_string(rank) + " dims", "rank-mismatch"};
  AccessBuilder b;
  OperandMap data, line;
  for (int64_t d = 0; d < rank; ++d) {
    const bool in_line = d >= axis;
    const DimMap own{DimMap::Kind::product, {b.factor((in_line ? "d" : "b") + std::to_string(d), v.dim(0, static_cast<size_t>(d)), in_line ? Role::online : Role::pass)}};
    data.dims.push_back(own);
    if (in_line) line.dims.push_back(own);
  }
  b.input() = data;
  for (size_t i = 1; i < v.input_count(); ++i) {
    if (v.ranked(i) && v.rank(i) == line.dims.size()) b.input() = line;
    else b.input().outside = true;
  }
  b.output() = std::move(data);
  return {b.take(), {}, {}};
}

std::vector<Expr> line_stats(const OpView& v, int64_t axis) {
  std::vector<Expr> dims = v.in(0)->dims;
  if (axis < 0) axis += static_cast<int64_t>(dims.size());
  for (size_t d = static_cast<size_t>(std::max<int64_t>(0, axis)); d < dims.size(); ++d) dims[d] = 1;
  return dims;
}

// Outputs: the data, then mean and 1/σ of each line, in float32 unless stash_type says otherwise.
void infer_layer(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const AccessResult r = layer_access(c);
  if (!r.fault.empty()) return c.fail(r.code, r.fault);
  const DType scale = c.op_name() == "SimplifiedLayerNormalization" && c.in(1) ? c.dtype(1) : c.dtype(0);
  if (!c.ranked(0)) return c.output_unranked(0, scale);
  c.output(0, scale, c.in(0)->dims);
  const DType stash = static_cast<DType>(c.integer("stash_type", 1) % dtype_count);
  for (size_t i = 1; i < c.output_count(); ++i)
    if (c.wants(i)) c.output(i, stash, line_stats(c, c.integer("axis", -1)));
}

void layer_work(const OpView& v, Work& w) {
  if (v.has(2) && v.in(0)) w.vector_flops += v.in(0)->elements();  // bias
}

// Per element: subtract, multiply, add; per channel: ε, root, divide. Training also takes the batch's
// mean and variance and updates the running ones.
void infer_batch(InferContext& c) {
  if (!c.need_inputs(5)) return;
  if (c.ranked(0) && c.rank(0) >= 2 && c.ranked(1) && c.rank(1) == 1 && c.dim(0, 1).is_constant() && c.dim(1, 0).is_constant() && c.dim(0, 1) != c.dim(1, 0))
    return c.fail("dim-mismatch", "the data has " + c.dim(0, 1).text() + " channels, the scale " + c.dim(1, 0).text(), "is the input NHWC?");
  c.output(0, c.in(0));
  for (size_t i = 1; i < c.output_count(); ++i)
    if (c.wants(i) && c.in(3)) c.output(i, c.in(3));
}
void batch_work(const OpView& v, Work& w) {
  if (!v.in(0) || !v.in(1)) return;
  const Expr n = v.in(0)->elements(), channels = v.in(1)->elements();
  const bool training = v.integer("training_mode", 0) != 0 || (v.opset() < 7 && v.integer("is_test", 0) == 0 && v.output_count() > 1);
  w.vector_flops = n * 3 + channels * 3;
  if (training) w.vector_flops += n * 4 + channels * 6;
}

// n c d..: one line per sample and channel.
AccessResult instance_access(const OpView& v) {
  if (!v.ranked(0)) return {};
  if (v.rank(0) < 2) return {{}, "needs at least 2 dims", "rank-mismatch"};
  std::string pattern = "n c", line;
  for (size_t d = 2; d < v.rank(0); ++d) line += " s" + std::to_string(d) + "~";
  return bind_notation(v, pattern + line + ", c, c -> n c" + line);
}

void group_work(const OpView& v, Work& w, int groups_of_affine) {
  if (!v.ranked(0) || v.rank(0) < 1) return;
  const Expr n = v.in(0)->elements(), groups = v.integer(v.attribute("groups") ? "groups" : "num_groups", 1);
  w.vector_flops = n * (5 + groups_of_affine) + v.dim(0, 0) * groups * 3;
}

void lp_work(const OpView& v, Work& w) {
  if (!v.ranked(0) || v.rank(0) == 0) return;
  const int64_t rank = static_cast<int64_t>(v.rank(0));
  int64_t axis = v.integer("axis", -1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return;
  const Expr n = v.in(0)->elements();
  Expr lines = 1;
  for (int64_t d = 0; d < rank; ++d)
    if (d != axis) lines *= v.dim(0, static_cast<size_t>(d));
  w.vector_flops = n * 3 - (v.integer("p", 2) == 1 ? lines : Expr(0));
}

void mean_variance_work(const OpView& v, Work& w) {
  if (!v.ranked(0)) return;
  const auto axes = v.integers("axes").value_or(std::vector<int64_t>{0, 2, 3});
  Expr lines = 1;
  for (int64_t d = 0; d < static_cast<int64_t>(v.rank(0)); ++d)
    if (std::find(axes.begin(), axes.end(), d) == axes.end() && std::find(axes.begin(), axes.end(), d - static_cast<int64_t>(v.rank(0))) == axes.end())
      lines *= v.dim(0, static_cast<size_t>(d));
  w.vector_flops = v.in(0)->elements() * 5 + lines * 2;
}

// Square, size − 1 additions, scale, bias, power, divide.
void lrn_work(const OpView& v, Work& w) {
  if (v.in(0)) w.vector_flops = v.in(0)->elements() * (v.integer("size", 1) + 4);
}

// Residual add before the norm; outputs: data, mean, 1/σ, the sum.
template <bool Simplified> void infer_skip(InferContext& c) {
  if (!c.need_inputs(3)) return;
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  if (c.rank(0) == 0) return c.fail("rank-mismatch", "needs at least 1 dim");
  c.output(0, c.in(0));
  if (c.wants(1)) c.output(1, DType::float32, line_stats(c, -1));
  if (c.wants(2)) c.output(2, DType::float32, line_stats(c, -1));
  if (c.wants(3)) c.output(3, c.in(0));
}
template <bool Simplified> void skip_work(const OpView& v, Work& w) {
  if (!v.ranked(0) || v.rank(0) == 0) return;
  const Expr n = v.in(0)->elements();
  const size_t bias = Simplified ? 3 : 4;
  Expr lines = 1;
  for (size_t d = 0; d + 1 < v.rank(0); ++d) lines *= v.dim(0, d);
  int64_t per_element = 1 + (Simplified ? 4 : 6) + (v.has(bias) ? 1 : 0);
  if (!Simplified && v.has(3)) ++per_element;
  w.vector_flops = n * per_element + lines * 3;
}

// Rows of two or three tables are added, then normalized.
void infer_embed(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const DType d = c.in(2) ? c.dtype(2) : DType::float32;
  if (!c.ranked(0) || c.rank(0) != 2 || !c.ranked(2) || c.rank(2) != 2) return c.output_unranked(0, d);
  const std::vector<Expr> dims{c.dim(0, 0), c.dim(0, 1), c.dim(2, 1)};
  c.output(0, d, dims);
  c.output(1, DType::int32, {c.dim(0, 0)});
  if (c.wants(2)) c.output(2, d, dims);
}
void embed_work(const OpView& v, Work& w) {
  if (!v.out(0)) return;
  const Expr n = v.out(0)->elements(), bytes = v.output_bytes(0);
  const bool segments = v.has(1) && v.has(4);
  w.reads[2] = bytes;
  if (w.reads.size() > 3) w.reads[3] = v.ranked(0) && v.rank(0) == 2 && v.ranked(3) && v.rank(3) == 2 ? storage_bytes(v.dtype(3), v.dim(0, 1) * v.dim(3, 1)) : Expr(0);
  if (segments && w.reads.size() > 4) w.reads[4] = min(v.bytes(4), bytes);
  const Expr lines = v.in(0) ? v.in(0)->elements() : Expr();
  w.vector_flops = n * (1 + segments + 6 + (v.has(6) ? 1 : 0)) + lines * 3;
}

constexpr std::string_view layer_formula = "6*n + 3*lines; n more with a bias";
constexpr std::string_view rms_formula = "4*n + 3*lines";
#define LAYER(op_domain, op_name, version) \
  {.domain = op_domain, .name = op_name, .since = version, .kind = Kind::normalization, .access = "b.. d~, d, d -> b.. d~", .access_rule = layer_access, \
   .infer = infer_layer, .work = layer_work, .cost = {.vector_per_point = 6, .vector_per_line = 3}, .formula = layer_formula}
#define RMS(op_domain, op_name, version) \
  {.domain = op_domain, .name = op_name, .since = version, .kind = Kind::normalization, .access = "b.. d~, d -> b.. d~", .access_rule = layer_access, \
   .infer = infer_layer, .cost = {.vector_per_point = 4, .vector_per_line = 3}, .formula = rms_formula}

constexpr OpInfo table[] = {
    LAYER("", "LayerNormalization", 1),
    RMS("", "RMSNormalization", 23),
    RMS("", "SimplifiedLayerNormalization", 1),
    {.name = "BatchNormalization", .since = 1, .kind = Kind::normalization, .access = "n c s.., c, c, c, c -> n c s..", .access_rule = [](const OpView&) { return AccessResult{}; },
     .infer = infer_batch, .work = batch_work, .formula = "3*n + 3*C; training: 7*n + 9*C"},
    {.name = "InstanceNormalization", .since = 1, .kind = Kind::normalization, .access = "n c s~.., c, c -> n c s~..", .access_rule = instance_access,
     .cost = {.vector_per_point = 7, .vector_per_line = 3}},
    {.name = "GroupNormalization", .since = 18, .kind = Kind::normalization, .infer = same_as_first,
     .work = [](const OpView& v, Work& w) { group_work(v, w, 2); }, .formula = "7*n + 3*N*groups"},
    {.name = "LpNormalization", .since = 1, .kind = Kind::normalization, .infer = same_as_first, .work = lp_work, .formula = "3*n; p=1: 3*n - lines"},
    {.name = "MeanVarianceNormalization", .since = 1, .kind = Kind::normalization, .infer = same_as_first, .work = mean_variance_work, .formula = "5*n + 2*lines"},
    {.name = "LRN", .since = 1, .kind = Kind::normalization, .infer = same_as_first, .work = lrn_work, .formula = "(size + 4)*n"},
    LAYER("com.microsoft", "LayerNormalization", 1),
    RMS("com.microsoft", "SimplifiedLayerNormalization", 1),
    RMS("com.microsoft", "RMSNormalization", 1),
    {.domain = "com.microsoft", .name = "SkipLayerNormalization", .since = 1, .kind = Kind::normalization, .infer = infer_skip<false>,
     .work = skip_work<false>, .formula = "7*n + 3*lines; n more for each of beta and bias"},
    {.domain = "com.microsoft", .name = "SkipSimplifiedLayerNormalization", .since = 1, .kind = Kind::normalization, .infer = infer_skip<true>,
     .work = skip_work<true>, .formula = "5*n + 3*lines; n more with a bias"},
    {.domain = "com.microsoft", .name = "EmbedLayerNormalization", .since = 1, .kind = Kind::normalization, .infer = infer_embed, .work = embed_work,
     .formula = "7*n + 3*lines with two tables; n more for each of segments and beta; rows are read, not tables"},
    {.domain = "com.microsoft", .name = "GroupNorm", .since = 1, .kind = Kind::normalization, .infer = same_as_first,
     .work = [](const OpView& v, Work& w) {
       group_work(v, w, 2);
       if (v.integer("activation", 0) == 1 && v.in(0)) w.vector_flops += v.in(0)->elements() * 5;  // SiLU
     }, .formula = "7*n + 3*N*groups; SiLU 5*n"},
    {.domain = "com.microsoft", .name = "SkipGroupNorm", .since = 1, .kind = Kind::normalization,
     .infer = [](InferContext& c) {
       same_as_first(c);
       if (c.wants(1)) c.output(1, c.in(0));
     },
     .work = [](const OpView& v, Work& w) {
       group_work(v, w, 2);
       if (v.in(0)) w.vector_flops += v.in(0)->elements() * (1 + (v.has(4) ? 1 : 0) + (v.integer("activation", 0) == 1 ? 5 : 0));
     }, .formula = "8*n + 3*N*groups; bias n, SiLU 5*n"},
};

}  // namespace

OpFamily normalization_ops() { return table; }

}  // namespace roofcast
