// Large components: neighbours are merged, the pair that saves most first; then single ops change sides
// between neighbouring groups, or leave them, as long as that saves, with the merges that it makes
// possible. After B. Kernighan, S. Lin, "An efficient heuristic procedure for partitioning graphs", 1970.
#include "search/fusion.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <unordered_map>
#include <utility>

namespace roofcast {
namespace {

constexpr size_t largest = FusionPlanner::most_ops;
constexpr int passes = 8;           // of repair
constexpr size_t foresight = 1024;  // ops of a component up to which a move is judged with the merges after it
constexpr int merges_ahead = 4;
constexpr uint32_t none = UINT32_MAX;
constexpr double least = 1e-18;     // s that a change must save
constexpr double impossible = 1e300;  // s of a set that is no kernel

struct Hash {
  size_t operator()(const std::vector<uint32_t>& members) const {
    uint64_t h = members.size();
    for (uint32_t v : members) h = (h ^ v) * 0x9e3779b97f4a7c15, h ^= h >> 29;
    return h;
  }
};

bool is_contraction(const FusionGraph::Op& op) { return op.kind == Kind::contraction && !op.inputs.empty(); }

class Merging {
public:
  Merging(const FusionGraph& graph, const FusionPlanner& planner, const std::vector<uint32_t>& component)
      : g_(graph), planner_(planner), component_(component), group_of_(graph.ops.size(), none), tried_(graph.ops.size()) {
    for (uint32_t op : component_)
      if (is_contraction(g_.ops[op])) readers_[g_.ops[op].inputs[0]].push_back(op);
  }

  void add(std::vector<uint32_t> members) {
    const auto id = static_cast<uint32_t>(groups_.size());
    for (uint32_t op : members) group_of_[op] = id;
    costs_.push_back(cost(members));
    groups_.push_back(std::move(members)), versions_.push_back(0), changed_.push_back(1);
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
      groups_[c.a] = together(c.a, c.b);
      for (uint32_t op : groups_[c.b]) group_of_[op] = c.a;
      groups_[c.b].clear();
      costs_[c.a] = c.cost;
      ++versions_[c.a], ++versions_[c.b];
      changed_[c.a] = changed_[c.b] = ++change_;
      for (uint32_t other : neighbours(c.a)) consider(c.a, other);
    }
  }

