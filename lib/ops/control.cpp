// Control ops: their own work is nothing, their bodies run so many trips.
#include "ops/op_table.h"
#include "ops/rules.h"

namespace roofcast {
namespace {

Expr constant_of(Elements e) { return e && e->items.size() == 1 ? e->items[0].as_expr() : Expr(); }

Expr fresh_with_origin(InferContext& c, std::string_view what, SymbolOrigin origin, Expr bound, std::string why) {
  const Expr s = c.fresh(what, bound);
  Symbol& info = c.module.exprs.info(*s.as_symbol());
  info.origin = origin;
  info.why = std::move(why);
  return s;
}

// What holds of both: equal parts; dims that differ are unknown, or chosen by `pick`.
template <class F> Type merge(Module& m, Type a, Type b, F&& pick) {
  if (!a || !b) return a ? a : b;
  if (a == b) return a;
  if (a->kind != b->kind || a->dtype != b->dtype) return nullptr;
  if (!a->is_tensor()) return a;
  if (!a->ranked || !b->ranked || a->dims.size() != b->dims.size()) return m.unranked(a->dtype);
  std::vector<Expr> dims;
  for (size_t d = 0; d < a->dims.size(); ++d) dims.push_back(a->dims[d] == b->dims[d] ? a->dims[d] : pick(a->dims[d], b->dims[d]));
  return m.tensor(a->dtype, std::move(dims));
}

// If: a condition that is known picks its branch; else a symbol of the node's name is 1 for then.
void control_if(InferContext& c, Bodies& bodies) {
  if (!c.need_inputs(1)) return;
  size_t then_body = 0, else_body = 1;
  if (bodies.count() != 2) return c.fail("onnx-attribute", "needs a then_branch and an else_branch");
  if (bodies.name(0) == "else_branch") std::swap(then_body, else_body);
  // The branch that is not taken may be wrong for these shapes, as one that no input ever takes.
  Expr known = constant_of(c.values(0));
  if (known.is_constant()) {
    bodies.infer(known != Expr(0) ? then_body : else_body);
  } else {
    const bool then_fine = bodies.try_infer(then_body);
    if (!then_fine) bodies.infer(else_body), known = 0;
    else if (!bodies.try_infer(else_body)) known = 1;
  }
  if (c.failed()) return;
  const Expr s = known.is_constant() ? Expr(known != Expr(0) ? 1 : 0)
                                     : fresh_with_origin(c, "", SymbolOrigin::branch, 1, "decided by data: 1 takes the then branch, 0 the else branch");
  bodies.set_trips(then_body, s), bodies.set_trips(else_body, Expr(1) - s);
  for (size_t i = 0; i < c.output_count(); ++i) {
    const Type a = i < bodies.output_count(then_body) ? bodies.output(then_body, i) : nullptr;
    const Type b = i < bodies.output_count(else_body) ? bodies.output(else_body, i) : nullptr;
    if (known.is_constant()) {
      const size_t taken = known != Expr(0) ? then_body : else_body;
      c.output(i, known != Expr(0) ? a : b);
      if (i < bodies.output_count(taken))
        if (const Elements e = bodies.output_elements(taken, i)) c.output_values(i, e->items);
    } else {
      c.output(i, merge(c.module, a, b, [&](Expr x, Expr y) { return s * x + (Expr(1) - s) * y; }));
    }
  }
}

// Loop: carried values may grow by the same amount each trip; then the body is counted at its average
// size, which is exact for work that is linear in it.
void control_loop(InferContext& c, Bodies& bodies) {
  if (bodies.count() != 1) return c.fail("onnx-attribute", "needs one body");
  if (bodies.input_count(0) < 2 || c.input_count() < 2 || bodies.output_count(0) < 1) return c.fail("onnx-attribute", "its body needs an iteration number and a condition");
  const size_t carried = std::min(bodies.input_count(0) - 2, c.input_count() - 2);
  const Expr most = c.has(0) ? constant_of(c.values(0)) : Expr();
  const Elements start = c.has(1) ? c.values(1) : c.module.elements({Scalar::integer(1)});
  const Type scalar = c.module.tensor(DType::int64, {}), flag = c.module.tensor(DType::boolean, {});
  bodies.bind_input(0, 0, scalar, nullptr);
  bodies.bind_input(0, 1, flag, start);
  std::vector<Type> initial;
  for (size_t i = 0; i < carried; ++i) {
    initial.push_back(c.in(2 + i));
    bodies.bind_input(0, 2 + i, initial[i], nullptr);
  }
  bodies.infer(0);
  if (c.failed()) return;
  const Expr goes_on = constant_of(bodies.output_elements(0, 0)), begins = constant_of(start);
  Expr trips;
  if (begins == Expr(0)) trips = 0;
  else if (goes_on.is_constant() && goes_on != Expr(0) && begins.is_constant() && most.is_known()) trips = max(most, 0);
  else trips = fresh_with_origin(c, "", SymbolOrigin::trip_count, c.has(0) ? most : Expr(), "trips of a loop that data ends");

  // Growth of the first trip, and whether a later one grows alike.
  std::vector<Type> after(carried), average = initial;
  bool grows = false;
  for (size_t i = 0; i < carried; ++i) {
    const Type out = 1 + i < bodies.output_count(0) ? bodies.output(0, 1 + i) : nullptr;
    after[i] = merge(c.module, initial[i], out, [](Expr, Expr) { return Expr(); });
    // A sequence that was empty so far says nothing of its elements.
    if (initial[i] && out && initial[i]->kind == TypeKind::sequence && out->kind == TypeKind::sequence) {
      const Type element = initial[i]->element;
      after[i] = !element || (element->is_tensor() && !element->ranked) || initial[i] == out ? out : c.module.type({.kind = TypeKind::sequence, .element = merge(c.module, element, out->element, [](Expr, Expr) { return Expr(); })});
    }
    if (!out || !initial[i] || out == initial[i] || !after[i] || !after[i]->is_tensor() || !after[i]->ranked) {
      if (out != initial[i]) average[i] = after[i], grows = true;
      continue;
    }
    std::vector<Expr> mean, last;
    for (size_t d = 0; d < out->dims.size(); ++d) {
      const Expr a = initial[i]->dims[d], step = out->dims[d] - a;
      mean.push_back(a + floor_div(step * (trips - 1), 2));
      last.push_back(a + step * trips);
    }
    average[i] = c.module.tensor(out->dtype, std::move(mean));
    after[i] = c.module.tensor(out->dtype, std::move(last));
    grows = true;
  }
  if (grows) {
    for (size_t i = 0; i < carried; ++i) bodies.bind_input(0, 2 + i, average[i], nullptr);
    bodies.infer(0);
    if (c.failed()) return;
    for (size_t i = 0; i < carried; ++i) {
      const Type out = 1 + i < bodies.output_count(0) ? bodies.output(0, 1 + i) : nullptr;
      if (!average[i] || !after[i] || !initial[i] || !out || !average[i]->is_tensor() || !average[i]->ranked || !out->is_tensor() || !out->ranked) continue;
      // A dim whose growth is not the same at the average size is not known after the loop.
      std::vector<Expr> dims;
      for (size_t d = 0; d < std::min(out->dims.size(), after[i]->dims.size()); ++d) {
        const Expr step = out->dims[d] - average[i]->dims[d];
        const bool steady = step.is_known() && initial[i]->ranked && d < initial[i]->dims.size() && initial[i]->dims[d] + step * trips == after[i]->dims[d];
        dims.push_back(steady ? after[i]->dims[d] : Expr());
      }
      after[i] = c.module.tensor(out->dtype, std::move(dims));
    }
  }
  bodies.set_trips(0, trips);
  for (size_t i = 0; i < c.output_count(); ++i) {
    if (i < carried) {
      c.output(i, after[i]);
    } else if (1 + i < bodies.output_count(0)) {
      const Type item = bodies.output(0, 1 + i);
      if (!item || !item->is_tensor()) continue;
      if (!item->ranked) {
        c.output_unranked(i, item->dtype);
        continue;
      }
      std::vector<Expr> dims{trips};
      dims.insert(dims.end(), item->dims.begin(), item->dims.end());
      c.output(i, item->dtype, std::move(dims));
    }
  }
}

// Scan: states, then inputs that are stepped through along an axis. Before opset 9 a batch dim comes
// first and the axis is always the second one.
void control_scan(InferContext& c, Bodies& bodies) {
  if (bodies.count() != 1) return c.fail("onnx-attribute", "needs one body");
  const bool batched = c.opset() < 9;
  const size_t first = batched ? 1 : 0;  // opset 8: sequence_lens comes first
  const int64_t scans = c.integer("num_scan_inputs", 0);
  if (scans < 0 || static_cast<size_t>(scans) + first > c.input_count()) return c.fail("onnx-attribute", "num_scan_inputs is out of range");
  const size_t states = c.input_count() - first - static_cast<size_t>(scans);
  const auto in_axes = c.integers("scan_input_axes"), out_axes = c.integers("scan_output_axes");
  Expr trips, batch = 1;
  for (size_t i = 0; i < states + static_cast<size_t>(scans); ++i) {
    Type t = c.in(first + i);
    if (t && t->is_tensor() && t->ranked) {
      std::vector<Expr> dims = t->dims;
      if (batched && !dims.empty()) batch = dims[0], dims.erase(dims.begin());
      if (i >= states) {
        const size_t k = i - states;
        const auto at = c.axis(!batched && in_axes && k < in_axes->size() ? (*in_axes)[k] : 0, dims.size());
        if (!at) return;
        if (!trips.is_known()) trips = dims[*at];
        dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(*at));
      }
      t = c.module.tensor(t->dtype, std::move(dims));
    } else if (t && t->is_tensor() && i >= states) {
      t = c.module.unranked(t->dtype);
    }
    if (i < bodies.input_count(0)) bodies.bind_input(0, i, t, nullptr);
  }
  bodies.infer(0);
  if (c.failed()) return;
  if (!trips.is_known()) trips = fresh_with_origin(c, "", SymbolOrigin::trip_count, {}, "length of the scanned axis is not known");
  bodies.set_trips(0, trips * batch);
  for (size_t i = 0; i < c.output_count() && i < bodies.output_count(0); ++i) {
    const Type item = bodies.output(0, i);
    if (!item || !item->is_tensor()) continue;
    if (!item->ranked) {
      c.output_unranked(i, item->dtype);
      continue;
    }
    std::vector<Expr> dims = item->dims;
    if (i >= states) {
      const size_t k = i - states;
      const auto at = c.axis(!batched && out_axes && k < out_axes->size() ? (*out_axes)[k] : 0, dims.size() + 1);
      if (!at) return;
      dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(*at), trips);
    }
    if (batched) dims.insert(dims.begin(), batch);
    c.output(i, item->dtype, std::move(dims));
  }
}

