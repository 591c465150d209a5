#include "search/sharding.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <set>

namespace roofcast {
namespace {

// Two dims or more that are not one.
bool is_matrix(Type t) {
  return t && t->ranked && std::count_if(t->dims.begin(), t->dims.end(), [](Expr d) { return d != Expr(1); }) >= 2;
}

constexpr size_t beam_width = 48;

bool splits_work(const Choice& c) { return !c.splits.empty(); }

}  // namespace

Sharding::Sharding(Costing& costing, const ShardingOptions& options)
    : costing_(costing), m_(costing.module()), options_(options), training_(options.training) {
  fold();
  describe_sites();
  if (options.fused_chains) fuse_chains();
}

// Of a block that repeats, its first, second and last instance.
void Sharding::fold() {
  Fold fold = fold_blocks(m_, 2);
  repeats_ = std::move(fold.repeats), site_of_ = std::move(fold.site_of), canonical_ = std::move(fold.canonical);
  for (const Fold::Site& at : fold.sites) {
    Site& s = sites_.emplace_back();
    s.node = m_.main().nodes[at.position], s.position = at.position, s.times = at.times;
  }
}

void Sharding::describe_sites() {
  const size_t values = m_.values.size();
  bytes_.resize(values), kept_ways_.resize(values), root_.resize(values), pieces_.assign(values, 1);
  partial_.resize(values), trained_.resize(values), stateful_.resize(values), shared_.resize(values);
  for (uint32_t v = 0; v < values; ++v) {
    const Value& value = m_.values[v];
    root_[v] = v;
    if (!value.type || !value.type->is_tensor()) continue;
    const DType stored = value.stored != DType::undefined ? value.stored : value.type->dtype;
    bytes_[v] = value.storage == Storage::weight && value.stored_bytes
                    ? static_cast<double>(value.stored_bytes)
                    : evaluate_real(storage_bytes(stored, value.type->elements()), costing_.values()).value_or(0);
  }
  full_bytes_ = bytes_;
  auto floating = [&](ValueId v) { return m_[v].type && m_[v].type->is_tensor() && is_float(m_[v].type->dtype); };
  for (ValueId v : m_.main().inputs)
    if (v.valid() && floating(v)) stateful_[v.index] = 1;
  std::vector<uint8_t> uses(values), differentiable(values);
  for (Site& s : sites_) {
    const Node& node = m_[s.node];
    const Instance& instance = m_.instances[node.instance.index];
    const Costing::Cost cost = costing_.cost(s.node);
    s.work = &costing_.work_of(node.instance);
    if (auto p = bind(*s.work, instance, costing_.values())) s.local = std::move(*p);
    // An order that does not change is bound without loops; splitting still needs their sizes.
    s.has_work = cost.group >= 0;
    s.is_product = s.work->kind == Kind::contraction || s.work->kind == Kind::convolution || s.work->kind == Kind::attention ||
                   s.work->kind == Kind::moe || s.work->kind == Kind::lookup;
    if (instance.op) s.gradient = gradient_of(*instance.op);
    const auto inputs = m_.inputs(node);
    bool carries = false, learns = false;
    s.reads.assign(inputs.size(), 1);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId v = inputs[i];
      if (!v.valid()) continue;
      const uint32_t c = canonical(v);
      const bool inside = i < s.work->access.inputs.size() && !s.work->access.inputs[i].outside;
      // Of some inputs only shape or type matters: they may lie in any way.
      s.reads[i] = !(instance.op && instance.op->reads_shape_only) && (inside || i >= s.work->reads.size() || s.work->reads[i] != Expr(0) || s.work->kind == Kind::view);
      if (!s.reads[i]) continue;
      if (is_weight(v) && floating(v)) {
        if (s.is_product && is_matrix(m_[v].type)) carries = true;
        if (inside && instance.op && s.gradient != Gradient::none) {
          trained_[c] = 1, learns = true;
          if (i < 16) s.needs |= 1u << i;
        }
        if (m_[v].type->dims.size() >= 2 && uses[c]++) shared_[c] = 1;
        if (instance.op && (instance.op->kind == Kind::contraction || instance.op->kind == Kind::moe))
          largest_weight_ = std::max(largest_weight_, bytes_[c]);
      }
      if (stateful_[c]) carries = true;
      if (differentiable[c] && floating(v) && (inside || s.work->access.empty())) {
        learns = true;
        if (i < 16) s.needs |= 1u << i;
      }
    }
    if (options_.product_math != MathType::none && s.local.matrix_flops > 0 && carries && (s.work->kind == Kind::contraction || s.work->kind == Kind::moe))
      for (size_t i = 0; i < inputs.size(); ++i)
        if (inputs[i].valid() && is_weight(inputs[i]) && is_matrix(m_[inputs[i]].type)) s.local.math = options_.product_math;
    if (s.gradient == Gradient::none) s.needs = 0, learns = false;
    for (ValueId v : m_.outputs(node)) {
      if (!v.valid()) continue;
      stateful_[v.index] = carries && m_[v].storage != Storage::constant;
      differentiable[v.index] = learns && floating(v);
    }
    if (!training_) s.needs = 0;
    s.kept = kept_operands(s.gradient, s.local, s.needs);
    const auto results = m_.outputs(node);
    if (s.work->kind == Kind::view && !inputs.empty() && !results.empty() && inputs[0].valid() && results[0].valid())
      root_[results[0].index] = root_[canonical(inputs[0])];
    auto keep = [&](ValueId v) {
      if (v.valid() && m_[v].storage == Storage::activation && !costing_.free(s.node)) kept_ways_[root_[canonical(v)]] = 1;
    };
    for (size_t i = 0; i < inputs.size() && i < 16; ++i)
      if (s.kept >> i & 1) keep(inputs[i]);
    for (size_t j = 0; j < results.size() && j < 16; ++j)
      if (s.kept >> (16 + j) & 1) keep(results[j]);
  }
}