  // Whether anything moved: an op, or with it what it needs of its group, or what needs it.
  bool repair() {
    bool moved = false;
    for (uint32_t op : component_) {
      if (is_settled(op)) continue;
      tried_[op] = change_;
      const bool single = groups_[group_of_[op]].size() == 1;
      moved |= move_somewhere({op});
      if (single || component_.size() > foresight) continue;
      moved |= move_somewhere(related(op, g_.producers)) || move_somewhere(related(op, g_.consumers));
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

  // Nothing around it has changed since it was tried.
  bool is_settled(uint32_t op) const {
    auto same = [&](uint32_t at) { return group_of_[at] == none || changed_[group_of_[at]] <= tried_[op]; };
    auto all = [&](const std::vector<FusionGraph::Edge>& edges) { return std::all_of(edges.begin(), edges.end(), [&](const FusionGraph::Edge& e) { return same(e.node); }); };
    return same(op) && all(g_.consumers[op]) && all(g_.producers[op]);
  }

  // The same sets come up again and again. Whether a path leaves one and comes back is for `acyclic` to say.
  double cost(const std::vector<uint32_t>& members) {
    const auto [at, is_new] = known_.try_emplace(members, impossible);
    if (!is_new) return at->second;
    const FusedKernel k = planner_.kernel(members, true);
    return at->second = k.valid ? k.cost : impossible;
  }

  void consider(uint32_t a, uint32_t b) {
    if (a == b || groups_[a].size() + groups_[b].size() > largest) return;
    const double merged = cost(together(a, b)), gain = costs_[a] + costs_[b] - merged;
    if (gain > least) queue_.push({gain, merged, a, b, versions_[a], versions_[b]});
  }

  // Ascending.
  std::vector<uint32_t> neighbours(uint32_t id) const {
    std::vector<uint32_t> found;
    found.reserve(16);
    for (uint32_t op : groups_[id]) {
      for (const auto* edges : {&g_.consumers[op], &g_.producers[op]})
        for (const FusionGraph::Edge& e : *edges)
          if (group_of_[e.node] != none && group_of_[e.node] != id) found.push_back(group_of_[e.node]);
      if (is_contraction(g_.ops[op]))
        for (uint32_t other : readers_.at(g_.ops[op].inputs[0]))
          if (group_of_[other] != id) found.push_back(group_of_[other]);
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  // No path leaves these two groups, taken as one, and comes back; others are crossed as a whole.
  bool acyclic(uint32_t a, uint32_t b) {
    const uint32_t last = std::max(groups_[a].empty() ? 0 : groups_[a].back(), groups_[b].empty() ? 0 : groups_[b].back());
    std::vector<uint32_t> stack;
    seen_op_.resize(g_.ops.size()), seen_group_.resize(groups_.size()), ++search_;
    auto meet = [&](std::vector<uint32_t>& seen, uint32_t i) { return std::exchange(seen[i], search_) != search_; };
    auto leave = [&](uint32_t op) {
      for (const FusionGraph::Edge& e : g_.consumers[op]) {
        const uint32_t to = group_of_[e.node];
        if (to == none) {
          if (e.node <= last && meet(seen_op_, e.node)) stack.push_back(e.node);
        } else if (to != a && to != b && groups_[to].front() <= last && meet(seen_group_, to)) {
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

  // A group takes these members; what it was is kept until the change is judged.
  void replace(uint32_t id, std::vector<uint32_t> members, double cost) {
    undo_.push_back({id, std::move(groups_[id]), costs_[id]});
    groups_[id] = std::move(members), costs_[id] = cost;
    for (uint32_t op : groups_[id]) group_of_[op] = id;
    ++versions_[id];
  }
  void take_back() {
    for (; !undo_.empty(); undo_.pop_back()) {
      Former& f = undo_.back();
      groups_[f.id] = std::move(f.members), costs_[f.id] = f.cost;
      for (uint32_t op : groups_[f.id]) group_of_[op] = f.id;
      ++versions_[f.id];
    }
  }

  // An op with what edges lead to from it inside its group.
  std::vector<uint32_t> related(uint32_t op, const std::vector<std::vector<FusionGraph::Edge>>& edges) const {
    std::vector<uint32_t> found{op};
    for (size_t i = 0; i < found.size(); ++i)
      for (const FusionGraph::Edge& e : edges[found[i]])
        if (group_of_[e.node] == group_of_[op] && std::find(found.begin(), found.end(), e.node) == found.end()) found.push_back(e.node);
    std::sort(found.begin(), found.end());
    return found;
  }

  // To a neighbouring group, or to one of their own.
  bool move_somewhere(const std::vector<uint32_t>& ops) {
    const uint32_t from = group_of_[ops.front()];
    std::set<uint32_t> targets;
    for (uint32_t op : ops)
      for (const auto* edges : {&g_.consumers[op], &g_.producers[op]})
        for (const FusionGraph::Edge& e : *edges)
          if (group_of_[e.node] != none && group_of_[e.node] != from) targets.insert(group_of_[e.node]);
    if (groups_[from].size() > ops.size()) targets.insert(none);
    return std::any_of(targets.begin(), targets.end(), [&](uint32_t to) { return move(ops, from, to); });
  }

  bool move(const std::vector<uint32_t>& ops, uint32_t from, uint32_t to) {
    if (to == none) to = empty_group();
    if (groups_[to].size() + ops.size() > largest) return false;
    std::vector<uint32_t> less, more;
    std::set_difference(groups_[from].begin(), groups_[from].end(), ops.begin(), ops.end(), std::back_inserter(less));
    std::merge(groups_[to].begin(), groups_[to].end(), ops.begin(), ops.end(), std::back_inserter(more));
    const double larger = cost(more), smaller = less.empty() ? 0 : cost(less);
    if (larger == impossible || smaller == impossible) return false;
    double saved = costs_[from] + costs_[to] - smaller - larger;
    const int merges = component_.size() <= foresight ? merges_ahead : 0;
    if (merges == 0 && saved <= least) return false;
    undo_.clear();
    replace(from, std::move(less), smaller), replace(to, std::move(more), larger);
    if (acyclic(from, from) && acyclic(to, to)) {
      for (int k = 0; k < merges; ++k) {
        const double more_saved = std::max(merge_best(from), merge_best(to));
        if (more_saved <= 0) break;
        saved += more_saved;
      }
      if (saved > least) {
        ++change_;
        for (const Former& f : undo_) changed_[f.id] = change_;
        return true;
      }
    }
    take_back();
    return false;
  }

  uint32_t empty_group() {
    if (groups_.back().empty()) return static_cast<uint32_t>(groups_.size() - 1);
    groups_.emplace_back(), costs_.push_back(0), versions_.push_back(0), changed_.push_back(0);
    return static_cast<uint32_t>(groups_.size() - 1);
  }

  // The best merge of a group with a neighbour; what it saves, 0: there is none.
  double merge_best(uint32_t id) {
    double best = least;
    uint32_t with = none;
    std::vector<uint32_t> merged;
    double merged_cost = 0;
    if (!groups_[id].empty())
      for (uint32_t other : neighbours(id)) {
        if (groups_[id].size() + groups_[other].size() > largest) continue;
        std::vector<uint32_t> members = together(id, other);
        const double one = cost(members), saved = costs_[id] + costs_[other] - one;
        if (saved <= best || !acyclic(id, other)) continue;
        best = saved, with = other, merged_cost = one, merged = std::move(members);
      }
    if (with == none) return 0;
    replace(with, {}, 0), replace(id, std::move(merged), merged_cost);
    return best;
  }

  std::vector<uint32_t> together(uint32_t a, uint32_t b) const {
    std::vector<uint32_t> members;
    members.reserve(groups_[a].size() + groups_[b].size());
    std::merge(groups_[a].begin(), groups_[a].end(), groups_[b].begin(), groups_[b].end(), std::back_inserter(members));
    return members;
  }

  struct Former {
    uint32_t id;
    std::vector<uint32_t> members;
    double cost;
  };

  const FusionGraph& g_;
  const FusionPlanner& planner_;
  const std::vector<uint32_t>& component_;
  std::vector<uint32_t> group_of_;                    // by op
  std::vector<std::vector<uint32_t>> groups_;         // by id; empty: merged away
  std::vector<double> costs_;
  std::vector<uint32_t> versions_;
  std::vector<uint32_t> changed_, tried_;             // by group, by op: when, counted in changes
  uint32_t change_ = 1;
  std::map<uint32_t, std::vector<uint32_t>> readers_; // products by what they read
  std::priority_queue<Candidate> queue_;
  std::unordered_map<std::vector<uint32_t>, double, Hash> known_;  // costs
  std::vector<uint32_t> seen_op_, seen_group_;        // the search that met it last
  uint32_t search_ = 0;
  std::vector<Former> undo_;                          // newest last
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
