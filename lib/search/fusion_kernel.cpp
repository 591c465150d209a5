// Whether a set of ops can be one kernel, what it moves and computes then, and how long that takes.
#include "hw/hardware.h"
#include "search/fusion.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace roofcast {
namespace {

using Op = FusionGraph::Op;
using Block = FusionGraph::Block;

constexpr double tile_rows = 64;       // rows of a product's tile that a core holds
constexpr double tile_columns = 128;
constexpr double widest_head = 512;    // of attention: queries, keys and values of a tile fit beside each other

bool near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }
bool exceeds(double a, double b) { return a > b * (1 + 1e-9); }
bool same(const Block& a, const Block& b) { return near(a.length, b.length) && near(a.inner, b.inner); }

// Sets of members: bit k for the k-th.
using Mask = uint64_t;
static_assert(FusionPlanner::most_ops <= 64);
bool has(Mask set, size_t k) { return set >> k & 1; }
Mask bit(size_t k) { return Mask{1} << k; }

// Of up to two things a member.
class UnionFind {
public:
  explicit UnionFind(size_t n) : parts_(n) {
    for (size_t i = 0; i < n; ++i) parent_[i] = static_cast<uint8_t>(i);
  }
  size_t find(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(size_t a, size_t b) {
    a = find(a), b = find(b);
    if (a != b) parent_[a] = static_cast<uint8_t>(b), --parts_;
  }
  size_t parts() const { return parts_; }

private:
  std::array<uint8_t, 2 * FusionPlanner::most_ops> parent_;
  size_t parts_;
};

// How the loops of a set's members become those of one kernel. All indices are places among the members,
// which come in the order of the graph.
class Tiling {
public:
  // `ops`: where the members stand among each other; `values` is for its own use.
  Tiling(const FusionGraph& graph, const std::vector<uint32_t>& members, double scratch, const Places& ops, Places& values)
      : g_(graph), members_(members), scratch_(scratch), ops_(ops), values_(values) {
    limit = members.size() > FusionPlanner::most_ops ? "too many ops" : fit();
    if (limit.empty()) count_repeats(), fold_constants();
  }

  std::string_view limit;          // why there is no such kernel; empty: there is
  const Op* main = nullptr;        // the op whose loops the kernel has
  std::vector<size_t> products;
  bool siblings = false, attention = false;
  double reload = 1;               // times that operands of the whole grid are read
  double on_chip = 0;              // bytes
  std::array<double, FusionPlanner::most_ops> repeat;  // how often each member is computed
  bool folds(size_t k) const { return has(folded_, k); }    // into the weights of the product before it
  bool feeds_product(size_t k) const { return has(before_, k); }
  bool makes_scores(size_t k) const { return has(scores_, k); }  // of attention: all up to what its second product reads of the first

private:
  struct Use {
    size_t from, to, slot;         // an operand of `to` that a member makes
  };
  const Op& op(size_t k) const { return g_.ops[members_[k]]; }
  // Of the member that makes a value.
  uint32_t maker(uint32_t value) const { return g_.maker[value] == UINT32_MAX ? Places::none : ops_.of(g_.maker[value]); }

  std::string_view fit() {
    for (size_t k = 0; k < members_.size(); ++k) {
      if (op(k).alone) return "an op that runs alone";
      if (op(k).times != op(members_.size() - 1).times && members_.back() - members_.front() > 512) return "too far apart";
      if (is_product(op(k).kind)) products.push_back(k);
      if (reduces(op(k))) reducers_.push_back(k);
    }
    if (std::string_view why = products_agree(); !why.empty()) return why;
    uses_.reserve(2 * members_.size());
    for (size_t k = 0; k < members_.size(); ++k)
      for (size_t i = 0; i < op(k).inputs.size(); ++i)
        if (const uint32_t from = maker(op(k).inputs[i]); from != Places::none) uses_.push_back({from, k, i});
    if (!connected()) return "not connected";
    for (size_t p : products) before_ |= before(p);
    if (std::string_view why = same_lines(); !why.empty()) return why;
    if (products.empty()) return pointwise();
    if (products.size() == 1) return one_product();
    return siblings ? sibling_products() : two_products();
  }

