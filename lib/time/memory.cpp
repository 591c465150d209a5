#include "time/memory.h"

#include "ops/op_info.h"
#include "support/units.h"

#include <algorithm>

namespace roofcast {
namespace {

double bytes_of(const Value& v, const Bindings& values) {
  if (!v.type || !v.type->is_tensor()) return 0;
  const DType dtype = v.stored != DType::undefined ? v.stored : v.type->dtype;
  return evaluate_real(storage_bytes(dtype, v.type->elements()), values).value_or(0);
}

class Liveness {
public:
  Liveness(const Module& m, const Bindings& values) : m_(m), values_(values), root_(m.values.size()) {
    for (uint32_t i = 0; i < root_.size(); ++i) root_[i] = i;
    for (const Node& node : m.nodes) {
      const OpInfo* op = m.instances[node.instance.index].op;
      if (!op || op->kind != Kind::view || node.input_count == 0 || node.output_count == 0) continue;
      const ValueId in = m.inputs(node)[0], out = m.outputs(node)[0];
      if (in.valid() && out.valid()) root_[out.index] = root_[in.index];
    }
  }

  double peak(RegionId id) const {
    const Region& region = m_.regions[id.index];
    // Uses by nodes inside bodies count for the owner in this region.
    std::vector<uint32_t> last(m_.values.size(), 0);
    auto use = [&](ValueId v, uint32_t at) {
      if (v.valid()) last[root_[v.index]] = std::max(last[root_[v.index]], at);
    };
    for (uint32_t i = 0; i < region.nodes.size(); ++i) uses_of(region.nodes[i], i + 1, use);
    for (ValueId v : region.outputs) use(v, static_cast<uint32_t>(region.nodes.size()) + 1);
    std::vector<std::vector<double>> freed(region.nodes.size() + 3);
    double live = 0, peak = 0;
    for (uint32_t i = 0; i < region.nodes.size(); ++i) {
      const Node& node = m_[region.nodes[i]];
      for (ValueId v : m_.outputs(node)) {
        if (!v.valid() || root_[v.index] != v.index || m_[v].storage != Storage::activation) continue;
        const double bytes = bytes_of(m_[v], values_);
        live += bytes;
        freed[std::max(last[v.index], i + 1)].push_back(bytes);
      }
      double inside = 0;
      for (RegionId body : m_.regions_of(node)) inside = std::max(inside, this->peak(body));
      peak = std::max(peak, live + inside);
      for (double bytes : freed[i + 1]) live -= bytes;
    }
    return peak;
  }

private:
  template <class F> void uses_of(NodeId id, uint32_t at, F&& use) const {
    for (ValueId v : m_.inputs(m_[id])) use(v, at);
    for (RegionId body : m_.regions_of(m_[id])) {
      for (NodeId inner : m_.regions[body.index].nodes) uses_of(inner, at, use);
      for (ValueId v : m_.regions[body.index].outputs) use(v, at);
    }
  }

  const Module& m_;
  const Bindings& values_;
  std::vector<uint32_t> root_;  // of a chain of views
};

}  // namespace

MemoryUse peak_memory(const Module& m, const Bindings& values) {
  MemoryUse use;
  for (const Value& v : m.values)
    if (v.storage == Storage::weight) use.weights += static_cast<double>(v.stored_bytes);
    else if (v.storage == Storage::input && v.region.index == 0) use.inputs += bytes_of(v, values);
  use.activations = Liveness(m, values).peak(RegionId{0});
  return use;
}

std::string MemoryUse::why_not(double capacity) const {
  if (total() <= capacity) return {};
  if (weights > capacity) return "weights alone need " + format_bytes(weights) + " of " + format_bytes(capacity);
  return "weights " + format_bytes(weights) + ", inputs " + format_bytes(inputs) + " and live activations " + format_bytes(activations) +
         " are more than " + format_bytes(capacity);
}

}  // namespace roofcast