// A pointwise op whose input is made by a kernel that nothing else reads runs in that kernel: what
// passes between them never reaches memory, but for what backward keeps.
void Sharding::fuse_chains() {
  std::vector<uint32_t> uses(m_.values.size()), maker(m_.values.size(), UINT32_MAX);
  for (uint32_t i = 0; i < sites_.size(); ++i) {
    for (ValueId v : m_.inputs(m_[sites_[i].node]))
      if (v.valid()) ++uses[canonical(v)];
    for (ValueId v : m_.outputs(m_[sites_[i].node]))
      if (v.valid()) maker[v.index] = i;
  }
  for (ValueId v : m_.main().outputs)
    if (v.valid()) ++uses[canonical(v)];
  for (Site& s : sites_) {
    if (!s.has_work || (s.work->kind != Kind::pointwise && s.work->kind != Kind::softmax)) continue;
    const auto inputs = m_.inputs(m_[s.node]);
    for (size_t i = 0; i < inputs.size() && i < s.local.operands.size(); ++i) {
      if (!inputs[i].valid() || is_weight(inputs[i])) continue;
      const uint32_t v = canonical(inputs[i]);
      if (uses[v] != 1 || maker[v] == UINT32_MAX) continue;
      Site& p = sites_[maker[v]];
      const bool fits = p.work->kind == Kind::pointwise || (s.work->kind == Kind::pointwise && (p.work->kind == Kind::contraction || p.work->kind == Kind::softmax));
      if (!p.has_work || !fits || p.times != s.times) continue;
      s.local.bytes_read -= s.local.operands[i].bytes, s.local.operands[i].bytes = 0;
      if (p.work->kind != Kind::contraction && i < 16) s.passed_on |= 1u << i, p.taken_over = true;
      if (kept_ways_[root_[v]]) continue;
      for (OperandSize& o : p.local.operands)
        if (o.is_output) {
          p.local.bytes_written -= o.bytes, o.bytes = 0;
          break;
        }
    }
  }
}

std::vector<BackwardProblem> Sharding::backward(const Site& site, const Problem& local) {
  // Gradients are as large as what they are of, also where forward never writes it.
  std::vector<BackwardProblem> all = backward_problems(site.gradient, local, site.needs);
  if (!site.passed_on && !site.taken_over) return all;
  for (BackwardProblem& b : all) {
    auto drop = [&](OperandSize& o) {
      (o.is_output ? b.problem.bytes_written : b.problem.bytes_read) -= o.bytes;
      o.bytes = 0;
    };
    if (site.taken_over && !b.problem.operands.empty()) drop(b.problem.operands[0]);
    if (b.input >= 0) continue;
    // One kernel writes the gradients of all inputs that want one, in order.
    uint32_t input = 0;
    for (OperandSize& o : b.problem.operands) {
      if (!o.is_output) continue;
      while (input < 16 && !(site.needs >> input & 1)) ++input;
      if (site.passed_on >> input & 1) drop(o);
      ++input;
    }
  }
  return all;
}

// Weights, and what is made of them alone when the model is compiled (a transposed one, say).
bool Sharding::is_weight(ValueId v) const {
  const Value& value = m_[v];
  return value.storage == Storage::weight || (value.storage == Storage::constant && value.producer.valid() && is_matrix(value.type) &&
          is_float(value.type->dtype));
}

double Sharding::seconds(const Problem& problem) {
  if (!problem.has_work()) return 0;
  auto [at, is_new] = prices_.try_emplace(problem, 0.0);
  if (is_new) at->second = predict(problem, costing_.hardware(), costing_.model()).predicted.value_or(0);
  return at->second;
}

Placement Sharding::placement(ValueId v, size_t axis) const {
  const auto at = placements_[axis].find(canonical(v));
  return at == placements_[axis].end() ? Placement{} : at->second;
}

// A value that is still needed, in a placement in which it stands ready.
struct Sharding::Live {
  enum : uint8_t { produced = 1, partial_gradient = 2, other_gradient = 4, gathered_again = 8 };
  uint32_t value = 0;
  Placement at;
  uint8_t flags = 0;
  auto operator<=>(const Live&) const = default;
};

struct Sharding::Hypothesis {
  double cost = 0;
  std::vector<Live> live;
  uint64_t entry = 0;      // live values at the start of the block being repeated, by where they stand in it
  uint32_t parent = 0, option = 0;
};

struct Sharding::Option {
  const Choice* choice = nullptr;
  double seconds = 0;
};

// The walk along one axis.
class Sharding::Walk {
public:
  Walk(Sharding& s, const MeshAxis& axis, const std::vector<ShardPin>& pins) : s_(s), m_(s.m_), axis_(axis), pins_(pins) {}

