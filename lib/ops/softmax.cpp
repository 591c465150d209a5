// Softmax and its kin, and losses made of them. A line of n elements takes: max (n − 1), subtract
// n, exp n, sum (n − 1), divide n — 5 n − 2.
#include "ops/op_table.h"
#include "ops/rules.h"

namespace roofcast {
namespace {

// One axis from opset 13 on; before, and in com.microsoft, all dims from the axis (default 1) on
// make one line.
AccessResult softmax_access(const OpView& v) {
  if (!v.ranked(0)) return {};
  const bool one_axis = v.opset() >= 13 && v.instance.op->domain.empty();
  const int64_t rank = static_cast<int64_t>(v.rank(0));
  const int64_t given = v.integer("axis", one_axis ? -1 : 1);
  const int64_t axis = given < 0 ? given + rank : given;
  // A scalar is a line of one; an axis behind the last dim gives as many lines as elements.
  if (rank > 0 && (axis < 0 || axis >= rank + (one_axis ? 0 : 1)))
    return {{}, "axis " + std::to_string(given) + " is outside of " + std::to_string(rank) +
                    " dims", "onnx-attribute"};
  AccessBuilder b;
  OperandMap map;
  for (int64_t d = 0; d < rank; ++d) {
    const Role role = (one_axis ? d == axis : d >= axis) ? Role::online : Role::pass;
    const std::string name = (role == Role::online ? "s" : "b") + std::to_string(d);
    map.dims.push_back(
        {DimMap::Kind::product, {b.factor(name, v.dim(0, static_cast<size_t>(d)), role)}});
  }
  b.input() = map;
  for (size_t i = 1; i < v.input_count(); ++i) b.input().outside = true;
  b.output() = std::move(map);
  return {b.take(), {}, {}};
}

void infer_softmax(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const AccessResult r = softmax_access(c);
  if (!r.fault.empty()) return c.fail(r.code, r.fault);
  c.output(0, c.in(0));
}

// Scores [n, c, d..] and labels [n, d..] → the loss, whole or by label, and log-probabilities.
bool is_reduced(const OpView& v) { return v.string("reduction", "mean") != "none"; }

template <bool Logits> AccessResult loss_access(const OpView& v) {
  const std::string loss = is_reduced(v) ? "." : "n d..";
  if (Logits) return bind_notation(v, "n c~ d.., n d.., c -> " + loss + ", n c~ d..");
  return bind_notation(v, "n @c d.., n d.., @c -> " + loss);
}

template <bool Logits> void infer_loss(InferContext& c) {
  if (!c.need_inputs(2)) return;
  const AccessResult r = access_of(c);
  if (!r.fault.empty()) return c.fail(r.code, r.fault, "check --shape");
  if (is_reduced(c)) c.output(0, c.dtype(0), {});
  else if (c.ranked(1)) c.output(0, c.dtype(0), c.in(1)->dims);
  else c.output_unranked(0, c.dtype(0));
  if (Logits) c.output(1, c.in(0));
}

// Per label: negate, and weight it; then a sum of losses. A mean divides by the number of labels,
// or by the sum of their weights. No label counts as ignored.
template <bool Logits> void loss_work(const OpView& v, Work& w) {
  if (!v.in(0) || !v.in(1)) return;
  const Expr labels = v.in(1)->elements();
  const bool weighted = v.has(2), mean = v.string("reduction", "mean") == "mean";
  w.vector_flops = labels * (weighted ? 2 : 1);
  if (is_reduced(v)) w.vector_flops += labels - 1;
  if (mean) w.vector_flops += weighted ? labels : Expr(1);
  if (Logits) w.vector_flops += v.in(0)->elements() * 5 - labels;
  else read_bytes(v, w, 0, min(v.bytes(0), storage_bytes(v.dtype(0), labels)));
}

#define SOFTMAX(op_name, per_line)                                                             \
  {.name = op_name, .kind = Kind::softmax, .access = "b.. s~ -> b.. s~",                       \
   .access_rule = softmax_access, .infer = infer_softmax,                                      \
   .cost = {.vector_per_point = 5, .vector_per_line = per_line}}

constexpr OpInfo table[] = {
    SOFTMAX("Softmax", -2),
    // x − max − log Σ exp(x − max): max, subtract, exp, sum, log, subtract.
    SOFTMAX("LogSoftmax", -1),
    // Find the greatest, then compare each position with its.
    {.name = "Hardmax", .kind = Kind::softmax, .access = "b.. s~ -> b.. s~",
     .access_rule = softmax_access, .infer = infer_softmax,
     .cost = {.vector_per_point = 2, .vector_per_line = -1}},
    {.name = "SoftmaxCrossEntropyLoss", .since = 12, .kind = Kind::softmax,
     .access = "n c~ d.., n d.., c -> n d.., n c~ d..", .access_rule = loss_access<true>,
     .infer = infer_loss<true>, .work = loss_work<true>,
     .formula = "log-softmax 5*scores - labels; then as NegativeLogLikelihoodLoss"},
    {.name = "NegativeLogLikelihoodLoss", .since = 12, .kind = Kind::softmax,
     .access = "n @c d.., n d.., @c -> n d..", .access_rule = loss_access<false>,
     .infer = infer_loss<false>, .work = loss_work<false>,
     .formula = "labels, weights as many again; sum labels - 1; mean 1 more, with weights labels "
                "more; bytes one score per label + labels"},
    {.domain = "com.microsoft", .name = "BiasSoftmax", .kind = Kind::softmax,
     .access = "b.. s~ -> b.. s~", .access_rule = softmax_access, .infer = infer_softmax,
     .cost = {.vector_per_point = 6, .vector_per_line = -2}},
};

}  // namespace

OpFamily softmax_ops() { return table; }

}  // namespace roofcast