  // Several products are siblings, with weights and one operand, or the two of an attention.
  std::string_view products_agree() {
    if (products.size() < 2) return {};
    main = &op(products[0]);
    siblings = main->weighted;
    for (size_t p : products) {
      const Op& o = op(p);
      if (o.kind != Kind::contraction || o.weighted != siblings) return "two products with weights";
      if (siblings && (o.inputs.empty() || o.inputs[0] != main->inputs[0] || !near(o.k, main->k) || !near(o.m, main->m))) return "two products with weights";
    }
    if (siblings) return {};
    if (products.size() > 2) return "more than two products";
    const Op& second = op(products[1]);
    if (!near(second.k, main->head)) return "shape mismatch";
    return main->k > widest_head || second.n > widest_head ? "tile too large" : "";
  }

  bool connected() const {
    UnionFind parts(members_.size());
    for (const Use& u : uses_) parts.join(u.from, u.to);
    // Products of one operand are neighbours too.
    for (size_t a = 0; a + 1 < products.size(); ++a)
      for (size_t b = a + 1; b < products.size(); ++b)
        if (!op(products[a]).inputs.empty() && !op(products[b]).inputs.empty() && op(products[a]).inputs[0] == op(products[b]).inputs[0])
          parts.join(products[a], products[b]);
    return parts.parts() == 1;
  }

  // What a member reads of the set, directly or not.
  Mask before(size_t member) const {
    Mask found = bit(member);
    for (auto u = uses_.rbegin(); u != uses_.rend(); ++u)
      if (has(found, u->to)) found |= bit(u->from);
    return found & ~bit(member);
  }
  // What reads it, and itself.
  Mask from(size_t member) const {
    Mask found = bit(member);
    for (const Use& u : uses_)
      if (has(found, u.from)) found |= bit(u.to);
    return found;
  }

  // All reductions run along the same lines, and what they give goes back to the line that it is of. A
  // value is met in one order only: no transpose stands between an order and itself.
  std::string_view same_lines() {
    for (size_t r : reducers_) {
      const Op& first = op(reducers_.front());
      if (op(r).reduced.inner < 0) return "reduction order";
      if (!same(first.reduced, op(r).reduced) || !near(first.lines, op(r).lines)) return "reduction order";
    }
    UnionFind order(2 * members_.size());
    values_.forget(g_.maker.size());   // those from outside: who reads one first
    for (size_t k = 0; k < members_.size(); ++k) {
      const Op& o = op(k);
      if (is_product(o.kind)) continue;
      if (!o.permutes) order.join(2 * k, 2 * k + 1);
      for (size_t i = 0; i < o.inputs.size(); ++i) {
        if (o.kind == Kind::pointwise ? o.spread[i].length > 1 : i > 0) continue;
        const uint32_t value = o.inputs[i];
        if (const uint32_t from = maker(value); from != Places::none) order.join(2 * from + 1, 2 * k);
        else if (const uint32_t first = values_.of(value); first != Places::none) order.join(2 * first, 2 * k);
        else values_.set(value, k);
      }
    }
    for (size_t k = 0; k < members_.size(); ++k)
      if (op(k).permutes && order.find(2 * k) == order.find(2 * k + 1)) return "shape mismatch";
    for (size_t r : reducers_)
      if (order.find(2 * r) != order.find(2 * reducers_.front())) return "reduction order";
    if (reducers_.empty()) return {};
    const double lines = op(reducers_.front()).lines;
    const Block reduced = op(reducers_.front()).reduced;
    for (size_t r : reducers_)
      if (near(op(r).elements, lines)) line_ |= bit(r);
    for (const Use& u : uses_) {
      const Op& to = op(u.to);
      if (!has(line_, u.from) || reduces(to) || is_product(to.kind)) continue;
      if (!exceeds(to.elements, lines)) line_ |= bit(u.to);
      else if (!same(to.spread[u.slot], reduced)) return "shape mismatch";
    }
    return {};
  }

  std::string_view pointwise() {
    double grid = 0;
    for (size_t k = 0; k < members_.size(); ++k) {
      grid = std::max(grid, op(k).elements);
      const bool heavier = main && (reduces(op(k)) ? op(k).seconds > main->seconds || !reduces(*main) : !reduces(*main) && op(k).elements > main->elements);
      if (!main || heavier) main = &op(k);
    }
    if (reducers_.empty()) return {};
    if (exceeds(grid, main->lines * main->reduced.length)) return "shape mismatch";
    on_chip = main->reduced.length * 4 * 2;
    // Longer lines take the online form: a pass for the state, a pass for the result.
    if (on_chip > scratch_) reload = 2, on_chip = scratch_;
    return {};
  }

