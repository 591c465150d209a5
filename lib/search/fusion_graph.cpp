// From a costed module to the graph that fusion works on.
#include "ops/op_info.h"
#include "search/fusion.h"

#include <algorithm>
#include <map>

namespace roofcast {
namespace {

bool is_reducing(Kind k) { return k == Kind::reduction || k == Kind::softmax || k == Kind::normalization; }

// Kinds that tiles can pass through.
bool fusable(Kind k) {
  return is_product(k) || is_reducing(k) || k == Kind::pointwise || k == Kind::movement || k == Kind::lookup;
}

// The factors of these dims that are taken, as one run of elements.
template <class Taken> FusionGraph::Block block_of(const OperandMap& map, const std::vector<FactorSize>& sizes, Taken&& taken) {
  FusionGraph::Block block;
  bool began = false, ended = false;
  for (auto d = map.dims.rbegin(); d != map.dims.rend(); ++d)
    for (auto f = d->factors.rbegin(); f != d->factors.rend(); ++f) {
      const auto size = static_cast<double>(sizes[*f].size);
      if (size == 1) continue;
      if (taken(*f)) {
        if (ended) block.inner = -1;
        block.length *= size, began = true;
      } else if (began) {
        ended = true;
      } else {
        block.inner *= size;
      }
    }
  return block;
}

bool has_factor(const OperandMap& map, uint8_t factor) {
  return std::any_of(map.dims.begin(), map.dims.end(), [&](const DimMap& d) { return std::find(d.factors.begin(), d.factors.end(), factor) != d.factors.end(); });
}

// Whether the factors that both have come in another order.
bool reordered(const OperandMap& in, const OperandMap& out, const std::vector<FactorSize>& sizes) {
  auto shared = [&](const OperandMap& map, const OperandMap& other) {
    std::vector<uint8_t> order;
    for (const DimMap& d : map.dims)
      for (uint8_t f : d.factors)
        if (sizes[f].size != 1 && has_factor(other, f)) order.push_back(f);
    return order;
  };
  return shared(in, out) != shared(out, in);
}

// What the op's loops say of lines, order and broadcasts.
// `slots`: the place of each input among the node's.
void read_access(FusionGraph::Op& op, const std::vector<size_t>& slots) {
  const Access& access = op.work->access;
  const std::vector<FactorSize>& sizes = op.problem.factors;
  op.spread.resize(op.inputs.size());
  const bool known = !access.inputs.empty() && !access.outputs.empty() && access.factors.size() == sizes.size();
  const bool moves = op.kind == Kind::movement || op.kind == Kind::lookup;
  if (!known) {
    op.permutes = moves && !op.inputs.empty();
    if (is_reducing(op.kind)) op.alone = true;
    return;
  }
  if (is_reducing(op.kind)) {
    op.reduced = block_of(access.inputs[0], sizes, [&](uint8_t f) { return sizes[f].role != Role::pass; });
    op.alone |= std::any_of(sizes.begin(), sizes.end(), [](const FactorSize& f) { return f.role == Role::window; });
  }
  op.permutes = op.kind == Kind::lookup || (moves && !access.inputs[0].outside && reordered(access.inputs[0], access.outputs[0], sizes));
  const bool broadcasts = op.kind == Kind::pointwise || op.kind == Kind::movement;
  for (size_t i = 0; broadcasts && i < slots.size(); ++i)
    if (slots[i] < access.inputs.size() && !access.inputs[slots[i]].outside)
      op.spread[i] = block_of(access.outputs[0], sizes, [&](uint8_t f) { return sizes[f].role == Role::pass && !has_factor(access.inputs[slots[i]], f); });
}

// In how many pieces a value lies on the ranks; of one dim, or of any.
double ways(const Sharding& sharding, ValueId v, size_t dim) {
  double pieces = 1;
  for (size_t axis = 0; axis < sharding.axes().size(); ++axis)
    if (const Placement at = sharding.placement(v, axis); at.is_sharded() && (dim == SIZE_MAX || at.dim == dim)) pieces *= at.ways;
  return pieces;
}

// Collectives as ops between the one that makes a value and those that read it elsewhere or whole.
class Exchanges {
public:
  Exchanges(const Module& module, const Sharding* sharding, std::span<const Communication> communications) : m_(module), sharding_(sharding) {
    if (!sharding) return;
    position_.resize(m_.nodes.size(), UINT32_MAX);
    const auto& nodes = m_.main().nodes;
    for (uint32_t p = 0; p < nodes.size(); ++p) position_[nodes[p].index] = p;
    for (const Communication& c : communications)
      if (c.phase == Phase::forward && c.producer.valid()) at_.emplace(sharding->site_at(c.position).position, &c);
  }

