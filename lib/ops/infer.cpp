#include "ops/infer.h"

#include "ops/values.h"

namespace roofcast {
namespace {

// Dims from the access, element type from the row or the first input.
void infer_from_access(InferContext& c) {
  const OpInfo& op = *c.instance.op;
  const AccessResult r = access_of(c);
  if (!r.fault.empty()) return c.fail(r.code, r.fault);
  for (size_t i = 0; i < c.output_count(); ++i) {
    const DType dtype = op.result != DType::undefined ? op.result : c.dtype(0);
    if (dtype == DType::undefined) continue;
    if (i < r.access.outputs.size() && !r.access.outputs[i].outside) c.output(i, dtype, dims_of(r.access, r.access.outputs[i]));
    else if (r.access.empty()) c.output_unranked(i, dtype);
  }
}

}  // namespace

std::optional<Diagnostic> infer_instance(Module& module, InstanceId id, NodeId node) {
  // Rules may intern types and elements but never Instances, so the reference stays good.
  Instance& instance = module.instances[id.index];
  instance.outputs.assign(instance.wanted.size(), nullptr);
  instance.output_elements.assign(instance.wanted.size(), nullptr);
  if (!instance.op || instance.outputs.empty()) return std::nullopt;  // what gives nothing does nothing
  InferContext context(module, instance, node);
  if (instance.op->infer) instance.op->infer(context);
  else if (!instance.op->access.empty() || instance.op->access_rule) infer_from_access(context);
  if (context.failed()) return context.fault();
  for (Type t : instance.outputs) {
    if (!t) continue;
    for (Expr d : t->dims) {
      if (d.is_overflow()) context.fail("dim-overflow", "an output dim is beyond 2^62");
      if (d.is_constant() && d.constant() < 0) context.fail("dim-negative", "an output dim is " + d.text(), "check --shape");
    }
    if (t->dims.size() > limits::rank) context.fail("rank-mismatch", "an output has more than " + std::to_string(limits::rank) + " dims");
  }
  if (context.failed()) return context.fault();
  if (instance.op->value && !instance.outputs.empty() && instance.outputs[0] && !instance.output_elements[0]) {
    const auto size = small_size(instance.outputs[0]);
    auto items = instance.op->value(context);
    if (items && size && items->size() == *size) instance.output_elements[0] = module.elements(std::move(*items));
  }
  return std::nullopt;
}

}  // namespace roofcast
