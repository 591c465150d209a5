#include "roofcast/fuse.h"

#include "api/parallel.h"
#include "api/totals.h"
#include "frontend/onnx/write.h"
#include "hw/hardware.h"
#include "ir/graph.h"
#include "ops/op_info.h"
#include "search/fusion.h"
#include "support/diagnostic.h"
#include "support/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>

namespace roofcast {
namespace {

// Groups that are the same: their ops, and how those hang together.
std::vector<uint32_t> signature(const FusionGraph& g, const std::vector<uint32_t>& members, const Module& m) {
  std::vector<uint32_t> all;
  for (uint32_t i : members) {
    all.push_back(m[g.ops[i].node].instance.index);
    for (const FusionGraph::Edge& e : g.producers[i]) {
      const auto at = std::lower_bound(members.begin(), members.end(), e.node);
      all.push_back(at != members.end() && *at == e.node ? static_cast<uint32_t>(at - members.begin()) : UINT32_MAX);
    }
    all.push_back(UINT32_MAX - 1);
  }
  return all;
}

constexpr double least_gain = 1e-3;   // of a group's time: what saves less is bound by something else

std::string bound_text(Bound b) { return std::string(name(b)); }

class Fuser {
public:
  Fuser(Module& module, const Hardware& hardware, const FuseOptions& options)
      : m_(module), hardware_(hardware), options_(options), model_(time_model(options.model)) {}

  // `unfused`: what the whole model takes; absent under a layout.
  Status run(const Analysis* unfused) {
    plan_.file = m_.file, plan_.hardware = hardware_.name, plan_.time_model = std::string(name(model_));
    const Fold fold = fold_blocks(m_, 3);
    std::array<double, 5> by_bound{};
    if (!unfused) {
      warn_of_stand_in(plan_.warnings, hardware_, model_);
      if (Status status = read_layout(fold); !status) return status;
      for (const FusionGraph::Op& op : graph_.ops) by_bound[static_cast<size_t>(op.time.bound)] += op.seconds * static_cast<double>(op.times);
    } else {
      plan_.warnings = unfused->warnings;
      if (!unfused->totals.time) return Ok{};  // a figure of the hardware is missing, as a warning says
      plan_.model_time_before = *unfused->totals.time;
      by_bound = times_by_bound(unfused->totals);
      costing_ = std::make_unique<Costing>(m_, hardware_, model_, options_.causal);
      costing_->resolve();
      graph_ = fusion_graph(*costing_, fold);
    }
    plan_.bound_before = most(by_bound);
    const FusionPlanner planner(graph_, hardware_, model_);
    std::map<std::vector<uint32_t>, size_t> known;
    // Where groups of neighbouring blocks would share an op, the one that saves more has it.
    struct Group {
      std::vector<uint32_t> members;
      FusedKernel kernel;
      double saved;
    };
    std::vector<Group> groups;
    for (std::vector<uint32_t>& members : planner.plan()) {
      FusedKernel kernel = planner.kernel(members);
      double saved = -kernel.seconds;
      for (uint32_t i : members) saved += graph_.ops[i].seconds;
      if (saved > least_gain * (saved + kernel.seconds)) groups.push_back({std::move(members), std::move(kernel), saved});
    }
    std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.saved > b.saved; });
    chosen_of_.assign(graph_.ops.size(), none);
    for (const auto& [members, kernel, saved] : groups) {
      std::vector<std::vector<NodeId>> places = places_of(graph_, members, fold, m_);
      std::erase_if(places, [&](const std::vector<NodeId>& place) { return std::any_of(place.begin(), place.end(), [&](NodeId id) { return taken_.contains(id.index); }); });
      if (places.empty()) continue;
      const auto [at, is_new] = known.try_emplace(signature(graph_, members, m_), chosen_.size());
      if (is_new) chosen_.push_back({members, kernel, {}});
      for (uint32_t i : members) chosen_of_[i] = at->second;
      for (std::vector<NodeId>& place : places) {
        for (NodeId id : place) taken_.insert(id.index);
        chosen_[at->second].places.push_back(std::move(place));
      }
    }
    for (const Chosen& c : chosen_) plan_.candidates.push_back(candidate(c, planner));
    const size_t fused = chosen_.size();
    plan_.model_time_after = plan_.model_time_before;
    for (size_t k = 0; k < fused; ++k) {
      const auto n = static_cast<double>(plan_.candidates[k].count);
      for (uint32_t i : chosen_[k].members) by_bound[static_cast<size_t>(graph_.ops[i].time.bound)] -= n * graph_.ops[i].seconds;
      by_bound[static_cast<size_t>(chosen_[k].kernel.time.bound)] += n * chosen_[k].kernel.seconds;
    }
    decompose_exchanges(by_bound);
    for (const FusionCandidate& c : plan_.candidates) plan_.model_time_after -= static_cast<double>(c.count) * (c.time_before - c.time_after);
    if (plan_.model_time_after > 0) plan_.bound_after = most(by_bound);
    sort_by_saving();
    name_fused_ops();
    if (unfused) count_bodies(*unfused);
    return Ok{};
  }
  FusionPlan take() { return std::move(plan_); }