  // The value that `op` reads where it reads `input`, of the root `value`: as it is, or as a collective gives it.
  uint32_t arrived(FusionGraph& g, const FusionGraph::Op& op, ValueId input, uint32_t value) {
    if (!sharding_) return value;
    const auto [begin, end] = at_.equal_range(sharding_->site_at(op.position).position);
    for (auto c = begin; c != end; ++c)
      if (made_by(input, c->second->producer)) return given_.contains(value) ? given_[value] : add(g, op, *c->second, value);
    // What was gathered once is read whole by products only: others work on their own part.
    const auto known = given_.find(value);
    if (known == given_.end()) return value;
    const bool gathered = g.ops[g.maker[known->second]].exchange.kind == CollectiveKind::all_gather;
    return gathered && !is_product(op.kind) ? value : known->second;
  }

private:
  bool made_by(ValueId v, NodeId producer) const {
    for (NodeId node = m_[v].producer; node.valid() && position_[node.index] != UINT32_MAX; node = m_[v].producer) {
      if (sharding_->site_at(position_[node.index]).position == sharding_->site_at(position_[producer.index]).position) return true;
      const OpInfo* info = m_.instances[m_[node].instance.index].op;
      const auto inputs = m_.inputs(m_[node]);
      if (!info || info->kind != Kind::view || inputs.empty() || !inputs[0].valid()) return false;
      v = inputs[0];
    }
    return false;
  }

  uint32_t add(FusionGraph& g, const FusionGraph::Op& reader, const Communication& c, uint32_t value) {
    const auto given = static_cast<uint32_t>(g.maker.size());
    FusionGraph::Op op;
    op.node = c.producer, op.position = reader.position, op.times = reader.times;
    op.kind = Kind::collective, op.alone = true, op.exchange = c.what;
    op.seconds = c.exposed * static_cast<double>(c.steps), op.time.bound = Bound::communication;
    op.inputs = {value}, op.input_bytes = {0}, op.spread.resize(1), op.outputs = {given}, op.output_bytes = {0};
    g.maker.push_back(static_cast<uint32_t>(g.ops.size())), g.uses.push_back(0), g.is_output.push_back(false);
    g.ops.push_back(std::move(op));
    given_[value] = given;
    return given;
  }