  std::string_view one_product() {
    const size_t product = products[0];
    main = &op(product);
    for (size_t k = 0; k < members_.size(); ++k) {
      const Op& o = op(k);
      if (k == product) continue;
      if (has(before_, k)) {
        if (main->kind == Kind::convolution) return "halo of a convolution";
        if (reduces(o)) return "a reduction before a product";
      } else if (reduces(o)) {
        // A tile holds whole rows of the result.
        if (!near(o.lines * o.reduced.length, main->elements)) return "shape mismatch";
        if (o.reduced.inner != 1 || std::fmod(main->n, o.reduced.length) != 0) return "reduction order";
        on_chip = o.reduced.length * tile_rows * 4;
        if (on_chip > scratch_) return "tile too large";
      } else if (exceeds(o.elements, main->elements)) {
        return "shape mismatch";
      }
    }
    if (on_chip == 0) on_chip = tile_rows * tile_columns * 4;
    return {};
  }

  // Independent products of one operand.
  std::string_view sibling_products() {
    double widest = 0;
    for (size_t p : products) {
      if (has(before_, p)) return "two products with weights";
      widest = std::max(widest, op(p).elements);
    }
    for (size_t k = 0; k < members_.size(); ++k) {
      if (is_product(op(k).kind)) continue;
      if (has(before_, k)) return "a prologue of several products";
      if (reduces(op(k))) return "reduction order";
      if (exceeds(op(k).elements, widest)) return "shape mismatch";
    }
    on_chip = tile_rows * tile_columns * 4 * static_cast<double>(products.size());
    return {};
  }

  // Two products with lines of scores between, which are never whole.
  std::string_view two_products() {
    if (!has(before_, products[0])) return "two products side by side";
    const Op& first = *main;
    const Op& second = op(products[1]);
    const Mask after_first = from(products[0]);
    for (size_t k = 0; k < members_.size(); ++k) {
      const Op& o = op(k);
      if (is_product(o.kind)) continue;
      const bool scores = has(before_ & after_first, k);
      if (reduces(o) && (!scores || o.reduced.inner != 1 || !near(o.reduced.length, first.head))) return "reduction order";
      if (scores && o.permutes && near(o.elements, first.elements)) return "reduction order";
      // What is made of neither product feeds one: keys, values, a mask.
      if (has(after_first, k) && exceeds(o.elements, scores ? first.elements : second.elements)) return "shape mismatch";
    }
    if (reducers_.empty()) return "no online form";
    for (const Use& u : uses_)
      if (u.to == products[1] && has(after_first, u.from)) scores_ |= bit(u.from) | before(u.from);
    attention = true;
    on_chip = (first.k + second.n + tile_columns) * tile_rows * 4;
    return {};
  }

  // What scales a product's result by weights alone changes its weights instead, if nothing else reads that result.
  void fold_constants() {
    for (const Use& u : uses_) {
      const Op& from = op(u.from);
      const bool constant = has(folded_, u.from) || (is_product(from.kind) && from.weighted);
      if (u.slot > 0 || !op(u.to).scales || !constant || g_.uses[from.outputs[0]] > 1) continue;
      folded_ |= bit(u.to), repeat[u.to] = 0;
    }
  }

  // How often each member is computed: once for each place that it is broadcast to, unless that is the line
  // that a core has at hand; operands of a product once for each tile that reads them.
  void count_repeats() {
    repeat.fill(1);
    for (auto u = uses_.rbegin(); u != uses_.rend(); ++u) {
      const Op& to = op(u->to);
      double times = repeat[u->to];
      if (is_product(to.kind)) {
        const double size = u->slot == 0 ? to.n : to.rows, tile = u->slot == 0 ? tile_columns : tile_rows;
        times = attention && u->slot == 0 ? 1 : std::max(1.0, std::ceil(size / tile));
      } else if (!has(line_, u->from)) {
        times *= to.spread[u->slot].length;
      }
      // A product is not computed again: its tile waits for what reads it.
      if (!is_product(op(u->from).kind)) repeat[u->from] = std::max(repeat[u->from], times);
    }
  }

