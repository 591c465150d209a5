#include "time/memory.h"

#include "ops/op_info.h"
#include "support/units.h"

#include <algorithm>
#include <map>

namespace roofcast {
namespace {

// Calls `use` for each value that a node or its bodies read.
template <class F> void uses_of(const Module& m, NodeId id, F&& use) {
  for (ValueId v : m.inputs(m[id])) use(v);
  for (RegionId body : m.regions_of(m[id])) {
    for (NodeId inner : m.regions[body.index].nodes) uses_of(m, inner, use);
    for (ValueId v : m.regions[body.index].outputs) use(v);
  }
}

}  // namespace

MemoryModel::MemoryModel(const Module& module) : m_(module), regions_(module.regions.size()), sizes_(module.values.size()) {
  std::map<std::pair<Type, DType>, uint32_t> index;
  std::vector<uint32_t> root(m_.values.size());  // of a chain of views
  distinct_.push_back(0);
  for (uint32_t i = 0; i < root.size(); ++i) {
    const Value& v = m_.values[i];
    root[i] = i;
    if (v.storage == Storage::weight) weights_ += static_cast<double>(v.stored_bytes);
    if (!v.type || !v.type->is_tensor()) continue;
    const auto [at, is_new] = index.try_emplace({v.type, v.stored}, static_cast<uint32_t>(distinct_.size()));
    if (is_new) distinct_.push_back(storage_bytes(v.stored != DType::undefined ? v.stored : v.type->dtype, v.type->elements()));
    sizes_[i] = at->second;
  }
  for (const Node& node : m_.nodes) {
    const OpInfo* op = m_.instances[node.instance.index].op;
    if (!op || op->kind != Kind::view || node.input_count == 0 || node.output_count == 0) continue;
    const ValueId in = m_.inputs(node)[0], out = m_.outputs(node)[0];
    if (in.valid() && out.valid()) root[out.index] = root[in.index];
  }
  std::vector<uint32_t> last(m_.values.size());
  for (uint32_t r = 0; r < m_.regions.size(); ++r) {
    const Region& region = m_.regions[r];
    const auto count = static_cast<uint32_t>(region.nodes.size());
    std::vector<Step>& steps = regions_[r];
    steps.resize(count);
    // Uses by nodes inside bodies count for the owner in this region.
    for (uint32_t i = 0; i < count; ++i) uses_of(m_, region.nodes[i], [&](ValueId v) {
      if (v.valid()) last[root[v.index]] = i;
    });
    for (ValueId v : region.outputs)
      if (v.valid()) last[root[v.index]] = count;
    for (uint32_t i = 0; i < count; ++i) {
      const Node& node = m_[region.nodes[i]];
      steps[i].bodies.assign(m_.regions_of(node).begin(), m_.regions_of(node).end());
      for (ValueId v : m_.outputs(node)) {
        if (!v.valid() || root[v.index] != v.index || m_[v].storage != Storage::activation) continue;
        steps[i].born.push_back(v.index);
        // One that nobody uses is gone right after its node.
        const uint32_t end = std::max(last[v.index], i);
        if (end < count) steps[end].dead.push_back(v.index);
      }
    }
  }
}

double MemoryModel::peak(RegionId region, const std::vector<double>& bytes) const {
  double live = 0, peak = 0;
  for (const Step& step : regions_[region.index]) {
    for (uint32_t v : step.born) live += bytes[sizes_[v]];
    double inside = 0;
    for (RegionId body : step.bodies) inside = std::max(inside, this->peak(body, bytes));
    peak = std::max(peak, live + inside);
    for (uint32_t v : step.dead) live -= bytes[sizes_[v]];
  }
  return peak;
}

MemoryUse MemoryModel::at(const Bindings& values) const {
  std::vector<double> bytes;
  bytes.reserve(distinct_.size());
  for (Expr e : distinct_) bytes.push_back(std::max(0.0, evaluate_real(e, values).value_or(0)));
  MemoryUse use;
  use.weights = weights_;
  for (ValueId v : m_.main().inputs) use.inputs += bytes[sizes_[v.index]];
  use.activations = peak(RegionId{0}, bytes);
  return use;
}

std::string MemoryUse::why_not(double capacity) const {
  if (total() <= capacity) return {};
  if (weights > capacity) return "weights alone need " + format_bytes(weights) + " of " + format_bytes(capacity);
  return "weights " + format_bytes(weights) + ", inputs " + format_bytes(inputs) + " and live activations " + format_bytes(activations) +
         " are more than " + format_bytes(capacity);
}

}  // namespace roofcast
