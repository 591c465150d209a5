// Large components: neighbours are merged, the pair that saves most first; then single ops change sides
// between neighbouring groups, or leave them, as long as that saves.
#include "search/fusion.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

namespace roofcast {
namespace {

constexpr size_t largest = 64;      // ops of one group
constexpr int passes = 8;           // of repair
constexpr uint32_t none = UINT32_MAX;
constexpr double least = 1e-18;     // s that a change must save

bool is_contraction(const FusionGraph::Op& op) { return op.kind == Kind::contraction && !op.inputs.empty(); }

class Merging {
public:
  Merging(const FusionGraph& graph, const FusionPlanner& planner, const std::vector<uint32_t>& component)
      : g_(graph), planner_(planner), component_(component), group_of_(graph.ops.size(), none) {
    for (uint32_t op : component_)
      if (is_contraction(g_.ops[op])) readers_[g_.ops[op].inputs[0]].push_back(op);
  }

  void add(std::vector<uint32_t> members) {
    const auto id = static_cast<uint32_t>(groups_.size());
    for (uint32_t op : members) group_of_[op] = id;
    costs_.push_back(planner_.kernel(members).cost);
    groups_.push_back(std::move(members)), versions_.push_back(0);
  }
  bool has(uint32_t op) const { return group_of_[op] != none; }

  void merge_all() {
    for (uint32_t id = 0; id < groups_.size(); ++id)
      for (uint32_t other : neighbours(id))
        if (other > id) consider(id, other);
    while (!queue_.empty()) {
      const Candidate c = queue_.top();
      queue_.pop();
      if (versions_[c.a] != c.version_a || versions_[c.b] != c.version_b || groups_[c.a].empty() || groups_[c.b].empty()) continue;
      if (!acyclic(c.a, c.b)) continue;
      std::vector<uint32_t>& members = groups_[c.a];
      members.insert(members.end(), groups_[c.b].begin(), groups_[c.b].end());
      std::sort(members.begin(), members.end());
      for (uint32_t op : groups_[c.b]) group_of_[op] = c.a;
      groups_[c.b].clear();
      costs_[c.a] = c.cost;
      ++versions_[c.a], ++versions_[c.b];
      for (uint32_t other : neighbours(c.a)) consider(c.a, other);
    }
  }

  // Whether any op moved.
  bool repair() {
    bool moved = false;
    for (uint32_t op : component_) {
      const uint32_t from = group_of_[op];
      std::set<uint32_t> targets;
      for (const auto* edges : {&g_.consumers[op], &g_.producers[op]})
        for (const FusionGraph::Edge& e : *edges)
          if (group_of_[e.node] != none && group_of_[e.node] != from) targets.insert(group_of_[e.node]);
      for (uint32_t to : targets)
        if (move(op, from, to)) {
          moved = true;
          break;
        }
    }
    return moved;
  }

  std::vector<std::vector<uint32_t>> take() {
    std::vector<std::vector<uint32_t>> all;
    for (auto& members : groups_)
      if (members.size() > 1) all.push_back(std::move(members));
    return all;
  }

private:
  struct Candidate {
    double gain, cost;
    uint32_t a, b, version_a, version_b;
    bool operator<(const Candidate& o) const { return gain < o.gain; }
  };

  void consider(uint32_t a, uint32_t b) {
    if (a == b || groups_[a].size() + groups_[b].size() > largest) return;
    std::vector<uint32_t> members(groups_[a]);
    members.insert(members.end(), groups_[b].begin(), groups_[b].end());
    std::sort(members.begin(), members.end());
    const FusedKernel k = planner_.kernel(members);
    if (!k.valid) return;
    const double gain = costs_[a] + costs_[b] - k.cost;
    if (gain > least) queue_.push({gain, k.cost, a, b, versions_[a], versions_[b]});
  }

  std::set<uint32_t> neighbours(uint32_t id) const {
    std::set<uint32_t> found;
    for (uint32_t op : groups_[id]) {
      for (const auto* edges : {&g_.consumers[op], &g_.producers[op]})
        for (const FusionGraph::Edge& e : *edges)
          if (group_of_[e.node] != none && group_of_[e.node] != id) found.insert(group_of_[e.node]);
      if (is_contraction(g_.ops[op]))
        for (uint32_t other : readers_.at(g_.ops[op].inputs[0]))
          if (group_of_[other] != id) found.insert(group_of_[other]);
    }
    return found;
  }