  Status run() {
    if (Status status = read_pins(); !status) return status;
    find_last_uses();
    collect_parts();
    collect_strides();
    options_.resize(s_.sites_.size());
    for (uint32_t i = 0; i < s_.sites_.size(); ++i)
      if (Status status = make_options(i); !status) return status;
    std::vector<std::vector<std::pair<uint32_t, uint32_t>>> history(s_.sites_.size());
    std::vector<Hypothesis> beam(1);
    for (uint32_t i = 0; i < s_.sites_.size(); ++i) {
      mark_entry(i, beam);
      std::vector<Hypothesis> next = step(i, beam);
      if (next.empty())
        return error("layout-pin", "no way to run \"" + display_name(m_, s_.sites_[i].node) + "\" as --shard asks",
                     {.file = m_.file, .node = display_name(m_, s_.sites_[i].node)}, "leave one of the pins out");
      check_exit(i, next);
      for (const Hypothesis& h : next) history[i].push_back({h.parent, h.option});
      beam = std::move(next);
    }
    auto best = std::min_element(beam.begin(), beam.end(), [](auto& a, auto& b) { return a.cost < b.cost; });
    auto at = static_cast<uint32_t>(best - beam.begin());
    std::vector<uint32_t> chosen(s_.sites_.size());
    for (size_t i = chosen.size(); i-- > 0;) {
      chosen[i] = history[i][at].second;
      at = history[i][at].first;
    }
    replay(chosen);
    return Ok{};
  }

private:
  bool tracked(ValueId v) const {
    const uint32_t c = s_.canonical(v);
    return s_.is_weight(v) ? s_.shared_[c] : s_.stateful_[c];
  }

  Status read_pins() {
    auto matches = [](std::string_view pattern, std::string_view text) {
      // * stands for any text.
      size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
      while (t < text.size()) {
        if (p < pattern.size() && pattern[p] == '*') star = p++, mark = t;
        else if (p < pattern.size() && pattern[p] == text[t]) ++p, ++t;
        else if (star != std::string_view::npos) p = star + 1, t = ++mark;
        else return false;
      }
      while (p < pattern.size() && pattern[p] == '*') ++p;
      return p == pattern.size();
    };
    for (const ShardPin& pin : pins_) {
      if (pin.axis != axis_.name) continue;
      bool found = false;
      auto set = [&](ValueId v) {
        if (!v.valid() || !m_[v].type || !m_[v].type->is_tensor()) return;
        const auto rank = static_cast<int64_t>(m_[v].type->dims.size());
        const int64_t dim = pin.dim < 0 ? pin.dim + rank : pin.dim;
        if (dim < 0 || dim >= rank) return;
        pinned_[s_.canonical(v)] = Placement::sharded(static_cast<size_t>(dim), axis_.ranks);
        found = true;
      };
      for (uint32_t i = 0; i < m_.values.size(); ++i)
        if (matches(pin.pattern, m_.names[m_.values[i].name])) set(ValueId{i});
      for (NodeId id : m_.main().nodes)
        if (matches(pin.pattern, display_name(m_, id)) && !m_.outputs(m_[id]).empty()) set(m_.outputs(m_[id])[0]);
      if (!found)
        return error("layout-pin", "--shard '" + pin.pattern + "=" + pin.axis + ":" + std::to_string(pin.dim) + "' names no tensor or node with such a dim",
                     {.file = m_.file}, "names are those of the file; * stands for any text");
    }
    return Ok{};
  }

  void find_last_uses() {
    last_.assign(m_.values.size(), 0);
    for (uint32_t i = 0; i < s_.sites_.size(); ++i)
      for_inputs(i, [&](ValueId v) { last_[s_.canonical(v)] = i; });
    for (ValueId v : m_.main().outputs)
      if (v.valid()) is_output_.insert(s_.canonical(v));
  }

  template <class F> void for_inputs(uint32_t i, F&& use) const {
    const Site& s = s_.sites_[i];
    const auto inputs = m_.inputs(m_[s.node]);
    for (size_t k = 0; k < inputs.size(); ++k)
      if (inputs[k].valid() && s.reads[k]) use(inputs[k]);
    for (RegionId body : m_.regions_of(m_[s_.sites_[i].node])) body_inputs(body, use);
  }
  template <class F> void body_inputs(RegionId body, F&& use) const {
    for (NodeId inner : m_.regions[body.index].nodes) {
      for (ValueId v : m_.inputs(m_[inner]))
        if (v.valid()) use(v);
      for (RegionId deeper : m_.regions_of(m_[inner])) body_inputs(deeper, use);
    }
  }

  void add_parts(uint32_t value, int64_t n) {
    std::vector<int64_t>& all = parts_[value];
    if (std::find(all.begin(), all.end(), n) == all.end() && all.size() < 4) all.push_back(n);
  }
  void copy_parts(uint32_t from, uint32_t to) {
    if (const auto at = parts_.find(from); at != parts_.end() && from != to)
      for (int64_t n : std::vector(at->second)) add_parts(to, n);
  }

