// Ops that read or write where data says: Gather, Scatter and their kind, OneHot, NonZero, Compress.
//
// Gather reads the rows that it takes, not the table. Scatter is counted as in-place: it reads updates
// and indices and writes the updates' elements (with a reduction it also reads what it adds to), as
// every runtime does once the data operand has no other user.
#include "ops/op_table.h"
#include "ops/rules.h"

#include <algorithm>

namespace roofcast {
namespace {

using Values = std::optional<std::vector<Scalar>>;

// Gather: @v d.., i.. -> i.. d.. around the axis; names differ by rank, so the access is built.
AccessResult gather_access(const OpView& v) {
  if (!v.ranked(0) || !v.ranked(1)) return {};
  const int64_t rank = static_cast<int64_t>(v.rank(0));
  int64_t axis = v.integer(v.op_name() == "GatherBlockQuantized" ? "gather_axis" : "axis", 0);
  if (axis < 0) axis += rank;
  if (rank == 0 || axis < 0 || axis >= rank) return {{}, "axis is outside of " + std::to_string(rank) + " dims", "rank-mismatch"};
  AccessBuilder b;
  OperandMap data, indices, out;
  std::vector<DimMap> rows;
  for (size_t d = 0; d < v.rank(1); ++d) rows.push_back({DimMap::Kind::product, {b.factor("i" + std::to_string(d), v.dim(1, d))}});
  indices.dims = rows;
  for (int64_t d = 0; d < rank; ++d) {
    if (d == axis) {
      // Addressed by data: no loop over points, but sharding it leaves masked partial rows.
      data.dims.push_back({DimMap::Kind::product, {b.factor("v", v.dim(0, static_cast<size_t>(d)), Role::lookup)}});
      out.dims.insert(out.dims.end(), rows.begin(), rows.end());
      continue;
    }
    const DimMap own{DimMap::Kind::product, {b.factor("d" + std::to_string(d), v.dim(0, static_cast<size_t>(d)))}};
    data.dims.push_back(own);
    out.dims.push_back(own);
  }
  b.input() = std::move(data);
  b.input() = std::move(indices);
  b.output() = std::move(out);
  return {b.take(), {}, {}};
}

void infer_gather(InferContext& c) {
  if (!c.need_inputs(2)) return;
  const AccessResult r = gather_access(c);
  if (!r.fault.empty()) return c.fail(r.code, r.fault);
  if (r.access.outputs.empty()) return c.output_unranked(0, c.dtype(0));
  c.output(0, c.dtype(0), dims_of(r.access, r.access.outputs[0]));
}

Values gather_value(const OpView& v) {
  const auto n = small_size(v.out(0));
  const auto from = v.values(0) ? small_size(v.in(0)) : std::nullopt;
  const auto at = v.values(1) ? v.constants(1) : std::nullopt;
  if (!n || !from || !at || v.values(0)->items.size() != *from || !v.ranked(0) || v.rank(0) == 0) return std::nullopt;
  const int64_t rank = static_cast<int64_t>(v.rank(0));
  const int64_t axis = v.integer("axis", 0) < 0 ? v.integer("axis", 0) + rank : v.integer("axis", 0);
  size_t outer = 1, inner = 1;
  const auto& dims = v.in(0)->dims;
  for (int64_t d = 0; d < rank; ++d)
    if (d < axis) outer *= static_cast<size_t>(dims[static_cast<size_t>(d)].constant());
    else if (d > axis) inner *= static_cast<size_t>(dims[static_cast<size_t>(d)].constant());
  const int64_t length = dims[static_cast<size_t>(axis)].constant();
  std::vector<Scalar> out;
  for (size_t o = 0; o < outer; ++o)
    for (int64_t index : *at) {
      const int64_t row = index < 0 ? index + length : index;
      if (row < 0 || row >= length) return std::nullopt;
      for (size_t k = 0; k < inner; ++k) out.push_back(v.values(0)->items[(o * static_cast<size_t>(length) + static_cast<size_t>(row)) * inner + k]);
    }
  return out;
}

// The rows taken, once each time they are taken; the table itself is not read.
void gather_work(const OpView& v, Work& w) { w.reads[0] = v.output_bytes(0); }

void infer_gather_elements(InferContext& c) {
  if (!c.need_inputs(2)) return;
  if (c.ranked(0) && c.ranked(1) && c.rank(0) != c.rank(1))
    return c.fail("rank-mismatch", "data has " + std::to_string(c.rank(0)) + " dims, indices " + std::to_string(c.rank(1)));
  if (!c.ranked(1)) return c.output_unranked(0, c.dtype(0));
  c.output(0, c.dtype(0), c.in(1)->dims);
}

void infer_gather_nd(InferContext& c) {
  if (!c.need_inputs(2)) return;
  if (!c.ranked(0) || !c.ranked(1) || c.rank(1) == 0) return c.output_unranked(0, c.dtype(0));
  const int64_t batch = c.integer("batch_dims", 0);
  const auto last = c.dim(1, c.rank(1) - 1).as_constant();
  if (!last) return c.output_unranked(0, c.dtype(0));
  const int64_t rank = static_cast<int64_t>(c.rank(0));
  if (batch < 0 || *last < 0 || batch > rank || *last > rank - batch ||
      batch >= static_cast<int64_t>(c.rank(1)))
    return c.fail("rank-mismatch", "indices address " + std::to_string(*last) + " dims behind " +
                                       std::to_string(batch) + " of batch, the data has " +
                                       std::to_string(c.rank(0)));
  std::vector<Expr> dims(c.in(1)->dims.begin(), c.in(1)->dims.end() - 1);
  dims.insert(dims.end(), c.in(0)->dims.begin() + batch + *last, c.in(0)->dims.end());
  c.output(0, c.dtype(0), std::move(dims));
}

void gather_elements_work(const OpView& v, Work& w) { w.reads[0] = v.output_bytes(0); }

// Updates are input 2 (of TensorScatter input 1).
template <int Updates> void scatter_work(const OpView& v, Work& w) {
  const Expr moved = v.bytes(Updates);
  const std::string_view reduction = v.string("reduction", "none");
  w.reads[0] = reduction == "none" ? Expr(0) : moved;
  w.writes[0] = moved;
  if (reduction != "none" && v.in(Updates)) w.vector_flops = v.in(Updates)->elements();
}

void infer_one_hot(InferContext& c) {
  if (!c.need_inputs(3)) return;
  const DType d = c.dtype(2);
  if (!c.ranked(0)) return c.output_unranked(0, d);
  const auto depth = c.exprs(1);
  std::vector<Expr> dims = c.in(0)->dims;
  const auto axis = c.axis(c.integer("axis", -1), dims.size() + 1);
  if (!axis) return;
  dims.insert(dims.begin() + static_cast<ptrdiff_t>(*axis), depth && depth->size() == 1 ? (*depth)[0] : Expr());
  c.output(0, d, std::move(dims));
}

void infer_non_zero(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const Expr rank = c.ranked(0) ? Expr(std::max<int64_t>(1, static_cast<int64_t>(c.rank(0)))) : Expr();
  const Expr most = c.in(0) && c.in(0)->ranked ? c.in(0)->elements() : Expr();
  if (c.values(0) && c.values(0)->complete) {
    int64_t count = 0;
    bool known = true;
    for (const Scalar& s : c.values(0)->items) {
      const auto order = compare(s, Scalar::integer(0));
      known &= order.has_value();
      count += order && *order != 0;
    }
    if (known) return c.output(0, DType::int64, {rank, count});
  }
  c.output(0, DType::int64, {rank, c.fresh("", most)});
}
Values non_zero_value(const OpView& v) {
  // One dim: the positions themselves.
  const auto n = small_size(v.out(0));
  if (!n || !v.values(0) || !v.values(0)->complete || !v.ranked(0) || v.rank(0) > 1) return std::nullopt;
  std::vector<Scalar> out;
  for (size_t i = 0; i < v.values(0)->items.size(); ++i) {
    const auto order = compare(v.values(0)->items[i], Scalar::integer(0));
    if (!order) return std::nullopt;
    if (*order != 0) out.push_back(Scalar::integer(static_cast<int64_t>(i)));
  }
  return out;
}

void infer_compress(InferContext& c) {
  if (!c.need_inputs(2)) return;
  Expr taken, most;
  if (c.ranked(1) && c.rank(1) == 1) most = c.dim(1, 0);
  if (const auto condition = c.constants(1)) taken = static_cast<int64_t>(std::count_if(condition->begin(), condition->end(), [](int64_t b) { return b != 0; }));
  if (!c.attribute("axis")) {
    if (!taken.is_known()) taken = c.fresh("", most);
    return c.output(0, c.dtype(0), {taken});
  }
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  const auto axis = c.axis(c.integer("axis", 0), c.rank(0));
  if (!axis) return;
  std::vector<Expr> dims = c.in(0)->dims;
  if (!taken.is_known()) taken = c.fresh("", most.is_known() ? min(most, dims[*axis]) : dims[*axis]);
  dims[*axis] = taken;
  c.output(0, c.dtype(0), std::move(dims));
}
void compress_work(const OpView& v, Work& w) { w.reads[0] = v.output_bytes(0); }

// int4 or int8 blocks with scales: the rows taken are read packed, then dequantised.
AccessResult packed_gather_access(const OpView& v) {
  AccessResult r = gather_access(v);
  for (size_t i = 2; i < v.input_count() && !r.access.empty(); ++i) r.access.inputs.emplace_back().outside = true;
  return r;
}

// Logical elements of one stored element: uint8 holds 8 / bits of them.
int64_t packing(const OpView& v) {
  const int64_t bits_each = std::max<int64_t>(1, v.integer("bits", 4));
  return v.in(0) && v.in(0)->dtype == DType::uint8 ? std::max<int64_t>(1, 8 / bits_each) : 1;
}

void infer_packed_gather(InferContext& c) {
  if (!c.need_inputs(3)) return;
  if (!c.ranked(0) || !c.ranked(1)) return c.output_unranked(0, c.dtype(2));
  const AccessResult r = packed_gather_access(c);
  if (!r.fault.empty()) return c.fail(r.code, r.fault);
  std::vector<Expr> dims = dims_of(r.access, r.access.outputs[0]);
  if (!dims.empty()) dims.back() *= packing(c);
  c.output(0, c.dtype(2), std::move(dims));
}

void packed_gather_work(const OpView& v, Work& w) {
  if (!v.out(0)) return;
  const Expr n = v.out(0)->elements();
  const int64_t block = std::max<int64_t>(1, v.integer("block_size", 128));
  w.reads[0] = storage_bytes(v.dtype(0), floor_div(n, Expr(packing(v))));
  w.reads[2] = storage_bytes(v.dtype(2), ceil_div(n, Expr(block)));
  if (v.has(3)) w.reads[3] = storage_bytes(v.dtype(3), ceil_div(n, Expr(block * packing(v))));
  w.vector_flops = n * 2;
}

constexpr OpInfo table[] = {
    {.name = "Gather", .since = 1, .kind = Kind::lookup, .access = "@v d.., i.. -> i.. d..", .access_rule = gather_access,
     .infer = infer_gather, .value = gather_value, .work = gather_work, .formula = "0; bytes rows taken + indices + outputs"},
    {.name = "GatherElements", .since = 11, .kind = Kind::lookup, .infer = infer_gather_elements, .work = gather_elements_work},
    {.name = "GatherND", .since = 11, .kind = Kind::lookup, .infer = infer_gather_nd, .work = gather_work},
    {.name = "Scatter", .since = 9, .kind = Kind::lookup, .infer = same_as_first, .work = scatter_work<2>, .formula = "0; bytes updates + indices + elements written (in place)"},
    {.name = "ScatterElements", .since = 11, .kind = Kind::lookup, .infer = same_as_first, .work = scatter_work<2>,
     .formula = "1 per update with a reduction; bytes updates + indices + elements written (in place)"},
    {.name = "ScatterND", .since = 11, .kind = Kind::lookup, .infer = same_as_first, .work = scatter_work<2>,
     .formula = "1 per update with a reduction; bytes updates + indices + elements written (in place)"},
    {.name = "TensorScatter", .since = 24, .kind = Kind::lookup, .infer = same_as_first, .work = scatter_work<1>, .formula = "0; bytes twice the update (in place)"},
    {.name = "OneHot", .since = 9, .kind = Kind::lookup, .infer = infer_one_hot, .routing = Routing::one_hot},
    {.name = "NonZero", .since = 9, .kind = Kind::lookup, .infer = infer_non_zero, .value = non_zero_value,
     .work = [](const OpView& v, Work& w) { if (v.in(0)) w.vector_flops = v.in(0)->elements(); }, .routing = Routing::compact, .formula = "one comparison per element"},
    {.name = "Compress", .since = 9, .kind = Kind::lookup, .infer = infer_compress, .work = compress_work},
    {.domain = "com.microsoft", .name = "GatherND", .since = 1, .kind = Kind::lookup, .infer = infer_gather_nd, .work = gather_work},
    {.domain = "com.microsoft", .name = "GatherBlockQuantized", .since = 1, .kind = Kind::lookup, .access = "@v d.., i.., ., . -> i.. d..",
     .access_rule = packed_gather_access, .infer = infer_packed_gather, .work = packed_gather_work, .auxiliary = 0b1100,
     .packed_weight = [](const OpView& v, size_t i) { return i == 0 && v.in(0) ? v.in(0)->elements() * packing(v) : Expr(); },
     .formula = "2*outputs to dequantise; bytes packed rows taken + indices + outputs"},
};

}  // namespace

OpFamily indexing_ops() { return table; }

}  // namespace roofcast
