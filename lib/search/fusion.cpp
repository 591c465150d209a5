#include "search/fusion.h"

#include "hw/hardware.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <set>

namespace roofcast {
namespace {

constexpr double default_scratch = 128 * 1024;

bool contains(const std::vector<uint32_t>& sorted, uint32_t v) { return std::binary_search(sorted.begin(), sorted.end(), v); }
bool near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b); }

}  // namespace

double decomposed_overlap(double compute, double communication, int64_t parts, double latency) {
  const auto n = static_cast<double>(std::max<int64_t>(1, parts));
  return std::max(compute, communication) + std::min(compute, communication) / n + n * latency;
}

FusionPlanner::FusionPlanner(const FusionGraph& graph, const Hardware& hardware, TimeModel model)
    : g_(graph), hardware_(hardware), model_(model), predictor_(hardware, model), scratch_(default_scratch) {
  const auto smem = hardware.memory.find("smem");
  if (smem != hardware.memory.end() && smem->second.capacity) scratch_ = smem->second.capacity->value;
  byte_time_ = 1 / memory_bandwidth(hardware).value_or(1e12);
}

// Attention around its second product: all between that and the product of scores.
std::vector<uint32_t> FusionPlanner::attention_of(uint32_t second) const {
  constexpr size_t most = 48;
  std::vector<uint32_t> stack{second}, before;
  std::set<uint32_t> seen{second};
  uint32_t first = UINT32_MAX;
  while (!stack.empty() && before.size() < most) {
    const uint32_t op = stack.back();
    stack.pop_back();
    for (const FusionGraph::Edge& e : g_.producers[op]) {
      if (!seen.insert(e.node).second || g_.ops[e.node].alone) continue;
      before.push_back(e.node);
      if (!is_product(g_.ops[e.node].kind)) stack.push_back(e.node);
      else if (!g_.ops[e.node].weighted && near(g_.ops[e.node].head, g_.ops[second].k)) first = e.node;
    }
  }
  if (first == UINT32_MAX) return {};
  // Of those, what the first product feeds.
  std::vector<uint32_t> members{first};
  std::sort(before.begin(), before.end());
  for (uint32_t op : before) {
    if (op <= first) continue;
    for (const FusionGraph::Edge& e : g_.producers[op])
      if (std::find(members.begin(), members.end(), e.node) != members.end()) {
        members.push_back(op);
        break;
      }
  }
  members.push_back(second);
  std::sort(members.begin(), members.end());
  return members;
}

std::vector<std::vector<uint32_t>> FusionPlanner::plan(size_t exact) const {
  const auto count = static_cast<uint32_t>(g_.ops.size());
  std::vector<uint32_t> parent(count);
  for (uint32_t i = 0; i < count; ++i) parent[i] = i;
  auto find = [&](uint32_t i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  };
  std::map<uint32_t, uint32_t> reader;
  for (uint32_t i = 0; i < count; ++i) {
    if (g_.ops[i].alone) continue;
    for (const FusionGraph::Edge& e : g_.consumers[i])
      if (!g_.ops[e.node].alone) parent[find(e.node)] = find(i);
    if (g_.ops[i].kind != Kind::contraction || g_.ops[i].inputs.empty()) continue;
    const auto [at, is_new] = reader.try_emplace(g_.ops[i].inputs[0], i);
    if (!is_new) parent[find(i)] = find(at->second);
  }
  std::map<uint32_t, std::vector<uint32_t>> components;
  for (uint32_t i = 0; i < count; ++i)
    if (!g_.ops[i].alone) components[find(i)].push_back(i);
  std::vector<std::vector<uint32_t>> groups;
  for (const auto& [root, members] : components) {
    if (members.size() < 2) continue;
    for (auto& group : members.size() <= exact ? every_order(members) : greedy(members)) groups.push_back(std::move(group));
  }
  std::sort(groups.begin(), groups.end());
  return groups;
}

// The best of all ways to run a component group after group: states are sets of ops that have run.
std::vector<std::vector<uint32_t>> FusionPlanner::every_order(const std::vector<uint32_t>& component) const {
  const size_t n = component.size();
  const uint32_t full = (1u << n) - 1;
  // What each op needs, also through ops outside.
  std::vector<uint32_t> needs(n);
  for (size_t i = 0; i < n; ++i) {
    std::vector<uint32_t> stack{component[i]};
    std::set<uint32_t> seen;
    while (!stack.empty()) {
      const uint32_t op = stack.back();
      stack.pop_back();
      for (const FusionGraph::Edge& e : g_.producers[op]) {
        if (e.node < component.front() || !seen.insert(e.node).second) continue;
        const auto at = std::lower_bound(component.begin(), component.end(), e.node);
        if (at != component.end() && *at == e.node) needs[i] |= 1u << (at - component.begin());
        stack.push_back(e.node);
      }
    }
  }
  struct Group {
    uint32_t set = 0, needs = 0;
    double cost = 0;
  };
  std::vector<Group> valid;
  for (uint32_t set = 1; set <= full; ++set) {
    std::vector<uint32_t> members;
    uint32_t before = 0;
    for (size_t i = 0; i < n; ++i)
      if (set >> i & 1) members.push_back(component[i]), before |= needs[i];
    const FusedKernel k = kernel(members);
    if (k.valid) valid.push_back({set, before & ~set, k.cost});
  }
  std::vector<double> best(full + 1, 1e300);
  std::vector<uint32_t> last(full + 1, UINT32_MAX);
  best[0] = 0;
  for (uint32_t done = 0; done < full; ++done) {
    if (best[done] >= 1e300) continue;
    for (uint32_t k = 0; k < valid.size(); ++k) {
      const Group& g = valid[k];
      if ((g.set & done) || (g.needs & ~done)) continue;
      const double cost = best[done] + g.cost;
      if (cost < best[done | g.set] * (1 - 1e-12)) best[done | g.set] = cost, last[done | g.set] = k;
    }
  }
  std::vector<std::vector<uint32_t>> groups;
  for (uint32_t done = full; done;) {
    const Group& g = valid[last[done]];
    std::vector<uint32_t> members;
    for (size_t i = 0; i < n; ++i)
      if (g.set >> i & 1) members.push_back(component[i]);
    if (members.size() > 1) groups.push_back(std::move(members));
    done &= ~g.set;
  }
  return groups;
}

std::string FusionPlanner::limits_of(const std::vector<uint32_t>& members) const {
  std::map<std::string_view, int> reasons;
  std::set<uint32_t> tried;
  for (uint32_t op : members)
    for (const auto* edges : {&g_.consumers[op], &g_.producers[op]})
      for (const FusionGraph::Edge& e : *edges) {
        if (contains(members, e.node) || !tried.insert(e.node).second) continue;
        std::vector<uint32_t> larger(members);
        larger.insert(std::lower_bound(larger.begin(), larger.end(), e.node), e.node);
        const FusedKernel k = kernel(larger);
        ++reasons[k.valid ? "no gain" : k.limit];
      }
  std::string text;
  for (const auto& [reason, count] : reasons) text += (text.empty() ? "" : ", ") + std::string(reason);
  return text;
}

}  // namespace roofcast