  // Ops that take a dim apart into equal parts: their producers may be split part by part, up to the
  // product that makes the value.
  void collect_parts() {
    for (size_t i = s_.sites_.size(); i-- > 0;) {
      const Site& s = s_.sites_[i];
      const auto inputs = m_.inputs(m_[s.node]), outputs = m_.outputs(m_[s.node]);
      if (s.work->kind == Kind::movement || s.work->kind == Kind::attention || s.work->kind == Kind::view)
        for (size_t k = 0; k < std::min(inputs.size(), s.work->access.inputs.size()); ++k)
          for (const DimMap& d : s.work->access.inputs[k].dims)
            if (d.kind == DimMap::Kind::product && d.factors.size() > 1 && inputs[k].valid() && tracked(inputs[k]))
              if (const auto n = evaluate(s.work->access.factors[d.factors[0]].size, s_.costing_.values());
                  n && *n > 1 && *n <= (s.work->access.factors[d.factors[0]].role == Role::whole ? 8 : 4))
                add_parts(s_.canonical(inputs[k]), *n);
      if (outputs.empty() || !outputs[0].valid() || (s.work->kind != Kind::view && s.work->kind != Kind::pointwise)) continue;
      for (ValueId v : inputs)
        if (v.valid() && tracked(v)) copy_parts(s_.canonical(outputs[0]), s_.canonical(v));
    }
  }

  // The other way round: a dim that was merged with an outer loop comes in strides of it.
  void collect_strides() {
    for (const Site& s : s_.sites_) {
      const auto inputs = m_.inputs(m_[s.node]), outputs = m_.outputs(m_[s.node]);
      if (outputs.empty() || !outputs[0].valid() || !tracked(outputs[0])) continue;
      const uint32_t out = s_.canonical(outputs[0]);
      if (s.work->kind == Kind::view) {
        for (const OperandMap& map : s.work->access.outputs)
          for (const DimMap& d : map.dims)
            if (d.kind == DimMap::Kind::product && d.factors.size() > 1)
              if (const auto n = evaluate(s.work->access.factors[d.factors[0]].size, s_.costing_.values());
                  n && *n > 1 && *n <= UINT16_MAX)
                add_parts(out, *n);
        continue;
      }
      if (parts_.contains(out)) continue;
      for (ValueId v : inputs)
        if (v.valid() && tracked(v)) copy_parts(s_.canonical(v), out);
    }
  }

  bool forced(const Site& s, size_t input) const {
    const ValueId v = m_.inputs(m_[s.node])[input];
    if (axis_.use != MeshAxis::Use::tensor || !v.valid() || !s_.is_weight(v) || m_[v].type->dims.size() < 2) return false;
    const Kind kind = s.work->kind;
    if (kind == Kind::contraction || kind == Kind::convolution || kind == Kind::moe) return true;
    return kind == Kind::lookup && s_.bytes_[s_.canonical(v)] >= s_.largest_weight_;
  }

