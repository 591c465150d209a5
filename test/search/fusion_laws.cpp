// The planner against definitions and against a search of every partition, on random small graphs.
#include "search/fusion_support.h"

#include <fmt/format.h>

#include <map>
#include <random>
#include <set>

namespace roofcast {
namespace {

// A graph of `count` ops on a grid of rows × columns: pointwise chains and trees, reductions with what is
// made of them, softmax, products with weights and of activations. Recent values are read most.
class RandomGraph {
public:
  explicit RandomGraph(uint32_t seed) : engine_(seed) {}

  std::string text(int count) {
    const int row_sizes[] = {32, 128, 2048}, column_sizes[] = {64, 512, 4096};
    rows_ = row_sizes[below(3)], columns_ = column_sizes[below(3)];
    grid_ = {"x", "y"}, lines_.clear(), turned_.clear(), scores_.clear();
    std::string body;
    std::vector<std::string> made;
    for (int i = 0; i < count; ++i) {
      const std::string name = fmt::format("v{}", i);
      body += fmt::format("  %{} = {} : ? @\"n{}\"\n", name, op(name), i);
      made.push_back(name);
    }
    std::string outputs;
    for (const std::string& name : made)
      if (!read_.contains(name) || below(12) == 0) outputs += (outputs.empty() ? "%" : ", %") + name;
    return fmt::format("opset \"\" 18\ngraph @\"g\"(%x: f16[{0}, {1}], %y: f16[{0}, {1}]) -> ({2}) {{\n"
                       "  weight %w: f16[{1}, {1}] bytes {3}\n  weight %b: f16[{1}] bytes {4}\n  const %last: i64[1] bytes 8 = [-1]\n{5}}}\n",
                       rows_, columns_, outputs, 2 * columns_ * columns_, 2 * columns_, body);
  }

private:
  size_t below(size_t n) { return engine_() % n; }
  const std::string& pick(const std::vector<std::string>& from) {
    const size_t back = std::min(from.size() - 1, below(3) == 0 ? below(from.size()) : below(2));
    const std::string& name = from[from.size() - 1 - back];
    read_.insert(name);
    return name;
  }
  std::string op(const std::string& name) {
    auto keep = [&](std::vector<std::string>& kind, std::string text) {
      kind.push_back(name);
      return text;
    };
    const char* unary[] = {"Relu", "Exp", "Sqrt", "Tanh"};
    const char* binary[] = {"Add", "Mul", "Sub"};
    switch (below(14)) {
    case 0: case 1: case 2: return keep(grid_, fmt::format("{}(%{})", unary[below(4)], pick(grid_)));
    case 3: case 4: {
      const std::string a = pick(grid_);
      return keep(grid_, fmt::format("{}(%{}, %{})", binary[below(3)], a, pick(grid_)));
    }
    case 5: return keep(grid_, fmt::format("Add(%{}, %b)", pick(grid_)));
    case 6: return keep(lines_, fmt::format("ReduceMean(%{}, %last)", pick(grid_)));
    case 7:
      if (lines_.empty()) break;
      if (below(3) == 0) return keep(lines_, fmt::format("Sqrt(%{})", pick(lines_)));
      return keep(grid_, fmt::format("Mul(%{}, %{})", pick(grid_), pick(lines_)));
    case 8: return keep(grid_, fmt::format("Softmax(%{})", pick(grid_)));
    case 9: return keep(grid_, fmt::format("MatMul(%{}, %w)", pick(grid_)));
    case 10: return keep(turned_, fmt::format("Transpose(%{}) {{perm = ints [1, 0]}}", pick(grid_)));
    case 11:
      if (turned_.empty()) break;
      return keep(scores_, fmt::format("MatMul(%{}, %{})", pick(grid_), pick(turned_)));
    case 12:
      if (scores_.empty()) break;
      if (below(2)) return keep(scores_, fmt::format("Softmax(%{})", pick(scores_)));
      return keep(scores_, fmt::format("{}(%{})", unary[below(4)], pick(scores_)));
    case 13:
      if (scores_.empty()) break;
      return keep(grid_, fmt::format("MatMul(%{}, %{})", pick(scores_), pick(grid_)));
    }
    return keep(grid_, fmt::format("Relu(%{})", pick(grid_)));
  }

