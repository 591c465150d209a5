#include "time/costing.h"

#include "ops/op_info.h"

#include <algorithm>

namespace roofcast {

bool Costing::is_free(NodeId id) const {
  const Node& node = m_[id];
  const Instance& instance = m_.instances[node.instance.index];
  if (!instance.op) return false;
  if (instance.op->kind == Kind::view) return true;
  if (instance.op->kind == Kind::control || !instance.op->uncounted.empty()) return false;
  // Folded when the model is compiled: made of weights only, or small and following from shapes.
  const auto outputs = m_.outputs(node);
  return std::all_of(outputs.begin(), outputs.end(), [&](ValueId v) {
    if (!v.valid() || m_[v].storage == Storage::constant) return true;
    if (!m_[v].from_shapes || !m_[v].type || !m_[v].type->is_tensor()) return false;
    const auto count = evaluate(m_[v].type->elements(), values_);
    return count && *count <= static_cast<int64_t>(limits::known_elements);
  });
}

const Work& Costing::work_of(InstanceId id) {
  if (works_.size() < m_.instances.size()) works_.resize(m_.instances.size());
  std::optional<Work>& work = works_[id.index];
  if (!work) {
    work = count_work(m_, m_.instances[id.index]);
    if (causal_ && work->causal_matrix_flops.is_known()) {
      work->causal = true;
      work->matrix_flops = work->causal_matrix_flops, work->vector_flops = work->causal_vector_flops;
    }
  }
  return *work;
}

Costing::Cost Costing::cost(NodeId id) {
  if (free_[id.index]) return {};
  const InstanceId instance = m_[id].instance;
  if (entries_.size() < m_.instances.size()) entries_.resize(m_.instances.size());
  Entry& entry = entries_[instance.index];
  const Work& work = work_of(instance);
  if (!entry.done) {
    entry.done = true;
    entry.uncounted = work.uncounted;
    if (entry.uncounted.empty()) {
      std::optional<Problem> problem = bind(work, m_.instances[instance.index], values_);
      if (!problem) entry.uncounted = "a size is beyond 2^62";
      else if (problem->has_negative_size())
        entry.uncounted = "a size is below zero; check --set and --shape";
      else if (problem->has_work()) {
        if (m_.tf32 && problem->math == MathType::fp32 && problem->matrix_flops > 0) problem->math = MathType::tf32;
        const auto [at, is_new] = groups_.try_emplace(*problem, static_cast<int64_t>(problems_.size()));
        if (is_new) {
          problems_.push_back(std::move(*problem));
          times_.push_back(predict_(problems_.back()));
          samples_.push_back(instance);
        }
        entry.group = at->second;
      }
    }
  }
  return {&work, entry.group, entry.uncounted};
}

double Costing::trips(RegionId region) const {
  double total = 1;
  while (region.valid() && region.index != 0) {
    const Region& r = m_.regions[region.index];
    total *= std::max(0.0, evaluate_real(r.trips, values_).value_or(1));
    region = m_[r.owner].region;
  }
  return total;
}

// Ideal time of one run of a region; settles unset branches inside on the way.
double Costing::region_time(RegionId region, Bindings& set) {
  double total = 0;
  for (NodeId id : m_.regions[region.index].nodes) {
    const Cost c = cost(id);
    if (c.group >= 0) total += time(c.group).ideal.value_or(0);
    const auto bodies = m_.regions_of(m_[id]);
    std::vector<double> times;
    for (RegionId body : bodies) times.push_back(region_time(body, set));
    if (times.size() == 2) {
      const auto symbol = m_.regions[bodies[0].index].trips.as_symbol();
      const auto other = m_.regions[bodies[1].index].trips.as_symbol();
      const auto branch = symbol && m_.exprs.info(*symbol).origin == SymbolOrigin::branch ? symbol
                          : other && m_.exprs.info(*other).origin == SymbolOrigin::branch ? other : std::nullopt;
      if (branch && !m_.bound.get(*branch)) {
        // The symbol is 1 for the then branch, whichever body comes first.
        const bool first_is_then = branch == symbol;
        set.set(*branch, (times[0] >= times[1]) == first_is_then ? 1 : 0);
        total += std::max(times[0], times[1]);
        continue;
      }
    }
    for (size_t i = 0; i < bodies.size(); ++i)
      total += times[i] * evaluate_real(m_.regions[bodies[i].index].trips, values_).value_or(1);
  }
  return total;
}

void Costing::find_free() {
  free_.resize(m_.nodes.size());
  for (uint32_t i = 0; i < m_.nodes.size(); ++i) free_[i] = is_free(NodeId{i});
}

void Costing::evaluate_again() {
  entries_.clear(), groups_.clear(), problems_.clear(), times_.clear(), samples_.clear();
}

void Costing::resolve() {
  Resolution r = resolve_symbols(m_.exprs, m_.bound);
  values_ = std::move(r.values), defaulted_ = std::move(r.defaulted);
  find_free();
  const bool has_branches = std::any_of(defaulted_.begin(), defaulted_.end(), [&](SymbolId id) {
    return m_.exprs.info(id).origin == SymbolOrigin::branch;
  });
  if (!has_branches) return;
  Bindings set = m_.bound;
  region_time(RegionId{0}, set);
  values_ = resolve_symbols(m_.exprs, set).values;
  find_free();
  evaluate_again();
}

}  // namespace roofcast
