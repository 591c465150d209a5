// Reductions over axes: Reduce*, ArgMax, ArgMin. A sum over n elements takes n − 1 operations.
#include "ops/op_table.h"
#include "ops/rules.h"

#include <algorithm>

namespace roofcast {
namespace {

using Values = std::optional<std::vector<Scalar>>;
using Axes = std::vector<size_t>;

bool contains(const Axes& axes, size_t d) {
  return std::find(axes.begin(), axes.end(), d) != axes.end();
}

AccessResult wrong_axis(int64_t axis, size_t rank) {
  return {{}, "axis " + std::to_string(axis) + " is outside of " + std::to_string(rank) + " dims",
          "onnx-attribute"};
}

// Axis 0 or −1 of a scalar names no dim; runtimes let it pass.
bool add_axis(Axes& axes, int64_t axis, size_t rank) {
  const int64_t r = static_cast<int64_t>(rank);
  if (rank == 0 && (axis == 0 || axis == -1)) return true;
  if (axis < -r || axis >= r) return false;
  const size_t at = static_cast<size_t>(axis < 0 ? axis + r : axis);
  if (!contains(axes, at)) axes.push_back(at);
  return true;
}

// Axes are an attribute first, an input from opset 18 on (ReduceSum: 13). Absent: not known. Empty
// axes mean all, unless noop_with_empty_axes.
std::optional<Axes> reduced_axes(const OpView& v, AccessResult& fault) {
  std::optional<std::vector<int64_t>> named;
  if (v.has(1)) {
    named = v.constants(1);
    const bool empty = v.ranked(1) && v.rank(1) == 1 && v.dim(1, 0) == Expr(0);
    if (!named && !empty) return std::nullopt;
  } else {
    named = v.integers("axes");
  }
  Axes axes;
  if (!named || named->empty()) {
    if (v.integer("noop_with_empty_axes", 0)) return axes;
    for (size_t d = 0; d < v.rank(0); ++d) axes.push_back(d);
    return axes;
  }
  for (int64_t a : *named)
    if (!add_axis(axes, a, v.rank(0))) return fault = wrong_axis(a, v.rank(0)), std::nullopt;
  return axes;
}

AccessResult access_over(const OpView& v, const Axes& axes) {
  const bool keepdims = v.integer("keepdims", 1) != 0;
  AccessBuilder b;
  OperandMap in, out;
  for (size_t d = 0; d < v.rank(0); ++d) {
    const bool reduced = contains(axes, d);
    const uint8_t own = b.factor((reduced ? "r" : "d") + std::to_string(d), v.dim(0, d),
                                 reduced ? Role::reduce : Role::pass);
    in.dims.push_back({DimMap::Kind::product, {own}});
    if (!reduced) out.dims.push_back(in.dims.back());
    else if (keepdims) out.dims.push_back({});
  }
  b.input() = std::move(in);
  for (size_t i = 1; i < v.input_count(); ++i) b.input().outside = true;
  b.output() = std::move(out);
  return {b.take(), {}, {}};
}

AccessResult reduce_access(const OpView& v) {
  if (!v.ranked(0)) return {};
  AccessResult fault;
  const auto axes = reduced_axes(v, fault);
  return axes ? access_over(v, *axes) : fault;
}

AccessResult arg_access(const OpView& v) {
  if (!v.ranked(0)) return {};
  Axes axes;
  const int64_t axis = v.integer("axis", 0);
  return add_axis(axes, axis, v.rank(0)) ? access_over(v, axes) : wrong_axis(axis, v.rank(0));
}

void infer_reduce(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const DType result = c.instance.op->result;
  const DType dtype = result == DType::undefined ? c.dtype(0) : result;
  if (!c.ranked(0)) return c.output_unranked(0, dtype);
  const AccessResult r = reduce_access(c);
  if (!r.fault.empty()) return c.fail(r.code, r.fault);
  if (!r.access.empty()) return c.output(0, dtype, dims_of(r.access, r.access.outputs[0]));
  // Which axes is not known; how many dims stay is, if they are kept.
  if (c.integer("keepdims", 1)) return c.output(0, dtype, std::vector<Expr>(c.rank(0)));
  c.output_unranked(0, dtype);
}

// A line of n elements takes n − 1 operations, and more per element and per result. Where nothing
// is reduced (noop_with_empty_axes) each element is a line of its own.
template <int PerElement, int PerResult> void reduce_work(const OpView& v, Work& w) {
  if (!v.in(0) || !v.out(0)) return;
  read_bytes(v, w, 1, 0);  // axes are part of the shape
  w.vector_flops = v.in(0)->elements() * (1 + PerElement) + v.out(0)->elements() * (PerResult - 1);
}

// The elements of each line, taken together from the first on.
template <BinaryScalar* F> Values fold(const OpView& v) {
  const auto n = small_size(v.in(0)), m = small_size(v.out(0));
  const Access access = reduce_access(v).access;
  if (!n || !m || *n == 0 || access.empty()) return std::nullopt;
  if (!v.values(0) || v.values(0)->items.size() != *n) return std::nullopt;
  std::vector<Scalar> out(*m);
  std::vector<bool> begun(*m, false);
  for (size_t flat = 0; flat < *n; ++flat) {
    size_t at = 0, stride = 1, rest = flat;
    for (size_t d = access.factors.size(); d-- > 0;) {
      const size_t size = static_cast<size_t>(access.factors[d].size.constant());
      if (access.factors[d].role == Role::pass) at += rest % size * stride, stride *= size;
      rest /= size;
    }
    if (at >= *m) return std::nullopt;
    const Scalar& item = v.values(0)->items[flat];
    out[at] = begun[at] ? F(out[at], item) : item;
    begun[at] = true;
  }
  return out;
}

#define REDUCE(op_name, before, after, formula_text)                             \
  {.name = op_name, .kind = Kind::reduction, .access = "d.. r.. -> d..",         \
   .access_rule = reduce_access, .infer = infer_reduce,                          \
   .work = reduce_work<before, after>, .formula = formula_text}
#define REDUCE_VALUE(op_name, rule)                                              \
  {.name = op_name, .kind = Kind::reduction, .access = "d.. r.. -> d..",         \
   .access_rule = reduce_access, .infer = infer_reduce, .value = fold<rule>,     \
   .work = reduce_work<0, 0>, .formula = "inputs - outputs"}
#define ARG(op_name)                                                             \
  {.name = op_name, .kind = Kind::reduction, .access = "d.. r -> d..",           \
   .access_rule = arg_access, .work = reduce_work<0, 0>, .result = DType::int64, \
   .formula = "inputs - outputs"}

constexpr OpInfo table[] = {
    REDUCE_VALUE("ReduceSum", add),
    REDUCE_VALUE("ReduceProd", multiply),
    REDUCE_VALUE("ReduceMax", maximum),
    REDUCE_VALUE("ReduceMin", minimum),
    REDUCE("ReduceMean", 0, 1, "inputs: sum, divide"),
    REDUCE("ReduceL1", 1, 0, "2*inputs - outputs: absolute values, sum"),
    REDUCE("ReduceL2", 1, 1, "2*inputs: squares, sum; root per output"),
    REDUCE("ReduceSumSquare", 1, 0, "2*inputs - outputs: squares, sum"),
    REDUCE("ReduceLogSum", 0, 1, "inputs: sum; log per output"),
    // log Σ exp(x − max) + max: two lines of n − 1, and log and addition per result.
    REDUCE("ReduceLogSumExp", 3, 1, "4*inputs: max, subtract, exp, sum; log and add per output"),
    ARG("ArgMax"),
    ARG("ArgMin"),
    {.domain = "com.microsoft", .name = "ReduceSumInteger", .kind = Kind::reduction,
     .access = "d.. r.. -> d..", .access_rule = reduce_access, .infer = infer_reduce,
     .work = reduce_work<0, 0>, .result = DType::int32, .formula = "inputs - outputs"},
};

}  // namespace

OpFamily reduction_ops() { return table; }

}  // namespace roofcast