  // No path leaves these two groups, taken as one, and comes back; others are crossed as a whole.
  bool acyclic(uint32_t a, uint32_t b) const {
    const uint32_t last = std::max(groups_[a].empty() ? 0 : groups_[a].back(), groups_[b].empty() ? 0 : groups_[b].back());
    std::set<uint32_t> seen_groups, seen_ops;
    std::vector<uint32_t> stack;
    auto leave = [&](uint32_t op) {
      for (const FusionGraph::Edge& e : g_.consumers[op]) {
        const uint32_t to = group_of_[e.node];
        if (to == none) {
          if (e.node <= last && seen_ops.insert(e.node).second) stack.push_back(e.node);
        } else if (to != a && to != b && groups_[to].front() <= last && seen_groups.insert(to).second) {
          stack.insert(stack.end(), groups_[to].begin(), groups_[to].end());
        }
      }
    };
    for (uint32_t id : {a, b})
      for (uint32_t op : groups_[id]) leave(op);
    while (!stack.empty()) {
      const uint32_t op = stack.back();
      stack.pop_back();
      for (const FusionGraph::Edge& e : g_.consumers[op])
        if (group_of_[e.node] == a || group_of_[e.node] == b) return false;
      leave(op);
    }
    return true;
  }

  bool move(uint32_t op, uint32_t from, uint32_t to) {
    if (groups_[to].size() + 1 > largest) return false;
    std::vector<uint32_t> less(groups_[from]), more(groups_[to]);
    less.erase(std::lower_bound(less.begin(), less.end(), op));
    more.insert(std::lower_bound(more.begin(), more.end(), op), op);
    const FusedKernel larger = planner_.kernel(more);
    if (!larger.valid) return false;
    FusedKernel smaller;
    if (!less.empty() && !(smaller = planner_.kernel(less)).valid) return false;
    if (smaller.cost + larger.cost >= costs_[from] + costs_[to] - least) return false;
    std::swap(groups_[from], less), std::swap(groups_[to], more);
    group_of_[op] = to;
    if (!acyclic(from, from) || !acyclic(to, to)) {
      std::swap(groups_[from], less), std::swap(groups_[to], more);
      group_of_[op] = from;
      return false;
    }
    costs_[from] = smaller.cost, costs_[to] = larger.cost;
    ++versions_[from], ++versions_[to];
    return true;
  }

  const FusionGraph& g_;
  const FusionPlanner& planner_;
  const std::vector<uint32_t>& component_;
  std::vector<uint32_t> group_of_;                    // by op
  std::vector<std::vector<uint32_t>> groups_;         // by id; empty: merged away
  std::vector<double> costs_;
  std::vector<uint32_t> versions_;
  std::map<uint32_t, std::vector<uint32_t>> readers_; // products by what they read
  std::priority_queue<Candidate> queue_;
};

}  // namespace

std::vector<std::vector<uint32_t>> FusionPlanner::greedy(const std::vector<uint32_t>& component) const {
  Merging merging(g_, *this, component);
  // Whole attentions first: no pair of their parts would be worth it.
  for (uint32_t op : component) {
    if (g_.ops[op].kind != Kind::contraction || g_.ops[op].weighted || merging.has(op)) continue;
    std::vector<uint32_t> members = attention_of(op);
    if (members.size() < 3 || std::any_of(members.begin(), members.end(), [&](uint32_t o) { return merging.has(o); })) continue;
    double apart = 0;
    for (uint32_t o : members) apart += g_.ops[o].seconds;
    if (const FusedKernel k = kernel(members); k.valid && k.seconds < apart) merging.add(std::move(members));
  }
  for (uint32_t op : component)
    if (!merging.has(op)) merging.add({op});
  merging.merge_all();
  for (int pass = 0; pass < passes && merging.repair(); ++pass) merging.merge_all();
  return merging.take();
}

}  // namespace roofcast
