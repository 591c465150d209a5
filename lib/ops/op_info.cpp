#include "ops/op_info.h"

#include "support/diagnostic.h"

namespace roofcast {

Expr OpView::bytes(size_t i) const {
  if (i >= instance.inputs.size() || !instance.present[i]) return 0;
  const Type t = instance.inputs[i];
  if (!t || !t->is_tensor()) return {};
  const DType stored = instance.stored[i] == DType::undefined ? t->dtype : instance.stored[i];
  return storage_bytes(stored, t->elements());
}

Expr OpView::output_bytes(size_t i) const {
  const Type t = out(i);
  return t && t->is_tensor() ? storage_bytes(t->dtype, t->elements()) : Expr();
}

std::optional<std::vector<Expr>> OpView::exprs(size_t i) const {
  const Elements e = values(i);
  if (!e) return std::nullopt;
  std::vector<Expr> out;
  for (const Scalar& s : e->items) out.push_back(s.as_expr());
  return out;
}

std::optional<std::vector<int64_t>> OpView::constants(size_t i) const {
  const Elements e = values(i);
  if (!e) return std::nullopt;
  std::vector<int64_t> out;
  for (const Scalar& s : e->items) {
    const std::optional<int64_t> v = s.as_expr().as_constant();
    if (!v) return std::nullopt;
    out.push_back(*v);
  }
  return out;
}

std::optional<double> OpView::scalar(size_t i) const {
  const Elements e = values(i);
  return e && e->items.size() == 1 ? e->items[0].as_double() : std::nullopt;
}

const Attribute* OpView::attribute(std::string_view name) const {
  if (!instance.attributes) return nullptr;
  for (const Attribute& a : instance.attributes->items)
    if (module.names[a.name] == name) return &a;
  return nullptr;
}

int64_t OpView::integer(std::string_view name, int64_t otherwise) const {
  const Attribute* a = attribute(name);
  return a && a->kind == Attribute::Kind::integer ? a->i : otherwise;
}
double OpView::real(std::string_view name, double otherwise) const {
  const Attribute* a = attribute(name);
  return a && a->kind == Attribute::Kind::real ? a->f : otherwise;
}
std::string_view OpView::string(std::string_view name, std::string_view otherwise) const {
  const Attribute* a = attribute(name);
  return a && a->kind == Attribute::Kind::string ? a->s : otherwise;
}
std::optional<std::vector<int64_t>> OpView::integers(std::string_view name) const {
  const Attribute* a = attribute(name);
  return a && a->kind == Attribute::Kind::integers ? std::optional(a->ints) : std::nullopt;
}

void InferContext::output(size_t i, Type type) {
  if (i < target_.outputs.size() && target_.wanted[i]) target_.outputs[i] = type;
}

void InferContext::output_values(size_t i, std::vector<Scalar> items) {
  if (i < target_.outputs.size() && target_.wanted[i] && items.size() <= limits::known_elements)
    target_.output_elements[i] = module.elements(std::move(items));
}

Expr InferContext::fresh(std::string_view what, Expr bound, int64_t lower, Expr expected) {
  target_.only = node_;
  const std::string name = display_name(module, node_) + (what.empty() ? "" : "." + std::string(what));
  const Expr symbol = module.exprs.fresh_symbol(name, SymbolOrigin::data_dependent, lower);
  Symbol& info = module.exprs.info(*symbol.as_symbol());
  info.bound = bound, info.expected = expected;
  info.node = display_name(module, node_);
  info.why = "decided by data in " + std::string(op_name());
  return symbol;
}

void InferContext::fail(std::string_view code, std::string message, std::string hint) {
  if (fault_) return;
  fault_ = error(code, std::string(op_name()) + ": " + std::move(message),
                 {.file = module.file, .node = display_name(module, node_)}, std::move(hint));
}

bool InferContext::need_inputs(size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (!has(i)) {
      fail("onnx-missing-input", "needs " + std::to_string(count) + " inputs, has " + std::to_string(i));
      return false;
    }
  return true;
}

bool InferContext::need_rank(size_t input, size_t at_least, size_t at_most) {
  if (!ranked(input)) return false;
  const size_t r = rank(input);
  if (r >= at_least && r <= at_most) return true;
  fail("rank-mismatch", "input " + std::to_string(input) + " has " + std::to_string(r) + " dims, the op takes " +
                            (at_most == limits::rank ? "at least " + std::to_string(at_least)
                             : at_least == at_most   ? std::to_string(at_least)
                                                     : std::to_string(at_least) + " to " + std::to_string(at_most)));
  return false;
}

std::optional<size_t> InferContext::axis(int64_t axis, size_t rank) {
  const int64_t r = static_cast<int64_t>(rank);
  if (axis >= -r && axis < r) return static_cast<size_t>(axis < 0 ? axis + r : axis);
  fail("onnx-attribute", "axis " + std::to_string(axis) + " is outside of " + std::to_string(rank) + " dims");
  return std::nullopt;
}

AccessResult access_of(const OpView& view) {
  const OpInfo* op = view.instance.op;
  if (!op) return {};
  if (op->access_rule) return op->access_rule(view);
  return op->access.empty() ? AccessResult{} : bind_notation(view, op->access);
}

AccessResult bind_notation(const OpView& view, std::string_view pattern) {
  return bind_access(pattern, view.instance.inputs, view.instance.outputs);
}

}  // namespace roofcast
