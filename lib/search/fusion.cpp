#include "search/fusion.h"

#include "hw/hardware.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <set>

namespace roofcast {
namespace {

constexpr size_t exact_ops = 14;       // components up to this size are solved exactly
constexpr double tile_rows = 64;       // rows of a product's tile that a core holds
constexpr double tile_columns = 128;
constexpr double default_scratch = 128 * 1024;
constexpr double widest_head = 512;    // of attention: queries, keys and values of a tile fit beside each other

bool is_product(Kind k) { return k == Kind::contraction || k == Kind::convolution; }
bool is_reducing(Kind k) { return k == Kind::reduction || k == Kind::softmax || k == Kind::normalization; }
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

// Traffic and arithmetic that hide behind something slower decide between sets that take equally long.
double FusionPlanner::hidden(const Problem& p) const {
  constexpr double weight = 1e-6;
  const double flops = p.vector_flops / vector_rate(hardware_, p.math).value_or(1e13);
  return weight * ((p.bytes_read + p.bytes_written) * byte_time_ + flops);
}

bool FusionPlanner::convex(const std::vector<uint32_t>& members) const {
  const uint32_t last = members.back();
  std::vector<uint32_t> stack;
  std::set<uint32_t> seen;
  auto push = [&](uint32_t op) {
    for (const FusionGraph::Edge& e : g_.consumers[op])
      if (e.node <= last && !contains(members, e.node) && seen.insert(e.node).second) stack.push_back(e.node);
  };
  for (uint32_t op : members) push(op);
  while (!stack.empty()) {
    const uint32_t op = stack.back();
    stack.pop_back();
    for (const FusionGraph::Edge& e : g_.consumers[op])
      if (contains(members, e.node)) return false;
    push(op);
  }
  return true;
}

namespace {

// How the members of a set relate to its products.
struct Shape {
  std::vector<uint32_t> products, reducers;
  bool siblings = false, attention = false;
  std::vector<uint8_t> before;   // by member: feeds a product
};

// Members that some product of the set reads, directly or not.
void mark_before(const FusionGraph& g, const std::vector<uint32_t>& members, uint32_t product, std::vector<uint8_t>& before) {
  std::vector<uint32_t> stack{product};
  while (!stack.empty()) {
    const uint32_t op = stack.back();
    stack.pop_back();
    for (const FusionGraph::Edge& e : g.producers[op]) {
      const auto at = std::lower_bound(members.begin(), members.end(), e.node);
      if (at == members.end() || *at != e.node) continue;
      uint8_t& mark = before[static_cast<size_t>(at - members.begin())];
      if (!mark) mark = 1, stack.push_back(e.node);
    }
  }
}

bool connected(const FusionGraph& g, const std::vector<uint32_t>& members) {
  std::vector<uint32_t> parent(members.size());
  for (size_t i = 0; i < parent.size(); ++i) parent[i] = static_cast<uint32_t>(i);
  auto find = [&](uint32_t i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  };
  size_t parts = members.size();
  auto join = [&](size_t a, size_t b) {
    const uint32_t x = find(static_cast<uint32_t>(a)), y = find(static_cast<uint32_t>(b));
    if (x != y) parent[x] = y, --parts;
  };
  std::map<uint32_t, size_t> reader;  // value → product that reads it as an operand
  for (size_t i = 0; i < members.size(); ++i) {
    for (const FusionGraph::Edge& e : g.producers[members[i]]) {
      const auto at = std::lower_bound(members.begin(), members.end(), e.node);
      if (at != members.end() && *at == e.node) join(i, static_cast<size_t>(at - members.begin()));
    }
    // Products of one operand are neighbours too.
    if (is_product(g.ops[members[i]].kind) && !g.ops[members[i]].inputs.empty()) {
      const auto [at, is_new] = reader.try_emplace(g.ops[members[i]].inputs[0], i);
      if (!is_new) join(i, at->second);
    }
  }
  return parts == 1;
}

}  // namespace

FusedKernel FusionPlanner::kernel(const std::vector<uint32_t>& members) const {
  FusedKernel out;
  auto refuse = [&](std::string_view why) {
    out.limit = why;
    return out;
  };
  if (members.size() == 1) {
    const FusionGraph::Op& op = g_.ops[members[0]];
    out.valid = true, out.seconds = op.seconds, out.time = op.time, out.problem = op.problem;
    out.bytes = op.problem.bytes_read + op.problem.bytes_written;
    out.cost = out.seconds + hidden(op.problem);
    return out;
  }
  Shape s;
  for (uint32_t i : members) {
    const FusionGraph::Op& op = g_.ops[i];
    if (op.alone) return refuse("an op that runs alone");
    if (op.times != g_.ops[members.back()].times && members.back() - members.front() > 512) return refuse("too far apart");
    if (is_product(op.kind)) s.products.push_back(i);
    if (is_reducing(op.kind)) s.reducers.push_back(i);
  }
  if (!connected(g_, members)) return refuse("not connected");
  s.before.resize(members.size());
  for (uint32_t p : s.products) mark_before(g_, members, p, s.before);
  auto member_before = [&](uint32_t op) { return s.before[static_cast<size_t>(std::lower_bound(members.begin(), members.end(), op) - members.begin())] != 0; };

  const FusionGraph::Op* main = nullptr;
  double rows = 1;                     // times that what feeds a product is computed
  double reload = 1;                   // times that grid-sized inputs are read
  if (s.products.empty()) {
    double lines = 0, length = 0, grid = 0;
    for (uint32_t r : s.reducers) {
      const FusionGraph::Op& op = g_.ops[r];
      if (lines > 0 && (!near(lines, op.lines) || !near(length, op.length))) return refuse("reduction order");
      lines = op.lines, length = op.length;
      if (!main || op.seconds > main->seconds) main = &op;
    }
    for (uint32_t i : members) grid = std::max(grid, g_.ops[i].elements);
    if (lines > 0) {
      if (grid > lines * length * (1 + 1e-9)) return refuse("shape mismatch");
      grid = lines * length;
      out.on_chip = length * 4 * 2;
      // Longer lines take the online form: a pass for the state, a pass for the result.
      if (out.on_chip > scratch_) reload = 2, out.on_chip = scratch_;
    }
    for (uint32_t i : members)
      if (!main || (s.reducers.empty() && g_.ops[i].elements > main->elements)) main = &g_.ops[i];
  } else if (s.products.size() == 1) {
    main = &g_.ops[s.products[0]];
    for (size_t k = 0; k < members.size(); ++k) {
      const FusionGraph::Op& op = g_.ops[members[k]];
      if (members[k] == s.products[0]) continue;
      if (s.before[k]) {
        if (main->kind == Kind::convolution) return refuse("halo of a convolution");
        if (is_reducing(op.kind)) return refuse("a reduction before a product");
        rows = std::max(rows, std::ceil(main->n / tile_columns));
      } else if (is_reducing(op.kind)) {
        if (!near(op.lines * op.length, main->elements)) return refuse("shape mismatch");
        out.on_chip = op.length * tile_rows * 4;
        if (out.on_chip > scratch_) return refuse("tile too large");
      } else if (op.elements > main->elements * (1 + 1e-9)) {
        return refuse("shape mismatch");
      }
    }
    if (out.on_chip == 0) out.on_chip = tile_rows * tile_columns * 4;
  } else {
    // Independent products of one operand, or two with lines of scores between.
    bool depends = false;
    for (uint32_t p : s.products) depends |= member_before(p);
    if (!depends) {
      s.siblings = true;
      main = &g_.ops[s.products[0]];
      for (uint32_t p : s.products) {
        const FusionGraph::Op& op = g_.ops[p];
        if (op.kind != Kind::contraction || !op.weighted) return refuse("more than one product");
        if (op.inputs.empty() || op.inputs[0] != main->inputs[0] || !near(op.k, main->k) || !near(op.m, main->m)) return refuse("more than one product");
      }
      double widest = 0;
      for (uint32_t p : s.products) widest = std::max(widest, g_.ops[p].elements);
      for (size_t k = 0; k < members.size(); ++k) {
        const FusionGraph::Op& op = g_.ops[members[k]];
        if (is_product(op.kind)) continue;
        if (s.before[k] || is_reducing(op.kind)) return refuse(s.before[k] ? "a prologue of several products" : "reduction order");
        if (op.elements > widest * (1 + 1e-9)) return refuse("shape mismatch");
      }
      out.on_chip = tile_rows * tile_columns * 4 * static_cast<double>(s.products.size());
    } else {
      if (s.products.size() != 2) return refuse("more than two products");
      const FusionGraph::Op& first = g_.ops[s.products[0]];
      const FusionGraph::Op& second = g_.ops[s.products[1]];
      if (first.kind != Kind::contraction || second.kind != Kind::contraction || first.weighted || second.weighted) return refuse("two products with weights");
      if (!near(second.k, first.head)) return refuse("shape mismatch");
      if (first.k > widest_head || second.n > widest_head) return refuse("tile too large");
      bool online = false;
      std::vector<uint8_t> feeds_first(members.size());
      mark_before(g_, members, s.products[0], feeds_first);
      for (size_t k = 0; k < members.size(); ++k) {
        const FusionGraph::Op& op = g_.ops[members[k]];
        if (is_product(op.kind)) continue;
        if (is_reducing(op.kind)) {
          if (!s.before[k] || feeds_first[k]) return refuse("reduction order");
          if (!near(op.length, first.head)) return refuse("reduction order");
          online = true;
        }
        const double most = s.before[k] && !feeds_first[k] ? first.elements : std::max({second.elements, first.elements});
        if (op.elements > most * (1 + 1e-9)) return refuse("shape mismatch");
      }
      if (!online) return refuse("no online form");
      s.attention = true;
      main = &first;
      out.on_chip = (first.k + second.n + tile_columns) * tile_rows * 4;
    }
  }

  // Traffic: what comes in, and what others read.
  Problem& p = out.problem;
  p.kind = main->kind, p.math = main->problem.math, p.factors = main->problem.factors, p.causal = main->problem.causal;
  std::map<uint32_t, double> in;
  double grid_bytes = 0, serial = 0;
  for (uint32_t i : members) {
    const FusionGraph::Op& op = g_.ops[i];
    p.matrix_flops += op.problem.matrix_flops;
    const bool prologue = s.products.size() == 1 && member_before(i);
    p.vector_flops += op.problem.vector_flops * (prologue ? rows : 1);
    if (prologue) serial += op.problem.vector_flops * rows;
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      if (g_.maker[op.inputs[k]] != UINT32_MAX && contains(members, g_.maker[op.inputs[k]])) continue;
      double& bytes = in[op.inputs[k]];
      bytes = std::max(bytes, op.input_bytes[k]);
    }
  }
  for (const auto& [value, bytes] : in) grid_bytes = std::max(grid_bytes, bytes);
  auto first_operand = [&](size_t k) -> std::optional<uint32_t> { return k < main->inputs.size() ? std::optional(main->inputs[k]) : std::nullopt; };
  // The main op's own operands come first, as its kind's kernels expect them.
  for (size_t k = 0; k < 2 && is_product(main->kind); ++k) {
    const auto v = first_operand(k);
    const DType type = k < main->problem.operands.size() ? main->problem.operands[k].dtype : DType::float32;
    const auto at = v ? in.find(*v) : in.end();
    p.operands.push_back({type, at == in.end() ? 0 : at->second, false});
    if (at != in.end()) in.erase(at);
  }
  const DType other = main->problem.operands.empty() ? DType::float32 : main->problem.operands.front().dtype;
  for (const auto& [value, bytes] : in) p.operands.push_back({other, bytes * (reload > 1 && near(bytes, grid_bytes) ? reload : 1), false});
  for (uint32_t i : members) {
    const FusionGraph::Op& op = g_.ops[i];
    for (size_t j = 0; j < op.outputs.size(); ++j) {
      bool escapes = g_.is_output[op.outputs[j]];
      bool inside = false;
      for (const FusionGraph::Edge& e : g_.consumers[i]) {
        if (e.value != op.outputs[j]) continue;
        if (contains(members, e.node)) inside = true;
        else escapes = true;
      }
      if (escapes || !inside) p.operands.push_back({other, op.output_bytes[j], true});
    }
  }
  for (const OperandSize& o : p.operands) (o.is_output ? p.bytes_written : p.bytes_read) += o.bytes;
  out.bytes = p.bytes_read + p.bytes_written;
  if (s.siblings) {
    double wide = 0;
    for (uint32_t i : s.products) wide += g_.ops[i].n;
    for (FactorSize& f : p.factors)
      if (f.role == Role::pass && (f.operands >> 16 & 1) && !(f.operands & 1) && f.size > 1) {
        f.size = static_cast<int64_t>(std::llround(static_cast<double>(f.size) * wide / main->n));
        break;
      }
  }
  if (s.attention) {
    const FusionGraph::Op& second = g_.ops[s.products[1]];
    p.kind = Kind::attention;
    p.factors.clear();
    int64_t batch = 1, queries = 1;
    for (const FactorSize& f : main->problem.factors) {
      if (f.role != Role::pass || !(f.operands & 1) || !(f.operands >> 16 & 1)) continue;
      (f.operands >> 1 & 1 ? batch : queries) *= f.size;
    }
    constexpr uint32_t result = 1u << 16;
    p.factors = {{batch, Role::pass, 7u | result},  {1, Role::pass, 1u | result},
                 {queries, Role::pass, 1u | result}, {static_cast<int64_t>(main->head), Role::online, 6u},
                 {static_cast<int64_t>(main->k), Role::reduce, 3u}, {static_cast<int64_t>(second.n), Role::pass, 4u | result}};
  }
  if (!convex(members)) return refuse("a path leaves and comes back");
  Time t = predictor_(p);
  if (!t.predicted || !t.math) return refuse("a figure that the hardware lacks");
  // Operands of a product pass through a prologue on their way into the matrix unit, which waits for them.
  if (serial > 0) {
    const double waits = serial / vector_rate(hardware_, p.math).value_or(1e13);
    const double products = p.matrix_flops / matrix_rate(hardware_, p.math).value_or(1e13);
    const double math = std::max(*t.math, products + waits);
    *t.predicted = model_ == TimeModel::ideal ? std::max(*t.predicted, math) : *t.predicted + (math - *t.math);
    if (math > *t.ideal) t.ideal = math, t.bound = Bound::compute;
    t.math = math;
  }
  out.valid = true, out.seconds = *t.predicted, out.cost = out.seconds + hidden(p), out.time = t;
  return out;
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

std::vector<std::vector<uint32_t>> FusionPlanner::plan() const {
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
    for (auto& group : members.size() <= exact_ops ? exact(members) : greedy(members)) groups.push_back(std::move(group));
  }
  std::sort(groups.begin(), groups.end());
  return groups;
}

// The best of all ways to run a component group after group: states are sets of ops that have run.
std::vector<std::vector<uint32_t>> FusionPlanner::exact(const std::vector<uint32_t>& component) const {
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