  // May a context axis split so? Weights stay whole; the batch belongs to data parallelism.
  bool fits_context(const Site& s, const Choice& c) const {
    const auto inputs = m_.inputs(m_[s.node]);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].valid() && s_.is_weight(inputs[i]) && c.inputs[i].is_sharded() && s_.bytes_[s_.canonical(inputs[i])] > 65536) return false;
    for (const Choice::Split& f : c.splits)
      if (s.work->access.factors[f.factor].name == "b" || s.work->access.factors[f.factor].size == batch()) return false;
    return true;
  }
  // The size of the first dim of the first input: the batch, by convention.
  Expr batch() const {
    for (ValueId v : m_.main().inputs)
      if (v.valid() && m_[v].type && m_[v].type->is_tensor() && m_[v].type->dims.size() >= 2) return m_[v].type->dims[0];
    return {};
  }

  Status make_options(uint32_t index) {
    Site& s = s_.sites_[index];
    const Node& node = m_[s.node];
    const Instance& instance = m_.instances[node.instance.index];
    const size_t inputs = node.input_count, outputs = node.output_count;
    std::vector<int64_t> sizes;
    for (size_t f = 0; f < s.work->access.factors.size(); ++f) {
      int64_t size = evaluate(s.work->access.factors[f].size, s_.costing_.values()).value_or(1);
      for (const auto& axis : s.splits)
        for (const Choice::Split& split : axis)
          if (split.factor == f) size = (size + split.ways - 1) / split.ways;
      sizes.push_back(size);
    }
    SplitRules rules{.ranks = axis_.ranks};
    const OpInfo* op = instance.op;
    rules.additive = op && (op->kind == Kind::contraction || op->kind == Kind::convolution || op->kind == Kind::moe);
    // Sums of partial sums; what moves them about waits for the sum.
    rules.linear = op && s.gradient == Gradient::linear && (op->kind == Kind::pointwise || op->kind == Kind::view);
    rules.online_state = op && op->kind == Kind::softmax;
    if (outputs > 0 && m_.outputs(node)[0].valid())
      if (const auto at = parts_.find(s_.canonical(m_.outputs(node)[0])); at != parts_.end()) rules.parts = at->second;
    bool carries = false;
    for_inputs(index, [&](ValueId v) { carries |= tracked(v) || s_.is_weight(v); });
    // What depends on no data that is split, and bodies, are computed by every rank.
    const bool alone = !carries || node.region_count > 0 || !shapes_agree(s.work->access, instance);
    auto& choices = choices_.emplace_back(alone ? choices_of({}, {}, inputs, outputs, rules)
                                                : choices_of(s.work->access, sizes, inputs, outputs, rules));
    if (axis_.use == MeshAxis::Use::context)
      std::erase_if(choices, [&](const Choice& c) { return splits_work(c) && !fits_context(s, c); });
    // Weights are split where they can be.
    for (size_t i = 0; i < inputs; ++i) {
      if (!forced(s, i)) continue;
      auto splits = [&](const Choice& c) { return c.inputs[i].is_sharded(); };
      if (std::any_of(choices.begin(), choices.end(), splits)) std::erase_if(choices, [&](const Choice& c) { return !splits(c); });
    }
    s.by_columns = false;
    for (size_t i = 0; i < inputs; ++i)
      if (forced(s, i) && s.work->kind != Kind::lookup)
        s.by_columns |= std::any_of(choices.begin(), choices.end(), [](const Choice& c) { return !c.outputs.empty() && c.outputs[0].is_sharded(); });
    for (const Choice& c : choices) {
      if (!pins_allow(s, c)) continue;
      Option o{&c, 0};
      if (s.has_work) {
        const Problem local = split(s.local, c.splits);
        o.seconds = seconds(local);
        if (s_.training_)
          for (const BackwardProblem& b : Sharding::backward(s, local)) o.seconds += seconds(b.problem);
      }
      // Of equal choices, the one that leaves less on each rank.
      for (size_t j = 0; j < outputs; ++j)
        if (!c.outputs[j].is_sharded()) o.seconds += 1e-15;
      options_[index].push_back(o);
    }
    return Ok{};
  }

  bool pins_allow(const Site& s, const Choice& c) const {
    if (pinned_.empty()) return true;
    auto fits = [&](ValueId v, const Placement& p) {
      const auto at = v.valid() ? pinned_.find(s_.canonical(v)) : pinned_.end();
      return at == pinned_.end() || (p.is_sharded() && p.dim == at->second.dim);
    };
    const auto inputs = m_.inputs(m_[s.node]), outputs = m_.outputs(m_[s.node]);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].valid() && s_.is_weight(inputs[i]) && !fits(inputs[i], c.inputs[i])) return false;
    for (size_t j = 0; j < outputs.size(); ++j)
      if (!fits(outputs[j], c.outputs[j])) return false;
    return true;
  }

  // An access that does not describe the operands as they are cannot place them.
  static bool shapes_agree(const Access& access, const Instance& instance) {
    auto agrees = [](const OperandMap& map, Type t) {
      return map.outside || !t || !t->is_tensor() || !t->ranked || map.dims.size() == t->dims.size();
    };
    for (size_t i = 0; i < std::min(access.inputs.size(), instance.inputs.size()); ++i)
      if (!agrees(access.inputs[i], instance.inputs[i])) return false;
    for (size_t j = 0; j < std::min(access.outputs.size(), instance.outputs.size()); ++j)
      if (!agrees(access.outputs[j], instance.outputs[j])) return false;
    return true;
  }

  double price(CollectiveKind kind, double bytes, int64_t ranks, int64_t stride) {
    if (kind == CollectiveKind::none || ranks <= 1 || bytes <= 0) return 0;
    auto [at, is_new] = wires_.try_emplace({static_cast<int>(kind), bytes, ranks, stride}, 0.0);
    if (is_new)
      // No link is known: any amount is worse than none.
      at->second = collective_time({kind, bytes, ranks, stride}, s_.costing_.hardware(), TimeModel::ideal).seconds.value_or(bytes * 1e-9);
    return at->second;
  }
  // By the roofline, whatever model predicts times: a choice follows from the graph, not from how well the
  // kernels of one device take one size.
  double seconds(const Problem& p) const { return p.has_work() ? roofline(p, s_.costing_.hardware()).ideal.value_or(0) : 0; }

  struct Emit {
    uint32_t position;
    std::vector<Communication>* out;
    NodeId producer;
  };
  double send(const Reshard& r, Phase phase, std::string_view reason, Emit* emit) {
    if (r.kind == CollectiveKind::none || r.ranks <= 1) return 0;
    const int64_t stride = axis_.stride * (axis_.ranks / std::max<int64_t>(1, std::min(r.ranks, axis_.ranks)));
    const int64_t own = r.ranks == axis_.ranks ? axis_.stride : stride;
    if (ring_ && r.ranks == axis_.ranks && (r.kind == CollectiveKind::all_gather || r.kind == CollectiveKind::reduce_scatter)) {
      // One piece at a time goes round while the one before is worked on. H. Liu, M. Zaharia, P. Abbeel,
      // "Ring attention with blockwise transformers for near-infinite context", arXiv 2310.01889. The
      // slowest hop joins ranks as far apart as the ring reaches.
      const int64_t steps = r.ranks - 1;
      const Collective message{CollectiveKind::send_recv, r.bytes / static_cast<double>(r.ranks), r.ranks, own * steps};
      if (emit)
        emit->out->push_back({message, emit->position, emit->producer, static_cast<uint8_t>(s_.axes_.size()), phase,
                              r.kind == CollectiveKind::all_gather ? "ring attention, passed round" : "ring attention, gradients passed round", steps});
      passed_ += price(message.kind, message.bytes, message.ranks, message.stride) * static_cast<double>(steps);
      return 0;
    }
    if (emit)
      emit->out->push_back({{r.kind, r.bytes, r.ranks, own}, emit->position, emit->producer, static_cast<uint8_t>(s_.axes_.size()), phase, reason});
    // Without sequence parallelism what one layer hands to the next is whole on every rank: that a value
    // comes in shards and is gathered at once is no way around it.
    const bool around = r.kind == CollectiveKind::all_gather && phase == Phase::forward && !axis_.scatter && axis_.use == MeshAxis::Use::tensor;
    return price(r.kind, r.bytes, r.ranks, own) * (around ? 2 : 1);
  }

  // Brings a value where the choice needs it. −1: cannot be.
  double bring(std::vector<Live>& live, ValueId v, const Placement& need, bool splits, bool kept, bool gradient, Emit* emit) {
    const uint32_t c = s_.canonical(v);
    const double bytes = s_.bytes_[c];
    const Live* produced = nullptr;
    size_t at = SIZE_MAX;
    for (size_t k = 0; k < live.size(); ++k) {
      if (live[k].value != c) continue;
      if (live[k].flags & Live::produced) produced = &live[k];
      if (live[k].at == need) at = k;
    }
    double cost = 0;
    if (!produced) {
      // The first use of an input or of a shared weight says how it is stored.
      if (need.is_partial()) return -1;
      live.push_back({c, need, Live::produced});
      return 0;
    }
    const Placement made = produced->at;
    // A weight lies in one way for all that read it.
    if (s_.is_weight(v) && need != made && !made.is_replicated()) return -1;
    if (emit) emit->producer = m_.values[c].producer;
    if (at == SIZE_MAX) {
      std::optional<Reshard> best;
      double least = 0;
      bool summed = false;
      for (const Live& l : live) {
        if (l.value != c) continue;
        const auto r = reshard(l.at, need, bytes, axis_.ranks, axis_.scatter);
        if (!r) continue;
        const double own = price(r->kind, r->bytes, r->ranks, axis_.stride);
        if (!best || own < least) best = r, least = own, summed = l.at.is_partial() && r->kind == CollectiveKind::all_reduce;
      }
      if (!best) return -1;
      cost += send(*best, Phase::forward,
                   best->kind == CollectiveKind::all_reduce || best->kind == CollectiveKind::reduce_scatter ? "partial sums"
                   : best->kind == CollectiveKind::all_to_all ? "sharded on another dim" : "read whole", emit);
      if (summed && need.is_sharded()) live.push_back({c, {}, 0});  // the whole sum stands there too
      at = live.size();
      live.push_back({c, need, 0});
    }
    if (!gradient) return cost;
    // Gradients come back as the consumer makes them, and must reach the producer as it made the value.
    const Placement home = made.is_sharded() ? made : Placement{};
    const Placement back = need.is_sharded() ? need : need.is_replicated() && splits ? Placement::partial() : Placement{};
    const uint8_t flag = back.is_partial() ? Live::partial_gradient : Live::other_gradient;
    if (!(live[at].flags & flag)) {
      live[at].flags |= flag;
      if (const auto r = reshard(back, home, bytes, axis_.ranks, true))
        cost += send(*r, Phase::backward, back.is_partial() ? "partial gradients" : "gradient read whole", emit);
    }
    if (kept && !axis_.keep_gathered && need.is_replicated() && made.is_sharded() && !(live[at].flags & Live::gathered_again)) {
      live[at].flags |= Live::gathered_again;
      cost += send({CollectiveKind::all_gather, bytes, made.ways}, Phase::backward, "kept sharded, read whole again", emit);
    }
    return cost;
  }

  // Cost of running a site so; `live` becomes what stands ready afterwards. −1: cannot be.
  double apply(uint32_t index, const Option& option, std::vector<Live>& live, Emit* emit) {
    const Site& s = s_.sites_[index];
    const Choice& c = *option.choice;
    ring_ = axis_.use == MeshAxis::Use::context && s.work->kind == Kind::attention, passed_ = 0;
    const Node& node = m_[s.node];
    const auto inputs = m_.inputs(node), outputs = m_.outputs(node);
    double cost = 0;
    // Replicated values stay whole but for products, or data parallelism would creep in by slices; a
    // product with a weight is split by rows of it only if its input comes so.
    const bool by_rows = s.by_columns && std::any_of(c.outputs.begin(), c.outputs.end(), [](auto& p) { return p.is_partial(); });
    if (splits_work(c) && axis_.use == MeshAxis::Use::tensor && (!s.is_product || by_rows)) {
      bool found = false, any = false;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (!inputs[i].valid() || !tracked(inputs[i]) || !c.inputs[i].is_sharded()) continue;
        any = true;
        for (const Live& l : live)
          if (l.value == s_.canonical(inputs[i]) && (l.at == c.inputs[i] || (axis_.scatter && !by_rows && !l.at.is_replicated()))) found = true;
      }
      if (any && !found) return -1;
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId v = inputs[i];
      if (!v.valid() || !s.reads[i]) continue;
      const Placement& need = c.inputs[i];
      if (!tracked(v)) {
        if (need.is_partial()) return -1;
        continue;
      }
      const bool weight = s_.is_weight(v);
      const double own = bring(live, v, need, splits_work(c), i < 16 && (s.kept >> i & 1), !weight && i < 16 && (s.needs >> i & 1), emit);
      if (own < 0) return -1;
      cost += own;
    }
    if (node.region_count > 0)
      for (RegionId body : m_.regions_of(node)) {
        bool fine = true;
        body_inputs(body, [&](ValueId v) {
          if (!fine || !tracked(v) || m_[v].region.index != 0) return;
          const double own = bring(live, v, {}, false, false, false, emit);
          if (own < 0) fine = false;
          else cost += own;
        });
        if (!fine) return -1;
      }
    // What goes round is hidden by the work on all pieces but the first.
    if (passed_ > 0) cost += std::max(0.0, passed_ - option.seconds * (1 - 1 / static_cast<double>(axis_.ranks)));
    ring_ = false;
    if (c.state_bytes > 0) {
      if (emit) emit->producer = {};
      cost += send({CollectiveKind::all_reduce, c.state_bytes, axis_.ranks}, Phase::forward, "state of split lines", emit);
    }
    for (size_t j = 0; j < outputs.size(); ++j)
      if (outputs[j].valid() && tracked(outputs[j])) live.push_back({s_.canonical(outputs[j]), c.outputs[j], Live::produced});
    // Graph outputs are whole sums.
    for (const Live& l : live)
      if (last_[l.value] <= index && l.flags & Live::produced && l.at.is_partial() && is_output_.contains(l.value)) {
        if (emit) emit->producer = m_.values[l.value].producer;
        cost += send({CollectiveKind::all_reduce, s_.bytes_[l.value], axis_.ranks}, Phase::forward, "partial sums", emit);
      }
    std::erase_if(live, [&](const Live& l) { return last_[l.value] <= index; });
    return cost;
  }

  std::vector<Hypothesis> step(uint32_t index, const std::vector<Hypothesis>& beam) {
    std::vector<Hypothesis> next;
    std::unordered_map<uint64_t, size_t> seen;
    const auto weight = static_cast<double>(s_.sites_[index].times);
    for (uint32_t b = 0; b < beam.size(); ++b)
      for (uint32_t k = 0; k < options_[index].size(); ++k) {
        const Option& o = options_[index][k];
        Hypothesis h;
        h.live = beam[b].live, h.entry = beam[b].entry, h.parent = b, h.option = k;
        const double own = apply(index, o, h.live, nullptr);
        if (own < 0) continue;
        h.cost = beam[b].cost + (own + o.seconds) * weight;
        std::sort(h.live.begin(), h.live.end());
        const auto [at, is_new] = seen.try_emplace(signature(h), next.size());
        if (is_new) next.push_back(std::move(h));
        else if (h.cost < next[at->second].cost) next[at->second] = std::move(h);
      }
    if (next.size() > beam_width) prune(next);
    return next;
  }

  // Keeps the cheapest, of each way in which weights that are read again lie: such a choice pays late.
  // Of each state in which a block that repeats began, too: a costly one is paid once, what it saves often.
  // Sums that are still partial have to be resolved some day, which counts already.
  void prune(std::vector<Hypothesis>& beam) {
    std::vector<std::pair<double, uint32_t>> order;
    for (uint32_t k = 0; k < beam.size(); ++k) order.push_back({beam[k].cost + debt(beam[k]), k});
    std::sort(order.begin(), order.end());
    std::vector<Hypothesis> sorted;
    for (const auto& [cost, k] : order) sorted.push_back(std::move(beam[k]));
    beam = std::move(sorted);
    std::unordered_map<uint64_t, size_t> kept;
    std::erase_if(beam, [&](const Hypothesis& h) {
      uint64_t weights = h.entry;
      for (const Live& l : h.live)
        if (s_.shared_[l.value]) mix(weights, l.value), mix(weights, bits_of(l.at));
      return ++kept[weights] > beam_width;
    });
  }

  double debt(const Hypothesis& h) {
    double sum = 0;
    for (const Live& l : h.live) {
      if (!l.at.is_partial()) continue;
      const bool resolved = std::any_of(h.live.begin(), h.live.end(), [&](const Live& o) { return o.value == l.value && !o.at.is_partial(); });
      if (!resolved) sum += price(axis_.scatter ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce, s_.bytes_[l.value], axis_.ranks, axis_.stride);
    }
    return sum;
  }

  static void mix(uint64_t& h, uint64_t v) { h = (h ^ v) * 0x9E3779B97F4A7C15ull, h ^= h >> 29; }
  static uint64_t bits_of(const Placement& p) {
    return static_cast<uint64_t>(p.kind) | static_cast<uint64_t>(p.dim) << 8 | static_cast<uint64_t>(p.ways) << 16 | static_cast<uint64_t>(p.parts) << 32;
  }
  static uint64_t signature(const Hypothesis& h) {
    uint64_t hash = h.entry;
    for (const Live& l : h.live) mix(hash, l.value), mix(hash, bits_of(l.at)), mix(hash, l.flags);
    return hash;
  }

  // The state at a block's border, by where values stand in their block: equal at both ends of a block
  // that repeats.
  uint64_t border(const Hypothesis& h, const Repeat& r, uint32_t block) const {
    uint64_t total = 0;
    for (const Live& l : h.live) {
      const NodeId producer = m_.values[l.value].producer;
      if (!producer.valid()) continue;
      const uint32_t p = position_of(producer);
      const uint32_t begin = r.first + block * r.period;
      if (p < begin || p >= begin + r.period) continue;
      uint64_t own = p - begin;
      mix(own, bits_of(l.at)), mix(own, l.flags & Live::produced);
      total += own;  // in any order
    }
    return total | 1;
  }
  uint32_t position_of(NodeId id) const {
    if (positions_.empty()) {
      positions_.assign(m_.nodes.size(), UINT32_MAX);
      for (uint32_t p = 0; p < m_.main().nodes.size(); ++p) positions_[m_.main().nodes[p].index] = p;
    }
    return positions_[id.index];
  }
  const Repeat* repeat_starting_second(uint32_t position) const {
    for (const Repeat& r : s_.repeats_)
      if (r.count > 3 && position == r.first + r.period) return &r;
    return nullptr;
  }
  const Repeat* repeat_ending_second(uint32_t position) const {
    for (const Repeat& r : s_.repeats_)
      if (r.count > 3 && position + 1 == r.first + 2 * r.period) return &r;
    return nullptr;
  }
  void mark_entry(uint32_t index, std::vector<Hypothesis>& beam) const {
    if (const Repeat* r = repeat_starting_second(s_.sites_[index].position))
      for (Hypothesis& h : beam) h.entry = border(h, *r, 0);
  }
  void check_exit(uint32_t index, std::vector<Hypothesis>& beam) const {
    const Repeat* r = repeat_ending_second(s_.sites_[index].position);
    if (!r) return;
    std::vector<Hypothesis> steady;
    for (const Hypothesis& h : beam)
      if (border(h, *r, 1) == h.entry) steady.push_back(h);
    if (!steady.empty()) beam = std::move(steady);
    for (Hypothesis& h : beam) h.entry = 0;
  }

  void replay(const std::vector<uint32_t>& chosen) {
    const size_t axis = s_.axes_.size();
    auto& placements = s_.placements_.emplace_back();
    Hypothesis h;
    std::map<uint32_t, int64_t> kept_ways;
    std::vector<std::pair<uint32_t, int64_t>> value_ways;
    for (uint32_t i = 0; i < chosen.size(); ++i) {
      Site& s = s_.sites_[i];
      const Choice& c = *options_[i][chosen[i]].choice;
      Emit emit{s.position, &s_.communications_, {}};
      const auto inputs = m_.inputs(m_[s.node]), outputs = m_.outputs(m_[s.node]);
      // What is kept lies as it was made, or as it is read if it came as partial sums.
      for (size_t k = 0; k < inputs.size() && k < 16; ++k) {
        if (!inputs[k].valid()) continue;
        const uint32_t v = s_.canonical(inputs[k]);
        if (s_.is_weight(ValueId{v})) {
          placements.try_emplace(v, c.inputs[k]);
          if (c.inputs[k].is_sharded()) kept_ways.try_emplace(v, c.inputs[k].ways);
          else if (splits_work(c)) s_.partial_[v] |= static_cast<uint8_t>(1u << axis);
        } else if (!m_.values[v].producer.valid() && s_.stateful_[v]) {
          if (placements.try_emplace(v, c.inputs[k]).second && c.inputs[k].is_sharded()) value_ways.push_back({v, c.inputs[k].ways});
        } else if (s.kept >> k & 1) {
          const auto made = placements.find(v);
          int64_t ways = 1;
          if (made != placements.end() && made->second.is_sharded()) ways = axis_.keep_gathered && c.inputs[k].is_replicated() ? 1 : made->second.ways;
          else if (c.inputs[k].is_sharded()) ways = c.inputs[k].ways;
          auto [at, is_new] = kept_ways.try_emplace(s_.root_[v], ways);
          if (!is_new) at->second = std::min(at->second, ways);
        }
      }
      apply(i, options_[i][chosen[i]], h.live, &emit);
      for (size_t j = 0; j < outputs.size(); ++j) {
        if (!outputs[j].valid()) continue;
        const uint32_t v = s_.canonical(outputs[j]);
        placements[v] = c.outputs[j];
        if (c.outputs[j].is_sharded()) value_ways.push_back({v, c.outputs[j].ways});
        if (j < 16 && (s.kept >> (16 + j) & 1)) kept_ways.try_emplace(s_.root_[v], c.outputs[j].is_sharded() ? c.outputs[j].ways : 1);
      }
      s.local = split(s.local, c.splits);
      s.splits.push_back(c.splits);
      s.outputs.push_back(c.outputs);
    }
    for (const auto& [v, ways] : value_ways) s_.bytes_[v] /= static_cast<double>(ways);
    for (auto& [v, ways] : kept_ways) {
      if (s_.is_weight(ValueId{v})) s_.pieces_[v] *= ways, s_.bytes_[v] /= static_cast<double>(ways);
      else s_.kept_ways_[v] *= ways;
    }
  }

  Sharding& s_;
  const Module& m_;
  const MeshAxis& axis_;
  const std::vector<ShardPin>& pins_;
  std::map<uint32_t, Placement> pinned_;
  std::vector<uint32_t> last_;
  std::set<uint32_t> is_output_;
  std::map<uint32_t, std::vector<int64_t>> parts_;  // by value
  std::deque<std::vector<Choice>> choices_;
  std::vector<std::vector<Option>> options_;
  std::map<std::tuple<int, double, int64_t, int64_t>, double> wires_;
  mutable std::vector<uint32_t> positions_;
  bool ring_ = false;      // while attention over a context axis is placed
  double passed_ = 0;      // seconds of its messages
};

Status Sharding::solve(const MeshAxis& axis, const std::vector<ShardPin>& pins) {
  if (axis.ranks > 1)
    if (Status status = Walk(*this, axis, pins).run(); !status) return status;
  if (axis.ranks <= 1) {
    placements_.emplace_back();
    for (Site& s : sites_) s.splits.emplace_back(), s.outputs.emplace_back();
  }
  axes_.push_back(axis);
  return Ok{};
}

}  // namespace roofcast
