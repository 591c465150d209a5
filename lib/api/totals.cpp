#include "api/totals.h"

#include "hw/hardware.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <array>

namespace roofcast {

TimeModel time_model(const std::string& name) { return name == "kernel" ? TimeModel::kernel : TimeModel::ideal; }

void warn_of_stand_in(std::vector<Diagnostic>& warnings, const Hardware& hardware, TimeModel model) {
  if (Predictor(hardware, model).stands_in())
    warnings.push_back(warning("model-stands-in", hardware.name + " has no constants of the kernel model; its times are those of the ideal one",
                               {.file = hardware.file}, "roofcast calibrate, or --model ideal"));
}

Totals total(Costing& costing, const MemoryModel* memory, TotalsDetail* detail) {
  const Module& m = costing.module();
  const Hardware& hardware = costing.hardware();
  Totals t;
  double matrix = 0, vector = 0, read = 0, written = 0, math = 0, hbm = 0, net = 0, comms = 0, ideal = 0, time = 0;
  std::array<double, 5> by_bound{};
  std::array<double, 16> by_math{};
  bool has_net = false, missing = false;
  std::vector<double> trips(m.regions.size(), -1);
  for (uint32_t i = 0; i < m.nodes.size(); ++i) {
    const NodeId id{i};
    const int64_t group = costing.cost(id).group;
    if (group < 0) continue;
    double& n = trips[m.nodes[i].region.index];
    if (n < 0) n = costing.trips(m.nodes[i].region);
    if (n == 0) continue;
    const Problem& p = costing.problem(group);
    const Time& took = costing.time(group);
    matrix += p.matrix_flops * n, vector += p.vector_flops * n;
    read += p.bytes_read * n, written += p.bytes_written * n;
    by_math[static_cast<size_t>(p.math) % by_math.size()] += p.matrix_flops * n;
    math += took.math.value_or(0) * n, hbm += took.hbm.value_or(0) * n;
    if (took.hbm && took.net) comms += std::max(*took.hbm, *took.net) * n;
    if (p.collective != CollectiveKind::none) net += took.net.value_or(0) * n, has_net = true;
    ideal += took.ideal.value_or(0) * n, time += took.predicted.value_or(0) * n;
    by_bound[static_cast<size_t>(took.bound)] += took.predicted.value_or(0) * n;
    if (!took.missing.empty()) {
      missing = true;
      if (detail) detail->missing.try_emplace(group, id);
    }
  }
  t.matrix_flops = matrix, t.vector_flops = vector, t.flops = matrix + vector;
  t.bytes_read = read, t.bytes_written = written;
  if (read + written > 0) t.intensity = *t.flops / (read + written);
  // A time of which a part is not known is not known either.
  if (!missing) {
    t.t_math = math, t.t_hbm = hbm, t.t_comms = comms, t.time_ideal = ideal, t.time = time;
    if (has_net) t.t_net = net;
  } else if (memory_bandwidth(hardware)) {
    t.t_hbm = hbm;
  }
  if (time > 0 && !missing) {
    auto share = [&](Bound b) { return by_bound[static_cast<size_t>(b)] / time; };
    t.bound_shares = BoundShares{share(Bound::compute), share(Bound::memory), share(Bound::communication), share(Bound::overhead)};
    const auto first = by_bound.begin() + 1;  // the bounds in the contract's order of ties
    t.bound = std::string(name(static_cast<Bound>(std::max_element(first, by_bound.end()) - by_bound.begin())));
  }
  const auto main = std::max_element(by_math.begin(), by_math.end());
  if (*main > 0) {
    const auto type = static_cast<MathType>(main - by_math.begin());
    if (detail) detail->main_math = type;
    const auto rate = matrix_rate(hardware, type);
    if (rate && t.time && *t.time > 0) t.mfu = t.hfu = matrix / (*t.time * *rate);
  }
  if (memory) {
    const MemoryUse use = memory->at(costing.values());
    t.peak_memory = use.total();
    if ((t.memory_capacity = memory_capacity(hardware))) {
      t.fits = use.total() <= *t.memory_capacity;
      if (!*t.fits) t.why_not = use.why_not(*t.memory_capacity);
    }
  }
  return t;
}

}  // namespace roofcast