  const FusionGraph& g_;
  const std::vector<uint32_t>& members_;
  double scratch_;
  const Places& ops_;
  Places& values_;
  std::vector<Use> uses_;
  std::vector<size_t> reducers_;
  Mask before_ = 0;                // feeds a product
  Mask scores_ = 0;                // of attention: feeds the second product through the first's result
  Mask folded_ = 0;
  Mask line_ = 0;                  // one value for each line
};

}  // namespace

// Traffic and arithmetic that hide behind something slower decide between sets that take equally long.
double FusionPlanner::hidden(const Problem& p) const {
  constexpr double weight = 1e-6;
  const double flops = p.vector_flops / vector_rate(hardware_, p.math).value_or(1e13);
  return weight * ((p.bytes_read + p.bytes_written) * byte_time_ + flops);
}

bool FusionPlanner::is_convex(const std::vector<uint32_t>& members) const {
  const uint32_t last = members.back();
  auto inside = [&](uint32_t op) { return std::binary_search(members.begin(), members.end(), op); };
  std::vector<uint32_t> stack;
  seen_.resize(g_.ops.size()), ++search_;
  auto push = [&](uint32_t op) {
    for (const FusionGraph::Edge& e : g_.consumers[op])
      if (e.node <= last && seen_[e.node] != search_ && !inside(e.node)) seen_[e.node] = search_, stack.push_back(e.node);
  };
  for (uint32_t op : members) push(op);
  while (!stack.empty()) {
    const uint32_t op = stack.back();
    stack.pop_back();
    for (const FusionGraph::Edge& e : g_.consumers[op])
      if (inside(e.node)) return false;
    push(op);
  }
  return true;
}

namespace {

// The operands of a set as one kernel: what comes in, the main op's own first, and what others read.
void add_traffic(const FusionGraph& g, const std::vector<uint32_t>& members, const Tiling& tiling, const Places& ops, Places& values, Problem& p) {
  auto inside = [&](uint32_t op) { return op != UINT32_MAX && ops.of(op) != Places::none; };
  const Op& main = *tiling.main;
  std::vector<double> in;
  in.reserve(members.size()), p.operands.reserve(members.size());
  values.forget(g.maker.size());
  for (uint32_t i : members)
    for (size_t k = 0; k < g.ops[i].inputs.size(); ++k) {
      const uint32_t value = g.ops[i].inputs[k];
      if (inside(g.maker[value]) || tiling.folds(ops.of(i))) continue;
      if (values.of(value) == Places::none) values.set(value, in.size()), in.push_back(0);
      double& bytes = in[values.of(value)];
      bytes = std::max(bytes, g.ops[i].input_bytes[k]);
    }
  double grid_bytes = 0;
  for (double bytes : in) grid_bytes = std::max(grid_bytes, bytes);
  for (size_t k = 0; k < 2 && is_product(main.kind); ++k) {
    const DType type = k < main.problem.operands.size() ? main.problem.operands[k].dtype : DType::float32;
    const uint32_t at = k < main.inputs.size() ? values.of(main.inputs[k]) : Places::none;
    p.operands.push_back({type, at == Places::none ? 0 : std::exchange(in[at], 0), false});
  }
  const DType other = main.problem.operands.empty() ? DType::float32 : main.problem.operands.front().dtype;
  for (double bytes : in)
    if (bytes > 0) p.operands.push_back({other, bytes * (near(bytes, grid_bytes) ? tiling.reload : 1), false});
  // The last op's output is the result; what else is written comes after it.
  for (auto at = members.rbegin(); at != members.rend(); ++at)
    for (size_t j = 0, i = *at; j < g.ops[i].outputs.size(); ++j) {
      bool escapes = g.is_output[g.ops[i].outputs[j]], read = false;
      for (const FusionGraph::Edge& e : g.consumers[i])
        if (e.value == g.ops[i].outputs[j]) (inside(e.node) ? read : escapes) = true;
      if (escapes || !read) p.operands.push_back({other, g.ops[i].output_bytes[j], true});
    }
  for (const OperandSize& o : p.operands) (o.is_output ? p.bytes_written : p.bytes_read) += o.bytes;
}

// One product as wide as all that share its operand.
void widen(Problem& p, double times) {
  for (FactorSize& f : p.factors)
    if (f.role == Role::pass && (f.operands >> 16 & 1) && !(f.operands & 1) && f.size > 1) {
      f.size = static_cast<int64_t>(std::llround(static_cast<double>(f.size) * times));
      return;
    }
}

// The loops of attention from those of its two products.
void as_attention(Problem& p, const Op& first, const Op& second) {
  int64_t batch = 1, queries = 1;
  for (const FactorSize& f : first.problem.factors)
    if (f.role == Role::pass && (f.operands & 1) && (f.operands >> 16 & 1)) (f.operands >> 1 & 1 ? batch : queries) *= f.size;
  constexpr uint32_t result = 1u << 16;
  p.kind = Kind::attention;
  p.factors = {{batch, Role::pass, 7u | result},
               {1, Role::pass, 1u | result},
               {queries, Role::pass, 1u | result},
               {static_cast<int64_t>(first.head), Role::online, 6u},
               {static_cast<int64_t>(first.k), Role::reduce, 3u},
               {static_cast<int64_t>(second.n), Role::pass, 4u | result}};
}

}  // namespace