  // The analysis with a group's rows as one row, named after the group, where its last op stood.
  void apply(Analysis& a) const {
    std::vector<int64_t> group_at(a.ops.size(), -1);
    std::vector<char> gone(a.ops.size());
    for (size_t k = 0; k < chosen_.size(); ++k)
      for (const std::vector<NodeId>& place : chosen_[k].places) {
        for (NodeId id : place) gone[id.index] = 1;
        group_at[place.back().index] = static_cast<int64_t>(k);
      }
    std::vector<OpRow> rows;
    std::vector<Group> groups = a.groups;
    std::vector<int64_t> group_of_kernel(chosen_.size(), -1);
    for (size_t i = 0; i < a.ops.size(); ++i) {
      if (group_at[i] >= 0) rows.push_back(fused_row(static_cast<size_t>(group_at[i]), a.ops[i], groups, group_of_kernel));
      else if (!gone[i]) rows.push_back(std::move(a.ops[i]));
    }
    a.ops = std::move(rows), a.groups = std::move(groups);
    add_up(a);
  }

private:
  struct Chosen {
    std::vector<uint32_t> members;
    FusedKernel kernel;
    std::vector<std::vector<NodeId>> places;
  };

  static std::string most(const std::array<double, 5>& by_bound) {
    return bound_text(static_cast<Bound>(std::max_element(by_bound.begin() + 1, by_bound.end()) - by_bound.begin()));
  }

  // One rank's ops, and the collectives between.
  Status read_layout(const Fold& fold) {
    const Layout& wanted = *options_.parallel.layout;
    if (wanted.pp > 1 || wanted.microbatches > 1)
      return error("usage", "--layout " + wanted.text() + ": groups are looked for in one whole pass of a rank", {}, "leave pp and mb out");
    const Result<LayoutModelOptions> what = layout_model_options(options_.parallel, options_.model, options_.causal);
    if (!what) return what.error();
    layouts_ = std::make_unique<LayoutModel>(m_, hardware_, *what);
    LayoutModel& layouts = *layouts_;
    const Result<Layout> layout = layouts.decide(wanted);
    if (!layout) return layout.error();
    const Result<Step> step = layouts.step(*layout, false);
    if (!step) return step.error();
    plan_.layout = *layout, plan_.model_time_before = step->time;
    const Sharding& sharding = layouts.sharding(*layout);
    graph_ = fusion_graph(layouts.costing(), fold, &sharding, layouts.pieces(*layout).communications);
    return Ok{};
  }