  const Module& m_;
  const Sharding* sharding_;
  std::vector<uint32_t> position_;                              // by node
  std::multimap<uint32_t, const Communication*> at_;            // by position of the reader's site
  std::map<uint32_t, uint32_t> given_;                          // value → as a collective gives it
};

}  // namespace

FusionGraph fusion_graph(Costing& costing, const Fold& fold, const Sharding* sharding, std::span<const Communication> communications) {
  const Module& m = costing.module();
  FusionGraph g;
  g.maker.assign(m.values.size(), UINT32_MAX), g.uses.resize(m.values.size()), g.is_output.resize(m.values.size());
  std::vector<uint32_t> root(m.values.size());
  for (uint32_t v = 0; v < root.size(); ++v) root[v] = fold.canonical[v];
  auto root_of = [&](ValueId v) { return root[fold.canonical[v.index]]; };
  Exchanges exchanges(m, sharding, communications);
  for (const Fold::Site& site : fold.sites) {
    const NodeId id = m.main().nodes[site.position];
    const Node& node = m[id];
    const auto inputs = m.inputs(node), outputs = m.outputs(node);
    const Costing::Cost cost = costing.cost(id);
    if (cost.group < 0 && cost.uncounted.empty()) {
      // A view, or a transpose that moves nothing: another name for its input. What is known at compile
      // time has no maker.
      const OpInfo* info = m.instances[node.instance.index].op;
      const bool renames = (info && info->kind == Kind::view) || (cost.work && cost.work->kind == Kind::movement);
      if (renames && !inputs.empty() && inputs[0].valid() && !outputs.empty() && outputs[0].valid()) root[outputs[0].index] = root_of(inputs[0]);
      continue;
    }
    FusionGraph::Op op;
    op.node = id, op.position = site.position, op.times = site.times;
    op.work = cost.work;
    op.kind = cost.work ? cost.work->kind : Kind::opaque;
    if (cost.group >= 0) {
      op.problem = sharding ? sharding->site_at(site.position).local : costing.problem(cost.group);
      op.time = sharding ? costing.predictor()(op.problem) : costing.time(cost.group);
      op.seconds = op.time.predicted.value_or(0);
    }
    op.alone = cost.group < 0 || !fusable(op.kind) || node.region_count > 0;
    std::vector<size_t> slots;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].valid()) continue;
      slots.push_back(i);
      const double bytes = i < op.problem.operands.size() ? op.problem.operands[i].bytes : 0;
      op.inputs.push_back(exchanges.arrived(g, op, inputs[i], root_of(inputs[i]))), op.input_bytes.push_back(bytes);
      const Value& v = m[inputs[i]];
      if (is_product(op.kind) && i < 2 && (v.storage == Storage::weight || v.storage == Storage::constant)) op.weighted = true;
    }
    op.scales = op.kind == Kind::normalization && inputs.size() > 1 &&
                std::all_of(inputs.begin() + 1, inputs.end(), [&](ValueId v) { return !v.valid() || m[v].storage == Storage::weight || m[v].storage == Storage::constant; });
    const auto index = static_cast<uint32_t>(g.ops.size());
    size_t out = 0;
    while (out < op.problem.operands.size() && !op.problem.operands[out].is_output) ++out;
    for (size_t j = 0; j < outputs.size(); ++j) {
      if (!outputs[j].valid()) continue;
      op.outputs.push_back(outputs[j].index);
      op.output_bytes.push_back(out + j < op.problem.operands.size() ? op.problem.operands[out + j].bytes : 0);
      g.maker[outputs[j].index] = index;
    }
    // Of the whole model; a rank has its share.
    auto local = [&](double size, bool last_dim) { return sharding && outputs[0].valid() ? size / ways(*sharding, outputs[0], last_dim ? m[outputs[0]].type->dims.size() - 1 : SIZE_MAX) : size; };
    if (!outputs.empty() && outputs[0].valid() && m[outputs[0]].type && m[outputs[0]].type->is_tensor())
      op.elements = local(evaluate_real(m[outputs[0]].type->elements(), costing.values()).value_or(0), false);
    if (op.work) read_access(op, slots);
    op.scales &= op.reduced.length == 1;
    double pass = 1, summed = 1, n = 1, first = 1, rows = 1;
    for (const FactorSize& f : op.problem.factors) {
      const auto size = static_cast<double>(f.size);
      const bool out0 = f.operands >> 16 & 1, in0 = f.operands & 1, in1 = f.operands >> 1 & 1;
      if (f.role == Role::pass) pass *= size;
      if (f.role == Role::reduce || f.role == Role::online || f.role == Role::window || f.role == Role::whole) summed *= size;
      if (f.role == Role::pass && out0 && !in0) n *= size;
      if (f.role == Role::pass && out0 && in0) first *= size;
      if (f.role == Role::pass && out0 && in0 && !in1) rows *= size;
    }
    if (is_reducing(op.kind)) op.lines = pass;
    if (is_product(op.kind)) {
      op.k = summed, op.n = n, op.m = first, op.rows = rows;
      if (!outputs.empty() && m[outputs[0]].type && !m[outputs[0]].type->dims.empty())
        op.head = local(evaluate_real(m[outputs[0]].type->dims.back(), costing.values()).value_or(0), true);
    }
    g.ops.push_back(std::move(op));
  }
  for (ValueId v : m.main().outputs)
    if (v.valid()) g.is_output[root_of(v)] = true, ++g.uses[root_of(v)];
  g.consumers.resize(g.ops.size()), g.producers.resize(g.ops.size());
  for (uint32_t i = 0; i < g.ops.size(); ++i) {
    std::vector<uint32_t> seen;
    for (uint32_t v : g.ops[i].inputs) {
      if (std::find(seen.begin(), seen.end(), v) != seen.end()) continue;
      seen.push_back(v);
      ++g.uses[v];
      if (g.maker[v] == UINT32_MAX || g.maker[v] == i) continue;
      g.consumers[g.maker[v]].push_back({i, v});
      g.producers[i].push_back({g.maker[v], v});
    }
    // Bodies read from outside: whatever they read is needed whole.
    for (RegionId body : m.regions_of(m[g.ops[i].node]))
      for (NodeId inner : m.regions[body.index].nodes)
        for (ValueId v : m.inputs(m[inner]))
          if (v.valid() && m[v].region.index == 0) g.is_output[root_of(v)] = true;
  }
  return g;
}

std::vector<std::vector<NodeId>> places_of(const FusionGraph& g, const std::vector<uint32_t>& members, const Fold& fold,
                                           const Module& m) {
  const auto& nodes = m.main().nodes;
  std::vector<int64_t> position, moved;
  for (uint32_t i : members) position.push_back(g.ops[i].position);
  moved = position;
  const int64_t highest = *std::max_element(position.begin(), position.end());
  int64_t places = 1, period = 0;
  for (const Repeat& r : fold.repeats) {
    // Only repeats of which some blocks are left out.
    const int64_t kept = fold.keep, count = r.count;
    if (count <= kept + 1) continue;
    const auto block = [&](int64_t p) { return (p - r.first) / r.period; };
    const bool beyond = highest >= r.end() || (highest >= r.first && block(highest) == count - 1);
    for (size_t k = 0; k < position.size(); ++k) {
      if (position[k] < r.first || position[k] >= r.end() || block(position[k]) >= kept) continue;
      // What the last block and those after it read stands in the last but one.
      if (beyond) moved[k] += (count - 1 - kept) * r.period;
      else if (block(highest) == kept - 1) places = count - kept, period = r.period;
    }
  }
  std::vector<std::vector<NodeId>> all;
  for (int64_t place = 0; place < places; ++place) {
    std::vector<NodeId>& at = all.emplace_back();
    for (int64_t p : moved) at.push_back(nodes[static_cast<size_t>(p + place * period)]);
  }
  return all;
}

}  // namespace roofcast
