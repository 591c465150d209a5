#include "ops/work.h"

#include "ops/count.h"
#include "ops/op_info.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace roofcast {
namespace {

constexpr std::string_view kind_names[kind_count] = {
    "view", "pointwise", "reduction", "softmax", "normalization", "contraction", "convolution", "attention",
    "recurrent", "pooling", "movement", "lookup", "sort", "random", "signal", "image", "moe", "classic_ml",
    "sequence", "control", "collective", "optimizer", "opaque"};
constexpr std::string_view collective_names[] = {"none", "all_reduce", "all_gather", "reduce_scatter",
                                                 "all_to_all", "send_recv", "broadcast"};

// The type that an op computes in: its first floating-point operand's, else its first operand's.
MathType math_of(const OpView& v) {
  for (size_t i = 0; i < v.input_count(); ++i)
    if (v.has(i) && v.in(i) && is_float(v.dtype(i))) return math_type(v.dtype(i));
  if (v.in(0) && v.in(0)->is_tensor()) return math_type(v.dtype(0));
  return v.out(0) && v.out(0)->is_tensor() ? math_type(v.out(0)->dtype) : MathType::none;
}

// Points over the factors that one line runs along.
Expr lines(const Access& access) {
  Expr total = 1;
  for (const Factor& f : access.factors)
    if (f.role == Role::pass) total *= f.size;
  return total;
}

}  // namespace

std::string_view name(Kind kind) { return kind_names[static_cast<int>(kind)]; }
std::string_view name(CollectiveKind kind) { return collective_names[static_cast<int>(kind)]; }

Work count_work(Module& module, const Instance& instance) {
  const OpView view(module, instance);
  Work work;
  work.reads.assign(instance.inputs.size(), 0);
  work.writes.assign(instance.outputs.size(), 0);
  const OpInfo* op = instance.op;
  if (!op) {
    work.uncounted = "unknown operator";
    return work;
  }
  work.kind = op->kind;
  if (instance.outputs.empty()) return work;  // what gives nothing does nothing
  work.math = math_of(view);
  work.access = access_of(view).access;
  if (!op->uncounted.empty()) {
    work.uncounted = op->uncounted;
    return work;
  }
  if (op->kind == Kind::view || op->kind == Kind::control) return work;

  for (size_t i = 0; i < instance.inputs.size(); ++i)
    if (view.has(i) && instance.alias[i] == i && (!view.in(i) || view.in(i)->is_tensor())) work.reads[i] = view.bytes(i);
  for (size_t i = 0; i < instance.outputs.size(); ++i)
    if (view.wants(i) && (!view.out(i) || view.out(i)->is_tensor())) work.writes[i] = view.output_bytes(i);
  const Cost& cost = op->cost;
  if (!work.access.empty()) {
    const Expr points = work.access.points();
    work.matrix_flops = points * cost.matrix_per_point;
    work.vector_flops = points * cost.vector_per_point;
    if (cost.vector_per_line) work.vector_flops += lines(work.access) * cost.vector_per_line;
  }
  if (cost.vector_per_output && view.out(0)) work.vector_flops += view.out(0)->elements() * cost.vector_per_output;
  if (op->work) op->work(view, work);

  auto unknown = [](Expr e) { return !e.is_known(); };
  auto too_large = [](Expr e) { return e.is_overflow(); };
  auto any = [&](auto&& test) {
    if (test(work.matrix_flops) || test(work.vector_flops)) return true;
    for (Expr e : work.reads)
      if (test(e)) return true;
    for (Expr e : work.writes)
      if (test(e)) return true;
    return false;
  };
  if (!work.uncounted.empty()) return work;
  if (any(unknown)) work.uncounted = "a shape is not known";
  else if (any(too_large)) work.uncounted = "a size is beyond 2^62";
  else if (work.access.empty() && (cost.matrix_per_point || cost.vector_per_point)) work.uncounted = "a shape is not known";
  return work;
}

namespace {

// Factors larger than one, in the order in which an operand's dims run over them.
std::vector<uint8_t> order_of(const OperandMap& map, const Problem& p) {
  std::vector<uint8_t> order;
  for (const DimMap& d : map.dims)
    for (uint8_t f : d.factors)
      if (p.factors[f].size != 1) order.push_back(f);
  return order;
}

}  // namespace