FusedKernel FusionPlanner::kernel(const std::vector<uint32_t>& members, bool convex) const {
  FusedKernel out;
  auto refuse = [&](std::string_view why) {
    out.limit = why;
    return out;
  };
  if (members.size() == 1) {
    const Op& op = g_.ops[members[0]];
    out.valid = true, out.seconds = op.seconds, out.time = op.time, out.problem = op.problem;
    out.bytes = op.problem.bytes_read + op.problem.bytes_written;
    out.cost = out.seconds + hidden(op.problem);
    return out;
  }
  ops_.forget(g_.ops.size());
  for (size_t k = 0; k < members.size(); ++k) ops_.set(members[k], k);
  const Tiling tiling(g_, members, scratch_, ops_, values_);
  if (!tiling.limit.empty()) return refuse(tiling.limit);
  if (!convex && !is_convex(members)) return refuse("a path leaves and comes back");
  const Op& main = *tiling.main;
  Problem& p = out.problem;
  p.kind = main.kind, p.math = main.problem.math, p.factors = main.problem.factors, p.causal = main.problem.causal;
  p.windowed = main.problem.windowed;
  double prologue = 0;
  for (size_t k = 0; k < members.size(); ++k) {
    const Problem& own = g_.ops[members[k]].problem;
    p.matrix_flops += own.matrix_flops;
    p.vector_flops += own.vector_flops * tiling.repeat[k];
    if (tiling.folds(k)) out.folded.push_back(members[k]);
    if (tiling.products.size() == 1 && tiling.feeds_product(k)) prologue += own.vector_flops * tiling.repeat[k];
  }
  add_traffic(g_, members, tiling, ops_, values_, p);
  if (tiling.siblings) {
    double wide = 0;
    for (size_t k : tiling.products) wide += g_.ops[members[k]].n;
    widen(p, wide / main.n);
  }
  if (tiling.attention) as_attention(p, main, g_.ops[members[tiling.products[1]]]);
  out.on_chip = tiling.on_chip, out.bytes = p.bytes_read + p.bytes_written;
  Time t = predictor_(p);
  if (!t.predicted || !t.math) return refuse("a figure that the hardware lacks");
  // Operands of a product pass through a prologue on their way into the matrix unit, which waits for them.
  // The kernel model adds all vector work to a product's.
  if (prologue > 0 && (model_ == TimeModel::ideal || predictor_.stands_in())) {
    const double waits = prologue / vector_rate(hardware_, p.math).value_or(1e13);
    const double products = p.matrix_flops / matrix_rate(hardware_, p.math).value_or(1e13);
    if (const double math = std::max(*t.math, products + waits); math > *t.ideal) t.ideal = t.predicted = math, t.bound = Bound::compute;
    t.math = std::max(*t.math, products + waits);
  }
  // Attention may run its two products one after the other on the same tile, if no library does better.
  if (tiling.attention && model_ == TimeModel::kernel) {
    std::vector<uint32_t> first, second;
    for (size_t k = 0; k < members.size(); ++k) (tiling.makes_scores(k) ? first : second).push_back(members[k]);
    const FusedKernel scores = kernel(first, true), values = kernel(second, true);
    if (scores.valid && values.valid) *t.predicted = std::min(*t.predicted, scores.seconds + values.seconds);
  }
  out.valid = true, out.seconds = *t.predicted, out.cost = out.seconds + hidden(p), out.time = t;
  return out;
}

}  // namespace roofcast