  // Collectives that can run while the product beside them computes, in parts. S. Wang et al., "Overlap
  // communication with dependent computation via decomposition in large deep learning models", ASPLOS 2023.
  void decompose_exchanges(std::array<double, 5>& by_bound) {
    std::map<std::pair<std::string, double>, size_t> known;
    std::set<uint32_t> taken;   // a product overlaps with one collective
    for (uint32_t x = 0; x < graph_.ops.size(); ++x) {
      const FusionGraph::Op& op = graph_.ops[x];
      const CollectiveKind kind = op.exchange.kind;
      if (kind != CollectiveKind::all_gather && kind != CollectiveKind::reduce_scatter && kind != CollectiveKind::all_reduce) continue;
      const bool gathers = kind == CollectiveKind::all_gather;
      double compute = 0;
      size_t group = none;
      uint32_t product = UINT32_MAX;
      for (const FusionGraph::Edge& e : gathers ? graph_.consumers[x] : graph_.producers[x]) {
        if (!is_product(graph_.ops[e.node].kind)) continue;
        const size_t in = chosen_of_[e.node];
        const double seconds = in == none ? graph_.ops[e.node].seconds : chosen_[in].kernel.seconds;
        if (seconds > compute) compute = seconds, group = in, product = e.node;
      }
      if (product == UINT32_MAX || !taken.insert(product).second) continue;
      // What an all-reduce does after its reduce-scatter waits for the last part.
      const double half = kind == CollectiveKind::all_reduce ? op.seconds / 2 : 0;
      const double latency = collective_time({CollectiveKind::send_recv, 0, 2, op.exchange.stride}, hardware_, model_).seconds.value_or(0);
      const double after = decomposed_overlap(compute, op.seconds - half, op.exchange.ranks, latency) + half;
      if (!(after < compute + op.seconds)) continue;
      FusionCandidate c;
      c.count = op.times, c.time_before = compute + op.seconds, c.time_after = after, c.speedup = c.time_before / after;
      c.bound_before = c.bound_after = bound_text(op.seconds > compute ? Bound::communication : graph_.ops[product].time.bound);
      const std::string inner = group == none ? "matmul" : plan_.candidates[group].label.value_or("matmul");
      const std::string moved = gathers ? "all-gather" : kind == CollectiveKind::all_reduce ? "all-reduce" : "reduce-scatter";
      c.label = gathers ? moved + " + " + inner : inner + " + " + moved;
      c.ops = group == none ? std::vector<std::string>{std::string(m_.names[m_[graph_.ops[product].node].op_type])} : plan_.candidates[group].ops;
      c.ops.insert(gathers ? c.ops.begin() : c.ops.end(), std::string(name(kind)));
      c.nodes = group == none ? std::vector<std::string>{display_name(m_, graph_.ops[product].node)} : plan_.candidates[group].nodes;
      for (const auto& [runtime, source] : overlap_implementations()) c.implemented_by.push_back({std::string(runtime), std::string(source)});
      c.why = fmt::format("in {} parts: {} of compute and {} of {} over {} run beside each other but for one part", op.exchange.ranks, format_seconds(compute),
                          format_seconds(op.seconds), moved, fmt::format("{} ranks", op.exchange.ranks));
      by_bound[static_cast<size_t>(Bound::communication)] -= (compute + op.seconds - after) * static_cast<double>(c.count);
      const auto [at, is_new] = known.try_emplace({*c.label, c.time_before}, plan_.candidates.size());
      if (is_new) chosen_.emplace_back(), plan_.candidates.push_back(std::move(c));
      else plan_.candidates[at->second].count += c.count;
    }
  }

  FusionCandidate candidate(const Chosen& c, const FusionPlanner& planner) const {
    FusionCandidate out;
    out.count = static_cast<int64_t>(c.places.size());
    std::array<double, 5> by_bound{};
    double bytes = 0;
    for (uint32_t i : c.members) {
      const FusionGraph::Op& op = graph_.ops[i];
      out.ops.emplace_back(m_.names[m_[op.node].op_type]);
      out.time_before += op.seconds;
      by_bound[static_cast<size_t>(op.time.bound)] += op.seconds;
      bytes += op.problem.bytes_read + op.problem.bytes_written;
    }
    for (NodeId id : c.places.front()) out.nodes.push_back(display_name(m_, id));
    out.bound_before = bound_text(static_cast<Bound>(std::max_element(by_bound.begin() + 1, by_bound.end()) - by_bound.begin()));
    out.time_after = c.kernel.seconds, out.bound_after = bound_text(c.kernel.time.bound);
    out.speedup = c.kernel.seconds > 0 ? out.time_before / c.kernel.seconds : 1;
    out.bytes_saved = bytes - c.kernel.bytes, out.launches_saved = static_cast<int64_t>(c.members.size()) - 1;
    out.on_chip_bytes = c.kernel.on_chip;
    FusionLabel label = label_of(graph_, c.members, m_);
    if (!label.name.empty()) out.label = std::move(label.name);
    for (const auto& [runtime, source] : label.implemented_by) out.implemented_by.push_back({std::string(runtime), std::string(source)});
    out.why = fmt::format("{} kept on the chip, {} launches less", format_bytes(out.bytes_saved), out.launches_saved);
    for (uint32_t i : c.kernel.folded) out.why += fmt::format("; {} is a constant fold: it changes the weights before the model runs", m_.names[m_[graph_.ops[i].node].op_type]);
    if (const std::string limits = planner.limits_of(c.members); !limits.empty()) out.why += "; grows no further: " + limits;
    return out;
  }