  std::mt19937 engine_;
  int rows_ = 1, columns_ = 1;
  std::vector<std::string> grid_, lines_, turned_, scores_;  // values by shape
  std::set<std::string> read_;
};

// Which ops stand on a path from one to another, by the module's own edges.
class Reach {
public:
  explicit Reach(const FusionCase& c) : after_(c.graph.ops.size()) {
    const Module& m = *c.module;
    std::map<uint32_t, size_t> op_of;
    for (size_t i = 0; i < c.graph.ops.size(); ++i) op_of[c.graph.ops[i].node.index] = i;
    for (size_t i = 0; i < after_.size(); ++i)
      for (ValueId v : m.inputs(m[c.graph.ops[i].node]))
        if (v.valid() && m[v].producer.valid()) {
          const size_t from = op_of.at(m[v].producer.index);
          edges_.push_back({from, i});
        }
    for (size_t i = 0; i < after_.size(); ++i)
      for (const auto& [from, to] : edges_)
        if (to == i) {
          after_[i] |= 1u << from;
          after_[i] |= after_[from];
        }
  }
  // All that must run before op i.
  uint32_t before(size_t i) const { return after_[i]; }

  bool convex(uint32_t set) const {
    for (size_t i = 0; i < after_.size(); ++i) {
      if (set >> i & 1) continue;
      bool fed = after_[i] & set, feeds = false;
      for (size_t j = 0; j < after_.size(); ++j) feeds |= (set >> j & 1) && (after_[j] >> i & 1);
      if (fed && feeds) return false;
    }
    return true;
  }
  // Groups can run one after another.
  bool ordered(const std::vector<uint32_t>& sets) const {
    uint32_t done = 0;
    std::vector<char> ran(sets.size());
    for (size_t round = 0; round < sets.size(); ++round) {
      bool any = false;
      for (size_t g = 0; g < sets.size(); ++g) {
        if (ran[g]) continue;
        uint32_t needs = 0;
        for (size_t i = 0; i < after_.size(); ++i)
          if (sets[g] >> i & 1) needs |= after_[i];
        if ((needs & ~sets[g] & ~done) != 0) continue;
        ran[g] = 1, done |= sets[g], any = true;
      }
      if (!any) break;
    }
    return std::find(ran.begin(), ran.end(), 0) == ran.end();
  }

private:
  std::vector<std::pair<size_t, size_t>> edges_;
  std::vector<uint32_t> after_;
};

std::vector<uint32_t> members(uint32_t set) {
  std::vector<uint32_t> all;
  for (uint32_t i = 0; set >> i; ++i)
    if (set >> i & 1) all.push_back(i);
  return all;
}

// Every partition into sets that can be kernels and run one after another, cut where it costs more than
// the best so far.
class Exhaustive {
public:
  Exhaustive(const FusionCase& c, const Reach& reach) : reach_(reach), count_(c.graph.ops.size()), costs_(size_t{1} << count_, -1) {
    for (uint32_t set = 1; set < costs_.size(); ++set)
      if (const FusedKernel k = c.planner->kernel(members(set)); k.valid && reach.convex(set)) costs_[set] = k.cost;
    least_.resize(count_);
    for (size_t i = 0; i < count_; ++i) {
      // The least that an op can add: the cheapest set with it, shared by its members.
      least_[i] = 1e300;
      for (uint32_t set = 1; set < costs_.size(); ++set)
        if ((set >> i & 1) && costs_[set] >= 0) least_[i] = std::min(least_[i], costs_[set] / __builtin_popcount(set));
    }
  }
  double best(double bound) {
    best_ = bound;
    search(0, 0);
    return best_;
  }

private:
  void search(uint32_t done, double cost) {
    const uint32_t left = static_cast<uint32_t>(costs_.size() - 1) & ~done;
    double rest = 0;
    for (size_t i = 0; i < count_; ++i)
      if (left >> i & 1) rest += least_[i];
    if (cost + rest >= best_) return;
    if (left == 0) {
      if (reach_.ordered(sets_)) best_ = cost;
      return;
    }
    const uint32_t first = left & -left, others = left & ~first;
    for (uint32_t set = others;; set = (set - 1) & others) {
      if (costs_[set | first] >= 0) {
        sets_.push_back(set | first);
        search(done | set | first, cost + costs_[set | first]);
        sets_.pop_back();
      }
      if (set == 0) break;
    }
  }

