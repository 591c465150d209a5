// Softmax and its kin, and losses made of them. A line of n elements takes: max (n − 1), subtract n,
// exp n, sum (n − 1), divide n — 5 n − 2.
#include "ops/op_table.h"
#include "ops/rules.h"

namespace roofcast {
namespace {

// One axis from opset 13 on; before, all dims from the axis (default 1) make one line.
AccessResult softmax_access(const OpView& v) {
  if (!v.ranked(0)) return {};
  const bool modern = v.opset() >= 13 && v.instance.op->domain.empty();
  const int64_t rank = static_cast<int64_t>(v.rank(0));
  int64_t axis = v.integer("axis", modern ? -1 : 1);
  if (axis < 0) axis += rank;
  if (rank == 0 || axis < 0 || axis > rank || (modern && axis == rank)) {
    if (rank == 0) return {};
    return {{}, "axis is outside of " + std::to_string(rank) + " dims", "rank-mismatch"};
  }
  AccessBuilder b;
  OperandMap map;
  for (int64_t d = 0; d < rank; ++d) {
    const bool line = modern ? d == axis : d >= axis;
    map.dims.push_back({DimMap::Kind::product, {b.factor((line ? "s" : "d") + std::to_string(d), v.dim(0, static_cast<size_t>(d)), line ? Role::online : Role::pass)}});
  }
  b.input() = map;
  for (size_t i = 1; i < v.input_count(); ++i) b.input().outside = true;
  b.output() = std::move(map);
  return {b.take(), {}, {}};
}

// Scores [n, c, d..] and labels [n, d..]: the loss, and the log-probabilities beside it.
template <bool Logits> void infer_loss(InferContext& c) {
  if (!c.need_inputs(2)) return;
  const bool reduced = c.string("reduction", "mean") != "none";
  if (reduced) c.output(0, c.dtype(0), {});
  else if (c.ranked(1)) c.output(0, c.dtype(0), c.in(1)->dims);
  else c.output_unranked(0, c.dtype(0));
  if (Logits) c.output(1, c.in(0));
}

// Per label: pick, negate and weight; the sum and the mean's division. Log-softmax before, if asked.
template <bool Logits> void loss_work(const OpView& v, Work& w) {
  if (!v.in(0) || !v.in(1)) return;
  const Expr labels = v.in(1)->elements();
  w.vector_flops = labels * (v.has(2) ? 2 : 1);
  if (v.string("reduction", "mean") != "none") w.vector_flops += labels;
  if (Logits) w.vector_flops += v.in(0)->elements() * 5;
  else w.reads[0] = min(v.bytes(0), storage_bytes(v.dtype(0), labels));
}

constexpr OpInfo table[] = {
    {.name = "Softmax", .since = 1, .kind = Kind::softmax, .access = "b.. s~ -> b.. s~", .access_rule = softmax_access, .infer = same_as_first,
     .cost = {.vector_per_point = 5, .vector_per_line = -2}},
    // x − max − log Σ exp(x − max): max, subtract, exp, sum, log, subtract.
    {.name = "LogSoftmax", .since = 1, .kind = Kind::softmax, .access = "b.. s~ -> b.. s~", .access_rule = softmax_access, .infer = same_as_first,
     .cost = {.vector_per_point = 5, .vector_per_line = -1}},
    {.name = "Hardmax", .since = 1, .kind = Kind::softmax, .access = "b.. s~ -> b.. s~", .access_rule = softmax_access, .infer = same_as_first,
     .cost = {.vector_per_point = 2, .vector_per_line = -1}},
    {.name = "SoftmaxCrossEntropyLoss", .since = 12, .kind = Kind::softmax, .infer = infer_loss<true>, .work = loss_work<true>,
     .formula = "5 per score (log-softmax); 1 per label, 1 more with weights, 1 more to reduce"},
    {.name = "NegativeLogLikelihoodLoss", .since = 12, .kind = Kind::softmax, .infer = infer_loss<false>, .work = loss_work<false>,
     .formula = "1 per label, 1 more with weights, 1 more to reduce; one score is read per label"},
    {.domain = "com.microsoft", .name = "BiasSoftmax", .since = 1, .kind = Kind::softmax, .access = "b.. s~ -> b.. s~", .access_rule = softmax_access,
     .infer = same_as_first, .cost = {.vector_per_point = 6, .vector_per_line = -2}},
};

}  // namespace

OpFamily softmax_ops() { return table; }

}  // namespace roofcast