  // Most saved in the whole model first; ids follow that order.
  void sort_by_saving() {
    std::vector<size_t> order(chosen_.size());
    for (size_t k = 0; k < order.size(); ++k) order[k] = k;
    auto saved = [&](size_t k) {
      const FusionCandidate& c = plan_.candidates[k];
      return (c.time_before - c.time_after) * static_cast<double>(c.count);
    };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return saved(a) > saved(b); });
    std::vector<Chosen> chosen;
    std::vector<FusionCandidate> candidates;
    for (size_t k : order) chosen.push_back(std::move(chosen_[k])), candidates.push_back(std::move(plan_.candidates[k]));
    chosen_ = std::move(chosen), plan_.candidates = std::move(candidates);
    for (size_t k = 0; k < chosen_.size(); ++k) {
      plan_.candidates[k].id = static_cast<int64_t>(k) + 1;
      for (const std::vector<NodeId>& place : chosen_[k].places)
        for (NodeId id : place) plan_.group_of[display_name(m_, id)] = plan_.candidates[k].id;
    }
  }

  // Ops of the file that runtimes' optimizers or exporters have fused: contrib ops that hold a product or
  // a normalization, and the attention op.
  void name_fused_ops() {
    std::map<std::string, int64_t> found;
    for (const FusionGraph::Op& op : graph_.ops) {
      if (op.kind == Kind::collective) continue;
      const Node& node = m_[op.node];
      const std::string_view type = m_.names[node.op_type];
      const bool contrib = m_.names[node.domain].starts_with("com.microsoft");
      if (op.kind == Kind::attention || (contrib && (op.work && op.work->kind != Kind::pointwise)) || type.starts_with("Fused") || type.starts_with("Skip") ||
          type.starts_with("Bias"))
        found[std::string(type)] += op.times;
    }
    for (const auto& [type, count] : found) plan_.already_fused.push_back(fmt::format("{} × {}", type, count));
  }

  static std::array<double, 5> times_by_bound(const Totals& t) {
    const BoundShares s = t.bound_shares.value_or(BoundShares{});
    const double time = t.time.value_or(0);
    return {0, s.compute * time, s.memory * time, s.communication * time, s.overhead * time};
  }

  // Ops with work in bodies of Loop, If and Scan, where no groups are looked for.
  void count_bodies(const Analysis& unfused) {
    for (uint32_t i = 0; i < m_.nodes.size(); ++i)
      if (m_.nodes[i].region.index != 0 && unfused.ops[i].time.value_or(0) > 0) plan_.in_bodies = plan_.in_bodies.value_or(0) + 1;
  }

  OpRow fused_row(size_t k, const OpRow& like, std::vector<Group>& groups, std::vector<int64_t>& group_of_kernel) const {
    const FusionCandidate& c = plan_.candidates[k];
    const Problem& p = chosen_[k].kernel.problem;
    const Time& t = chosen_[k].kernel.time;
    OpRow row;
    row.name = like.name, row.op = c.label.value_or("fused " + c.ops.front()), row.domain = "roofcast.fused";
    row.scope = like.scope, row.phase = like.phase, row.count = 1, row.dtype = like.dtype, row.shape = like.shape;
    if (group_of_kernel[k] < 0) {
      group_of_kernel[k] = static_cast<int64_t>(groups.size());
      groups.push_back({like.group >= 0 ? groups[static_cast<size_t>(like.group)].size : std::string(), std::nullopt});
    }
    row.group = group_of_kernel[k];
    row.matrix_flops = p.matrix_flops, row.vector_flops = p.vector_flops, row.flops = p.matrix_flops + p.vector_flops;
    row.bytes_read = p.bytes_read, row.bytes_written = p.bytes_written;
    if (const double bytes = p.bytes_read + p.bytes_written; bytes > 0) row.intensity = *row.flops / bytes;
    row.t_math = t.math, row.t_hbm = t.hbm, row.t_comms = t.hbm, row.time_ideal = t.ideal, row.time = t.predicted;
    row.bound = bound_text(t.bound);
    return row;
  }

  static void add_up(Analysis& a) {
    Totals& t = a.totals;
    const double peak = t.mfu && t.time && *t.mfu > 0 ? t.matrix_flops.value_or(0) / (*t.mfu * *t.time) : 0;
    CostFigures sum;
    std::map<std::string, double> by_bound;
    for (auto member : {&CostFigures::flops, &CostFigures::matrix_flops, &CostFigures::vector_flops, &CostFigures::bytes_read, &CostFigures::bytes_written,
                        &CostFigures::t_math, &CostFigures::t_hbm, &CostFigures::t_comms, &CostFigures::time_ideal, &CostFigures::time}) {
      double all = 0;
      for (const OpRow& row : a.ops) all += (row.*member).value_or(0);
      sum.*member = all;
    }
    for (const OpRow& row : a.ops)
      if (row.bound) by_bound[*row.bound] += row.time.value_or(0);
    static_cast<CostFigures&>(t) = sum;
    if (const double bytes = *sum.bytes_read + *sum.bytes_written; bytes > 0) t.intensity = *sum.flops / bytes;
    if (*sum.time > 0) {
      t.bound_shares = BoundShares{by_bound["compute"] / *sum.time, by_bound["memory"] / *sum.time, by_bound["communication"] / *sum.time, by_bound["overhead"] / *sum.time};
      t.bound = std::max_element(by_bound.begin(), by_bound.end(), [](const auto& x, const auto& y) { return x.second < y.second; })->first;
      if (peak > 0) t.mfu = t.hfu = *sum.matrix_flops / (*sum.time * peak);
    }
    // Which values are still written is another liveness; it is not known here.
    t.peak_memory.reset(), t.fits.reset(), t.why_not.reset(), t.formulas.reset();
    a.coverage.ops = static_cast<int64_t>(a.ops.size());
    a.coverage.counted = 0;
    for (const OpRow& row : a.ops) a.coverage.counted += row.flops.has_value();
  }

  Module& m_;
  const Hardware& hardware_;
  const FuseOptions& options_;
  TimeModel model_;
  std::unique_ptr<Costing> costing_;      // holds the work that the graph points to
  std::unique_ptr<LayoutModel> layouts_;  // likewise, under a layout
  FusionGraph graph_;
  FusionPlan plan_;
  static constexpr size_t none = SIZE_MAX;
  std::vector<Chosen> chosen_;
  std::vector<size_t> chosen_of_;         // by op of the folded graph
  std::set<uint32_t> taken_;
};

}  // namespace

