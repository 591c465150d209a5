// Reductions over axes: Reduce*, ArgMax, ArgMin. A sum over n elements takes n − 1 operations.
#include "ops/op_table.h"
#include "ops/rules.h"

#include <algorithm>

namespace roofcast {
namespace {

using Values = std::optional<std::vector<Scalar>>;

// Axes are an attribute first, an input from opset 18 on (ReduceSum: 13). Absent: not known. Empty
// axes mean all, unless noop_with_empty_axes.
std::optional<std::vector<size_t>> reduced_axes(const OpView& v, std::string& fault) {
  const size_t rank = v.rank(0);
  std::optional<std::vector<int64_t>> axes;
  if (v.has(1)) {
    axes = v.constants(1);
    if (!axes) {
      if (!(v.in(1) && v.ranked(1) && v.rank(1) == 1 && v.dim(1, 0) == Expr(0))) return std::nullopt;
      axes.emplace();
    }
  } else {
    axes = v.integers("axes");
  }
  std::vector<size_t> out;
  if (!axes || axes->empty()) {
    if (v.integer("noop_with_empty_axes", 0)) return out;
    for (size_t d = 0; d < rank; ++d) out.push_back(d);
    return out;
  }
  for (int64_t a : *axes) {
    const int64_t at = a < 0 ? a + static_cast<int64_t>(rank) : a;
    if (at < 0 || at >= static_cast<int64_t>(rank)) return fault = "axis " + std::to_string(a) + " is outside of " + std::to_string(rank) + " dims", std::nullopt;
    if (std::find(out.begin(), out.end(), static_cast<size_t>(at)) == out.end()) out.push_back(static_cast<size_t>(at));
  }
  return out;
}

AccessResult access_over(const OpView& v, const std::vector<size_t>& axes, bool keepdims) {
  AccessBuilder b;
  OperandMap in, out;
  for (size_t d = 0; d < v.rank(0); ++d) {
    const bool reduced = std::find(axes.begin(), axes.end(), d) != axes.end();
    const DimMap own{DimMap::Kind::product, {b.factor((reduced ? "r" : "d") + std::to_string(d), v.dim(0, d), reduced ? Role::reduce : Role::pass)}};
    in.dims.push_back(own);
    if (!reduced) out.dims.push_back(own);
    else if (keepdims) out.dims.push_back({});
  }
  b.input() = std::move(in);
  for (size_t i = 1; i < v.input_count(); ++i) b.input().outside = true;
  b.output() = std::move(out);
  return {b.take(), {}, {}};
}

AccessResult reduce_access(const OpView& v) {
  if (!v.ranked(0)) return {};
  std::string fault;
  const auto axes = reduced_axes(v, fault);
  if (!fault.empty()) return {{}, fault, "rank-mismatch"};
  if (!axes) return {};
  return access_over(v, *axes, v.integer("keepdims", 1) != 0);
}

void infer_reduce(InferContext& c) {
  if (!c.need_inputs(1)) return;
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  const AccessResult r = reduce_access(c);
  if (!r.fault.empty()) return c.fail(r.code, r.fault);
  if (!r.access.outputs.empty()) return c.output(0, c.dtype(0), dims_of(r.access, r.access.outputs[0]));
  // Which axes is not known; how many dims stay is, if they are kept.
  if (c.integer("keepdims", 1)) return c.output(0, c.dtype(0), std::vector<Expr>(c.rank(0)));
  c.output_unranked(0, c.dtype(0));
}

// n elements become one line of n − 1 operations; `before` per element, `after` per result.
template <int Before, int After> void reduce_work(const OpView& v, Work& w) {
  if (!v.in(0) || !v.out(0)) return;
  const Expr in = v.in(0)->elements(), out = v.out(0)->elements();
  // Nothing is reduced: the op is applied to each element by itself (noop_with_empty_axes).
  w.vector_flops = in * (1 + Before) + out * (After - 1);
}

template <BinaryScalar* F> Values fold(const OpView& v) {
  if (!v.values(0) || small_size(v.out(0)) != 1) return std::nullopt;
  const std::vector<Scalar>& items = v.values(0)->items;
  if (items.empty() || small_size(v.in(0)) != items.size()) return std::nullopt;
  Scalar total = items[0];
  for (size_t i = 1; i < items.size(); ++i) total = F(total, items[i]);
  return std::vector<Scalar>{total};
}

AccessResult arg_access(const OpView& v) {
  if (!v.ranked(0)) return {};
  const int64_t rank = static_cast<int64_t>(v.rank(0));
  int64_t axis = v.integer("axis", 0);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return {{}, "axis is outside of " + std::to_string(rank) + " dims", "rank-mismatch"};
  return access_over(v, {static_cast<size_t>(axis)}, v.integer("keepdims", 1) != 0);
}

#define REDUCE(op_name, before, after, formula_text) \
  {.name = op_name, .since = 1, .kind = Kind::reduction, .access = "d.. r.. -> d..", .access_rule = reduce_access, .infer = infer_reduce, \
   .work = reduce_work<before, after>, .formula = formula_text}
#define REDUCE_VALUE(op_name, rule, formula_text) \
  {.name = op_name, .since = 1, .kind = Kind::reduction, .access = "d.. r.. -> d..", .access_rule = reduce_access, .infer = infer_reduce, \
   .value = fold<rule>, .work = reduce_work<0, 0>, .formula = formula_text}

constexpr OpInfo table[] = {
    REDUCE_VALUE("ReduceSum", add, "inputs - outputs"),
    REDUCE_VALUE("ReduceProd", multiply, "inputs - outputs"),
    REDUCE_VALUE("ReduceMax", maximum, "inputs - outputs"),
    REDUCE_VALUE("ReduceMin", minimum, "inputs - outputs"),
    REDUCE("ReduceMean", 0, 1, "inputs: the sum, and a division per output"),
    REDUCE("ReduceL1", 1, 0, "2*inputs - outputs"),
    REDUCE("ReduceL2", 1, 1, "2*inputs: squares, sum, root"),
    REDUCE("ReduceSumSquare", 1, 0, "2*inputs - outputs"),
    REDUCE("ReduceLogSum", 0, 1, "inputs"),
    // log Σ exp(x − max) + max: max, subtract, exp, sum; log and add per output.
    {.name = "ReduceLogSumExp", .since = 1, .kind = Kind::reduction, .access = "d.. r.. -> d..", .access_rule = reduce_access, .infer = infer_reduce,
     .work = [](const OpView& v, Work& w) { if (v.in(0) && v.out(0)) w.vector_flops = v.in(0)->elements() * 4; },
     .formula = "4*inputs: max, subtract, exp, sum; log and add per output"},
    {.name = "ArgMax", .since = 1, .kind = Kind::reduction, .access = "d.. r -> d..", .access_rule = arg_access, .work = reduce_work<0, 0>, .result = DType::int64, .formula = "inputs - outputs"},
    {.name = "ArgMin", .since = 1, .kind = Kind::reduction, .access = "d.. r -> d..", .access_rule = arg_access, .work = reduce_work<0, 0>, .result = DType::int64, .formula = "inputs - outputs"},
};

}  // namespace

OpFamily reduction_ops() { return table; }

}  // namespace roofcast
