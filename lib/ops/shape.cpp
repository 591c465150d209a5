// Ops on shapes, and those that only rename bytes: Shape, Reshape, Squeeze, Identity, Constant, Range.
#include "ops/op_table.h"
#include "ops/rules.h"

#include <algorithm>
#include <cmath>

namespace roofcast {
namespace {

using Values = std::optional<std::vector<Scalar>>;

// Shape with optional start and end (opset 15).
void infer_shape(InferContext& c) {
  if (!c.need_inputs(1)) return;
  if (!c.ranked(0)) return c.output(0, DType::int64, {Expr()});
  const int64_t rank = static_cast<int64_t>(c.rank(0));
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = clamp(c.integer("start", 0)), end = clamp(c.integer("end", rank));
  c.output(0, DType::int64, {std::max<int64_t>(0, end - start)});
}
Values shape_value(const OpView& v) {
  if (!v.ranked(0)) return std::nullopt;
  const int64_t rank = static_cast<int64_t>(v.rank(0));
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  std::vector<Scalar> out;
  for (int64_t d = clamp(v.integer("start", 0)); d < clamp(v.integer("end", rank)); ++d) out.push_back(Scalar::integer(v.dim(0, d)));
  return out;
}

// The target dims of a Reshape: 0 copies (unless allowzero), one −1 takes what is left.
std::optional<std::vector<Expr>> reshape_dims(const OpView& v, std::string& fault) {
  std::vector<Expr> target;
  if (v.opset() < 5) {
    const auto attribute = v.integers("shape");
    if (!attribute) return std::nullopt;
    target.assign(attribute->begin(), attribute->end());
  } else {
    const auto values = v.exprs(1);
    if (!values) return std::nullopt;
    target = *values;
  }
  const bool ranked = v.ranked(0);
  const bool copies = v.integer("allowzero", 0) == 0;
  std::optional<size_t> open;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] == Expr(0) && copies) {
      if (ranked && i >= v.rank(0)) return fault = "dim 0 copies dim " + std::to_string(i) + ", which the input lacks", std::nullopt;
      target[i] = ranked ? v.dim(0, i) : Expr();
    } else if (target[i] == Expr(-1)) {
      if (open) return fault = "two dims are -1", std::nullopt;
      open = i;
    } else if (target[i].is_constant() && target[i].constant() < 0) {
      return fault = "dim " + target[i].text() + " in the target shape", std::nullopt;
    }
  }
  if (!ranked) {
    if (open) target[*open] = {};
    return target;
  }
  // Equal dims on both sides cancel first, so that symbols divide out.
  std::vector<Expr> have = v.in(0)->dims, want;
  for (size_t i = 0; i < target.size(); ++i) {
    if (open && *open == i) continue;
    auto at = target[i].is_known() && target[i] != Expr(0) ? std::find(have.begin(), have.end(), target[i]) : have.end();
    if (at != have.end()) have.erase(at);
    else want.push_back(target[i]);
  }
  const Expr from = product(have), to = product(want);
  if (open) {
    const auto q = exact_div(from, to);
    if (from.is_constant() && to.is_constant() && !q)
      return fault = from.text() + " elements do not divide by " + to.text(), std::nullopt;
    target[*open] = q ? *q : floor_div(from, to);
  } else if (from.is_constant() && to.is_constant() && from != to) {
    return fault = "the input has " + v.in(0)->elements().text() + " elements, the target " + product(target).text(), std::nullopt;
  }
  return target;
}

void infer_reshape(InferContext& c) {
  if (!c.need_inputs(c.opset() < 5 ? 1 : 2)) return;
  std::string fault;
  if (auto dims = reshape_dims(c, fault)) return c.output(0, c.dtype(0), std::move(*dims));
  if (!fault.empty()) return c.fail("dim-mismatch", fault, "check --shape");
  // The target is not known, but its length may be.
  if (c.ranked(1) && c.rank(1) == 1)
    if (const auto n = c.dim(1, 0).as_constant(); n && *n <= static_cast<int64_t>(limits::rank))
      return c.output(0, c.dtype(0), std::vector<Expr>(static_cast<size_t>(*n)));
  c.output_unranked(0, c.dtype(0));
}