Result<FusionPlan> fuse(const Model& model, const Hardware& hardware, const FuseOptions& options) {
  Fuser fuser(model.module(), hardware, options);
  if (options.parallel.layout) {
    if (options.apply) return error("usage", "--apply and --layout do not go together", {}, "`roofcast analyze --layout` shows the rows of a rank");
    if (Status status = fuser.run(nullptr); !status) return status.error();
    return fuser.take();
  }
  Result<Analysis> analysis = analyze(model, hardware, {.model = options.model, .causal = options.causal});
  if (!analysis) return analysis.error();
  if (Status status = fuser.run(&*analysis); !status) return status.error();
  if (options.apply) fuser.apply(*analysis);
  FusionPlan plan = fuser.take();
  if (options.apply) plan.applied = std::move(*analysis);
  return plan;
}

Status annotate(const Model& model, const FusionPlan& plan, const std::string& target) {
  const Module& m = model.module();
  if (m.node_origins.size() != m.nodes.size())
    return error("file-kind", "only an ONNX file can be annotated", {.file = m.file}, "give the .onnx file itself");
  std::unordered_map<uint64_t, Properties> properties;
  for (uint32_t i = 0; i < m.nodes.size(); ++i) {
    Properties& p = properties[m.node_origins[i]];
    const auto at = plan.group_of.find(display_name(m, NodeId{i}));
    if (at == plan.group_of.end() || !p.empty()) continue;
    p.push_back({"roofcast.fusion_group", std::to_string(at->second)});
    if (const auto& label = plan.candidates[static_cast<size_t>(at->second) - 1].label) p.push_back({"roofcast.fusion", *label});
  }
  return write_annotated(m.file, target, "roofcast.fusion", properties);
}

}  // namespace roofcast