  const Reach& reach_;
  size_t count_;
  std::vector<double> costs_, least_;
  std::vector<uint32_t> sets_;
  double best_ = 0;
};

double bytes_of(const Module& m, ValueId v) {
  double elements = 1;
  for (Expr d : m[v].type->dims) elements *= static_cast<double>(*d.as_constant());
  return elements * bits(m[v].type->dtype) / 8;
}

// Bytes that a group saves, counted value by value: b(1 + c) if it stays inside with c readers there, b·c
// if it must still be written; what comes from outside is read once instead of c times.
double saved_bytes(const FusionCase& c, const std::vector<uint32_t>& group) {
  const Module& m = *c.module;
  std::set<uint32_t> nodes;
  for (uint32_t op : group) nodes.insert(c.graph.ops[op].node.index);
  std::map<uint32_t, int> inside, outside;
  for (NodeId id : m.main().nodes) {
    std::set<uint32_t> once;
    for (ValueId v : m.inputs(m[id]))
      if (v.valid() && once.insert(v.index).second) ++(nodes.contains(id.index) ? inside : outside)[v.index];
  }
  for (ValueId v : m.main().outputs) ++outside[v.index];
  double saved = 0;
  for (const auto& [value, readers] : inside) {
    const ValueId v{value};
    if (m[v].type->dtype == DType::int64) continue;  // axes: known before the model runs
    const bool made_here = m[v].producer.valid() && nodes.contains(m[v].producer.index);
    const double b = bytes_of(m, v);
    saved += made_here ? b * (readers + (outside[value] == 0)) : b * (readers - 1);
  }
  return saved;
}

void check_laws(const FusionCase& c, const Reach& reach, const std::vector<std::vector<uint32_t>>& groups) {
  uint32_t taken = 0;
  std::vector<uint32_t> sets;
  for (const auto& group : groups) {
    uint32_t set = 0;
    for (uint32_t op : group) set |= 1u << op;
    CHECK((set & taken) == 0);
    taken |= set;
    CHECK(reach.convex(set));
    sets.push_back(set);
    const FusedKernel k = c.planner->kernel(group);
    REQUIRE(k.valid);
    double apart = 0;
    for (uint32_t op : group) apart += c.graph.ops[op].problem.bytes_read + c.graph.ops[op].problem.bytes_written;
    CHECK(apart - k.bytes == Approx(saved_bytes(c, group)));
  }
  for (uint32_t op = 0; op < c.graph.ops.size(); ++op)
    if (!(taken >> op & 1)) sets.push_back(1u << op);
  CHECK(reach.ordered(sets));
}

}  // namespace

TEST_CASE("groups are convex, disjoint, and save what leaves no trace in memory", "[fusion]") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const std::string text = RandomGraph(seed).text(6 + static_cast<int>(seed % 20));
    const FusionCase c(text, seed % 2 ? TimeModel::kernel : TimeModel::ideal);
    INFO(text);
    check_laws(c, Reach(c), c.planner->plan());
  }
}

TEST_CASE("the chosen set of groups is the quickest of all", "[fusion]") {
  double mean_gap = 0;  // of merging neighbours alone, as larger graphs are planned
  int far = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const int count = seed % 5 ? 3 + static_cast<int>(seed % 8) : 11 + static_cast<int>(seed / 5 % 4);
    const std::string text = RandomGraph(1000 + seed).text(count);
    const FusionCase c(text, seed % 2 ? TimeModel::kernel : TimeModel::ideal);
    INFO(text);
    const Reach reach(c);
    const double exact = c.cost(c.planner->plan()), greedy = c.cost(c.planner->plan(0));
    const double best = Exhaustive(c, reach).best(exact * (1 + 1e-9));
    CHECK(exact == Approx(best).epsilon(1e-9));
    const double gap = greedy / best - 1;
    mean_gap += gap / 500, far += gap > 0.02;
    check_laws(c, reach, c.planner->plan(0));
  }
  CHECK(mean_gap < 0.002);
  CHECK(far <= 5);
}

}  // namespace roofcast