// Equal running products close a group: b s (h d) -> b s h d. Within it dims are taken apart into
// what both sides are made of; a group where that does not come out even is one factor that runs whole.
AccessResult regroup_access(const OpView& v) {
  const Type in = v.in(0), out = v.out(0);
  if (!in || !out || !in->is_tensor() || !out->is_tensor() || !in->fully_known() || !out->fully_known()) return {};
  AccessBuilder builder;
  OperandMap from, to;
  size_t i = 0, o = 0;
  const auto& a = in->dims;
  const auto& b = out->dims;
  while (i < a.size() || o < b.size()) {
    size_t i_end = i, o_end = o;
    Expr left = 1, right = 1;
    if (i_end < a.size()) left = a[i_end++];
    if (o_end < b.size()) right = b[o_end++];
    while (left != right) {
      const bool grow_left = o_end == b.size() || (i_end < a.size() && exact_div(right, left).has_value());
      if (grow_left && i_end < a.size()) left *= a[i_end++];
      else if (o_end < b.size()) right *= b[o_end++];
      else if (i_end < a.size()) left *= a[i_end++];
      else break;
    }
    // The factors of each dim of the group, outermost first.
    std::vector<std::vector<Expr>> left_parts(i_end - i), right_parts(o_end - o);
    bool even = left == right;
    for (size_t x = i, y = o; even && x < i_end && y < o_end;) {
      Expr p = a[x], q = b[y];
      while (even && p != q) {
        if (const auto rest = exact_div(q, p); rest && ++x < i_end) {
          left_parts[x - 1 - i].push_back(p), right_parts[y - o].push_back(p);
          q = *rest, p = a[x];
        } else if (const auto more = exact_div(p, q); more && !rest && ++y < o_end) {
          left_parts[x - i].push_back(q), right_parts[y - 1 - o].push_back(q);
          p = *more, q = b[y];
        } else {
          even = false;
        }
      }
      if (even) left_parts[x++ - i].push_back(p), right_parts[y++ - o].push_back(p);
    }
    const std::string name = "f" + std::to_string(i) + "_";
    if (even) {
      std::vector<uint8_t> numbers;
      size_t count = 0;
      for (const auto& parts : left_parts)
        for (Expr size : parts) numbers.push_back(builder.factor(name + std::to_string(count++), size));
      auto map = [&](OperandMap& m, const std::vector<std::vector<Expr>>& dims) {
        size_t at = 0;
        for (const auto& parts : dims) {
          m.dims.push_back({DimMap::Kind::product, {numbers.begin() + at, numbers.begin() + at + parts.size()}});
          at += parts.size();
        }
      };
      // A dim of one on one side only stands outside of the factors.
      map(from, left_parts), map(to, right_parts);
    } else {
      const uint8_t f = builder.factor(name + "whole", left, Role::whole);
      for (size_t k = i; k < i_end; ++k) from.dims.push_back({DimMap::Kind::product, k > i ? std::vector<uint8_t>{} : std::vector<uint8_t>{f}});
      for (size_t k = o; k < o_end; ++k) to.dims.push_back({DimMap::Kind::product, k > o ? std::vector<uint8_t>{} : std::vector<uint8_t>{f}});
    }
    i = i_end, o = o_end;
  }
  builder.input() = std::move(from);
  for (size_t k = 1; k < v.input_count(); ++k) builder.input().outside = true;
  builder.output() = std::move(to);
  return {builder.take(), {}, {}};
}

void infer_flatten(InferContext& c) {
  if (!c.need_inputs(1)) return;
  if (!c.ranked(0)) return c.output(0, c.dtype(0), {Expr(), Expr()});
  const int64_t rank = static_cast<int64_t>(c.rank(0)), axis = c.integer("axis", 1);
  if (axis < -rank || axis > rank) return c.fail("onnx-attribute", "axis " + std::to_string(axis) + " is outside of " + std::to_string(rank) + " dims");
  const auto& dims = c.in(0)->dims;
  const auto middle = dims.begin() + (axis < 0 ? axis + rank : axis);
  c.output(0, c.dtype(0), {product({dims.begin(), middle}), product({middle, dims.end()})});
}

// Axes of Squeeze and Unsqueeze: an attribute before opset 13, then an input.
std::optional<std::vector<int64_t>> axes_of(const OpView& v) {
  if (v.opset() < 13 || !v.has(1)) return v.integers("axes");
  return v.constants(1);
}

void infer_squeeze(InferContext& c) {
  if (!c.need_inputs(1)) return;
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  const auto axes = axes_of(c);
  if (!axes && c.opset() >= 13 && c.has(1)) return c.output_unranked(0, c.dtype(0));
  std::vector<Expr> dims;
  if (axes) {
    const auto at = normalize_axes(c, *axes, c.rank(0));
    if (!at) return;
    for (size_t d = 0; d < c.rank(0); ++d) {
      if (std::find(at->begin(), at->end(), d) == at->end()) dims.push_back(c.dim(0, d));
      else if (c.dim(0, d).is_constant() && c.dim(0, d) != Expr(1))
        return c.fail("dim-mismatch", "dim " + std::to_string(d) + " is " + c.dim(0, d).text() + ", only 1 can be squeezed");
    }
  } else {
    for (Expr d : c.in(0)->dims)
      if (d != Expr(1)) dims.push_back(d);
    if (std::any_of(dims.begin(), dims.end(), [](Expr d) { return !d.is_known(); })) return c.output_unranked(0, c.dtype(0));
  }
  c.output(0, c.dtype(0), std::move(dims));
}

