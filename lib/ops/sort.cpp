// Ops that need a whole line in order: TopK, Unique, CumSum, NonMaxSuppression. A selection of k out
// of n is counted as n·log2(k) comparisons, rounded up, a scan as one operation an element.
#include "ops/op_table.h"
#include "ops/rules.h"

#include <algorithm>
#include <bit>

namespace roofcast {
namespace {

// k is an attribute in opset 1, an input from 10 on.
void infer_top_k(InferContext& c) {
  if (!c.need_inputs(c.opset() < 10 ? 1 : 2)) return;
  if (!c.ranked(0)) {
    c.output_unranked(0, c.dtype(0)), c.output_unranked(1, DType::int64);
    return;
  }
  const auto axis = c.axis(c.integer("axis", -1), c.rank(0));
  if (!axis) return;
  std::vector<Expr> dims = c.in(0)->dims;
  Expr k;
  if (c.opset() < 10) k = c.integer("k", 0);
  else if (const auto given = c.exprs(1); given && given->size() == 1) k = (*given)[0];
  if (k.is_constant() && k.constant() < 0) return c.fail("dim-negative", "k is " + k.text());
  if (k.is_constant() && dims[*axis].is_constant() && k.constant() > dims[*axis].constant())
    return c.fail("dim-mismatch", "k is " + k.text() + ", the axis has " + dims[*axis].text());
  dims[*axis] = k.is_known() ? k : c.fresh("k", dims[*axis]);
  c.output(0, c.dtype(0), dims);
  c.output(1, DType::int64, std::move(dims));
}

void top_k_work(const OpView& v, Work& w) {
  if (w.reads.size() > 1) w.reads[1] = 0;
  if (!v.in(0) || !v.out(0) || !v.ranked(0)) return;
  // log2 of the least known k, at least 1: a heap of k.
  const int64_t rank = static_cast<int64_t>(v.rank(0)), axis = v.integer("axis", -1);
  const int64_t at = axis < 0 ? axis + rank : axis;
  const Expr k = at >= 0 && at < rank ? v.out(0)->dims[static_cast<size_t>(at)] : Expr(1);
  const uint64_t size = static_cast<uint64_t>(std::max<int64_t>(2, k.as_constant().value_or(2)));
  w.vector_flops = v.in(0)->elements() * static_cast<int64_t>(std::bit_width(size - 1));
}

// Y, then the optional indices, inverse indices and counts.
void infer_unique(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const Expr all = c.in(0)->is_tensor() && c.ranked(0) ? c.in(0)->elements() : Expr();
  Expr most = all, inverse = all;
  std::optional<size_t> axis;
  if (c.attribute("axis") && c.ranked(0)) {
    axis = c.axis(c.integer("axis", 0), c.rank(0));
    if (!axis) return;
    most = inverse = c.dim(0, *axis);
  }
  const Expr count = c.fresh("", most, 0);
  if (axis) {
    std::vector<Expr> dims = c.in(0)->dims;
    dims[*axis] = count;
    c.output(0, c.dtype(0), std::move(dims));
  } else if (c.attribute("axis")) {
    c.output_unranked(0, c.dtype(0));
  } else {
    c.output(0, c.dtype(0), {count});
  }
  c.output(1, DType::int64, {count});
  c.output(2, DType::int64, {inverse});
  c.output(3, DType::int64, {count});
}
void line_work(const OpView& v, Work& w) {
  if (w.reads.size() > 1) w.reads[1] = 0;
  if (v.in(0)) w.vector_flops = v.in(0)->elements();
}
// A sort: n·log2(n) comparisons; log2 of 2^20 where the size is not constant.
void sort_work(const OpView& v, Work& w) {
  if (!v.in(0)) return;
  const Expr n = v.in(0)->elements();
  const uint64_t size = static_cast<uint64_t>(std::max<int64_t>(2, n.as_constant().value_or(1 << 20)));
  w.vector_flops = n * static_cast<int64_t>(std::bit_width(size - 1));
}

// Rows [selected, 3] of (batch, class, box): at most max_output_boxes per class, and the boxes there are.
void infer_nms(InferContext& c) {
  if (!c.need_inputs(2)) return;
  Expr most;
  if (c.ranked(0) && c.rank(0) == 3 && c.ranked(1) && c.rank(1) == 3) {
    const auto limit = c.has(2) ? c.exprs(2) : std::optional(std::vector<Expr>{0});
    const Expr boxes = c.dim(0, 1);
    const Expr each = limit && limit->size() == 1 && (*limit)[0].is_known() ? min(boxes, (*limit)[0]) : boxes;
    most = c.dim(1, 0) * c.dim(1, 1) * each;
    if (most == Expr(0)) return c.output(0, DType::int64, {0, 3});
  }
  c.output(0, DType::int64, {c.fresh("", most), 3});
}
// Every box against the boxes kept: intersection over union in 16 operations, at the bound's number.
void nms_work(const OpView& v, Work& w) {
  if (!v.ranked(0) || !v.ranked(1) || v.rank(0) != 3 || v.rank(1) != 3) {
    w.vector_flops = {};
    return;
  }
  const auto limit = v.has(2) ? v.exprs(2) : std::nullopt;
  const Expr boxes = v.dim(0, 1);
  const Expr kept = limit && limit->size() == 1 && (*limit)[0].is_known() ? min(boxes, (*limit)[0]) : boxes;
  w.vector_flops = v.dim(1, 0) * v.dim(1, 1) * boxes * kept * 16;
  for (size_t i = 2; i < w.reads.size(); ++i) w.reads[i] = 0;
}

constexpr OpInfo table[] = {
    {.name = "TopK", .since = 1, .kind = Kind::sort, .access = "b.. s! -> b.. k, b.. k", .access_rule = [](const OpView&) { return AccessResult{}; },
     .infer = infer_top_k, .work = top_k_work, .routing = Routing::indices, .formula = "n*ceil(log2(k)) comparisons"},
    {.name = "Unique", .since = 11, .kind = Kind::sort, .infer = infer_unique, .work = sort_work, .formula = "n*ceil(log2(n)) comparisons"},
    {.name = "CumSum", .since = 11, .kind = Kind::sort, .access = "b.. s!, . -> b.. s!", .access_rule = [](const OpView&) { return AccessResult{}; },
     .infer = same_as_first, .work = line_work, .formula = "n"},
    {.name = "CumProd", .since = 26, .kind = Kind::sort, .infer = same_as_first, .work = line_work, .formula = "n"},
    {.name = "NonMaxSuppression", .since = 10, .kind = Kind::sort, .infer = infer_nms, .work = nms_work,
     .formula = "16*batches*classes*boxes*kept (intersection over union of each box with those kept)"},
    {.domain = "com.microsoft", .name = "Unique", .since = 1, .kind = Kind::sort,
     .infer = [](InferContext& c) {
       if (!c.need_inputs(1)) return;
       const Expr n = c.ranked(0) ? c.in(0)->elements() : Expr(), count = c.fresh("", n);
       c.output(0, c.dtype(0), {count});
       c.output(1, DType::int64, {n});
       c.output(2, DType::int64, {count});
     }, .work = sort_work, .formula = "n*ceil(log2(n)) comparisons"},
};

}  // namespace

OpFamily sort_ops() { return table; }

}  // namespace roofcast