// SequenceMap: the body once for each element of the first sequence.
void control_sequence_map(InferContext& c, Bodies& bodies) {
  if (bodies.count() != 1) return c.fail("onnx-attribute", "needs one body");
  for (size_t i = 0; i < c.input_count() && i < bodies.input_count(0); ++i) {
    const Type t = c.in(i);
    bodies.bind_input(0, i, t && t->kind == TypeKind::sequence ? t->element : t, nullptr);
  }
  bodies.infer(0);
  if (c.failed()) return;
  bodies.set_trips(0, fresh_with_origin(c, "", SymbolOrigin::trip_count, {}, "length of a sequence"));
  for (size_t i = 0; i < c.output_count() && i < bodies.output_count(0); ++i)
    if (const Type item = bodies.output(0, i)) c.output(i, c.module.type({.kind = TypeKind::sequence, .element = item}));
}

constexpr std::string_view bodies_only = "0 of its own; its bodies' × trips";

constexpr OpInfo table[] = {
    {.name = "If", .since = 1, .kind = Kind::control, .control = control_if, .formula = bodies_only},
    {.name = "Loop", .since = 1, .kind = Kind::control, .control = control_loop, .formula = bodies_only},
    {.name = "Scan", .since = 8, .kind = Kind::control, .control = control_scan, .formula = bodies_only},
    {.name = "SequenceMap", .since = 17, .kind = Kind::control, .control = control_sequence_map, .formula = bodies_only},
};

}  // namespace

OpFamily control_ops() { return table; }

}  // namespace roofcast