void infer_unsqueeze(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const auto axes = axes_of(c);
  if (!axes || !c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  const size_t rank = c.rank(0) + axes->size();
  const auto at = normalize_axes(c, *axes, rank);
  if (!at) return;
  std::vector<Expr> dims;
  for (size_t d = 0, from = 0; d < rank; ++d)
    dims.push_back(std::find(at->begin(), at->end(), d) != at->end() ? Expr(1) : c.dim(0, from++));
  c.output(0, c.dtype(0), std::move(dims));
}

// A Constant's one attribute is its value.
void infer_constant(InferContext& c) {
  auto scalars = [&](DType dtype, std::vector<Expr> dims, std::vector<Scalar> items) {
    c.output(0, dtype, std::move(dims));
    c.output_values(0, std::move(items));
  };
  if (!c.instance.attributes) return;
  for (const Attribute& a : c.instance.attributes->items) {
    const std::string_view name = c.module.names[a.name];
    if (name == "value" || name == "sparse_value") {
      c.output(0, a.tensor.type);
      if (a.tensor.elements) c.output_values(0, a.tensor.elements->items);
    } else if (name == "value_int") {
      scalars(DType::int64, {}, {Scalar::saturated(a.i)});
    } else if (name == "value_float") {
      scalars(DType::float32, {}, {Scalar::from_double(a.f)});
    } else if (name == "value_string") {
      c.output(0, DType::string, {});
    } else if (name == "value_ints") {
      std::vector<Scalar> items;
      for (int64_t i : a.ints) items.push_back(Scalar::saturated(i));
      scalars(DType::int64, {static_cast<int64_t>(a.ints.size())}, std::move(items));
    } else if (name == "value_floats") {
      std::vector<Scalar> items;
      for (double f : a.floats) items.push_back(Scalar::from_double(f));
      scalars(DType::float32, {static_cast<int64_t>(a.floats.size())}, std::move(items));
    } else if (name == "value_strings") {
      c.output(0, DType::string, {static_cast<int64_t>(a.strings.size())});
    }
  }
}

void infer_constant_of_shape(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const Attribute* value = c.attribute("value");
  const bool given = value && value->kind == Attribute::Kind::tensor && value->tensor.type;
  const DType dtype = given ? value->tensor.type->dtype : DType::float32;
  if (const auto dims = c.exprs(0)) return c.output(0, dtype, *dims);
  if (c.ranked(0) && c.rank(0) == 1)
    if (const auto n = c.dim(0, 0).as_constant(); n && *n <= static_cast<int64_t>(limits::rank))
      return c.output(0, dtype, std::vector<Expr>(static_cast<size_t>(*n)));
  c.output_unranked(0, dtype);
}
Values constant_of_shape_value(const OpView& v) {
  const auto n = small_size(v.out(0));
  if (!n) return std::nullopt;
  Scalar item = Scalar::integer(0);
  if (const Attribute* value = v.attribute("value"); value && value->kind == Attribute::Kind::tensor) {
    if (!value->tensor.elements || value->tensor.elements->items.size() != 1) return std::nullopt;
    item = value->tensor.elements->items[0];
  }
  return std::vector<Scalar>(*n, item);
}

// Range: max(0, ceil((limit − start) / delta)) elements.
// com.microsoft's may leave the step out.
Scalar range_item(const OpView& v, size_t i) {
  if (i == 2 && !v.has(2) && v.instance.op->domain == "com.microsoft") return Scalar::integer(1);
  return v.values(i) && v.values(i)->items.size() == 1 ? v.values(i)->items[0] : Scalar{};
}
void infer_range(InferContext& c) {
  if (!c.need_inputs(c.instance.op->domain == "com.microsoft" ? 2 : 3)) return;
  const Scalar item[] = {range_item(c, 0), range_item(c, 1), range_item(c, 2)};
  Expr count;
  const Scalar span = subtract(item[1], item[0]);
  if (item[2].is_known() && item[2].as_double().value_or(1) == 0) return c.fail("onnx-attribute", "delta is 0");
  if (item[0].is_known() && item[1].is_known() && item[2].is_known()) {
    const Expr e = ceil(divide(span, item[2])).as_expr();
    count = max(e, 0);
  }
  c.output(0, c.dtype(0), {count.is_known() ? count : c.fresh("", {})});
}
Values range_value(const OpView& v) {
  const auto n = small_size(v.out(0));
  const Scalar start = range_item(v, 0), step = range_item(v, 2);
  if (!n || !start.is_known() || !step.is_known()) return std::nullopt;
  std::vector<Scalar> out{start};
  while (out.size() < *n) out.push_back(add(out.back(), step));
  out.resize(*n);
  return out;
}

void range_work(const OpView& v, Work& w) {
  for (Expr& r : w.reads) r = 0;
  if (v.out(0)) w.vector_flops = v.out(0)->elements();
}

// Expand: two-sided broadcast of the input's dims with the target.
void infer_expand(InferContext& c) {
  if (!c.need_inputs(2)) return;
  const auto target = c.exprs(1);
  if (!c.ranked(0) || !target) {
    if (c.ranked(1) && c.rank(1) == 1 && c.ranked(0))
      if (const auto n = c.dim(1, 0).as_constant(); n && *n <= static_cast<int64_t>(limits::rank))
        return c.output(0, c.dtype(0), std::vector<Expr>(std::max<size_t>(static_cast<size_t>(*n), c.rank(0))));
    return c.output_unranked(0, c.dtype(0));
  }
  const Type wanted = c.module.tensor(c.dtype(0), *target);
  const Type operands[] = {c.in(0), wanted};
  const AccessResult r = bind_access("b.., b.. -> b..", operands, {});
  if (!r.fault.empty()) return c.fail(r.code, r.fault);
  c.output(0, c.dtype(0), dims_of(r.access, r.access.outputs[0]));
}
Values expand_value(const OpView& v) {
  const auto n = small_size(v.out(0));
  const auto own = small_size(v.in(0));
  if (!n || !own || !v.values(0) || v.values(0)->items.size() != *own) return std::nullopt;
  if (!broadcasts(v.out(0), v.in(0))) return std::nullopt;
  std::vector<Scalar> out;
  for (size_t i = 0; i < *n; ++i) out.push_back(v.values(0)->items[broadcast_index(i, v.out(0), v.in(0))]);
  return out;
}

Values size_value(const OpView& v) {
  if (!v.ranked(0)) return std::nullopt;
  return std::vector<Scalar>{Scalar::integer(v.in(0)->elements())};
}

void no_shape_read(const OpView& v, Work& w) { read_bytes(v, w, 1, 0); }

constexpr OpInfo table[] = {
    {.name = "Shape", .since = 1, .kind = Kind::view, .infer = infer_shape, .value = shape_value, .reads_shape_only = true},
    {.name = "Size", .since = 1, .kind = Kind::view, .infer = [](InferContext& c) { if (c.need_inputs(1)) c.output(0, DType::int64, {}); }, .value = size_value, .reads_shape_only = true},
    {.name = "Identity", .since = 1, .kind = Kind::view, .access = "b.. -> b..", .infer = same_as_first, .value = pass_value},
    {.name = "Reshape", .since = 1, .kind = Kind::view, .access = "(equal running products close a group)", .access_rule = regroup_access, .infer = infer_reshape, .value = pass_value},
    {.name = "Flatten", .since = 1, .kind = Kind::view, .access = "(equal running products close a group)", .access_rule = regroup_access, .infer = infer_flatten, .value = pass_value},
    {.name = "Squeeze", .since = 1, .kind = Kind::view, .access = "(equal running products close a group)", .access_rule = regroup_access, .infer = infer_squeeze, .value = pass_value},
    {.name = "Unsqueeze", .since = 1, .kind = Kind::view, .access = "(equal running products close a group)", .access_rule = regroup_access, .infer = infer_unsqueeze, .value = pass_value},
    {.name = "Constant", .since = 1, .kind = Kind::view, .infer = infer_constant},
    {.name = "ConstantOfShape", .since = 9, .kind = Kind::movement, .infer = infer_constant_of_shape, .value = constant_of_shape_value, .work = [](const OpView& v, Work& w) { read_bytes(v, w, 0, 0); }},
    {.name = "Range", .since = 11, .kind = Kind::movement, .infer = infer_range,
     .value = range_value, .work = range_work, .formula = "n"},
    {.domain = "com.microsoft", .name = "Range", .kind = Kind::movement, .infer = infer_range,
     .value = range_value, .work = range_work, .formula = "n"},
    {.name = "Expand", .since = 8, .kind = Kind::movement, .access = "b.., . -> b..", .infer = infer_expand, .value = expand_value, .work = no_shape_read},
};

}  // namespace

OpFamily shape_ops() { return table; }

}  // namespace roofcast