std::optional<Problem> bind(const Work& work, const Instance& instance, const Bindings& values) {
  Problem p;
  p.kind = work.kind;
  p.math = work.math;
  p.causal = work.causal, p.windowed = work.windowed;
  auto number = [&](Expr e) { return evaluate_real(e, values); };
  const auto matrix = number(work.matrix_flops), vector = number(work.vector_flops), transfer = number(work.transfer.bytes);
  if (!matrix || !vector || !transfer) return std::nullopt;
  p.matrix_flops = *matrix, p.vector_flops = *vector;
  p.collective = work.transfer.kind, p.transfer_bytes = *transfer, p.axis = work.transfer.axis;
  for (const Factor& f : work.access.factors) p.factors.push_back({evaluate(f.size, values).value_or(1), f.role, 0});
  // Bytes that stay in order need not move: a transpose of dims of one.
  if (work.kind == Kind::movement && work.access.inputs.size() == 1 && work.access.outputs.size() == 1 && !work.access.inputs[0].dims.empty() &&
      order_of(work.access.inputs[0], p) == order_of(work.access.outputs[0], p))
    return Problem{.kind = Kind::view, .math = p.math};
  auto mark = [&](const std::vector<OperandMap>& maps, int shift) {
    for (size_t i = 0; i < maps.size() && i < 16; ++i)
      for (const DimMap& d : maps[i].dims)
        for (uint8_t f : d.factors) p.factors[f].operands |= 1u << (shift + i);
  };
  mark(work.access.inputs, 0), mark(work.access.outputs, 16);
  for (size_t i = 0; i < work.reads.size(); ++i) {
    const auto bytes = number(work.reads[i]);
    if (!bytes) return std::nullopt;
    p.bytes_read += *bytes;
    const DType own = instance.inputs[i] ? instance.inputs[i]->dtype : DType::undefined;
    p.operands.push_back({instance.stored[i] != DType::undefined ? instance.stored[i] : own, *bytes, false});
  }
  for (size_t i = 0; i < work.writes.size(); ++i) {
    const auto bytes = number(work.writes[i]);
    if (!bytes) return std::nullopt;
    p.bytes_written += *bytes;
    p.operands.push_back({instance.outputs[i] ? instance.outputs[i]->dtype : DType::undefined, *bytes, true});
  }
  return p;
}

bool Problem::has_negative_size() const {
  return std::any_of(factors.begin(), factors.end(), [](auto& f) { return f.size < 0; }) ||
         std::any_of(operands.begin(), operands.end(), [](auto& o) { return o.bytes < 0; });
}

bool Problem::operator==(const Problem& o) const {
  auto same_factor = [](const FactorSize& a, const FactorSize& b) { return a.size == b.size && a.role == b.role && a.operands == b.operands; };
  auto same_operand = [](const OperandSize& a, const OperandSize& b) { return a.dtype == b.dtype && a.bytes == b.bytes && a.is_output == b.is_output; };
  return kind == o.kind && math == o.math && matrix_flops == o.matrix_flops && vector_flops == o.vector_flops &&
         bytes_read == o.bytes_read && bytes_written == o.bytes_written && collective == o.collective &&
         transfer_bytes == o.transfer_bytes && axis == o.axis && ranks == o.ranks && causal == o.causal && windowed == o.windowed && cycle == o.cycle &&
         std::equal(factors.begin(), factors.end(), o.factors.begin(), o.factors.end(), same_factor) &&
         std::equal(operands.begin(), operands.end(), o.operands.begin(), o.operands.end(), same_operand);
}

size_t hash_value(const Problem& p) {
  size_t h = static_cast<size_t>(p.kind) * 31 + static_cast<size_t>(p.math);
  auto mix = [&](double v) { h = (h ^ std::hash<double>()(v)) * 0x9E3779B97F4A7C15ull, h ^= h >> 29; };
  mix(p.matrix_flops), mix(p.vector_flops), mix(p.bytes_read), mix(p.bytes_written), mix(p.transfer_bytes);
  for (const FactorSize& f : p.factors) mix(static_cast<double>(f.size));
  return h;
}

}  // namespace roofcast
