// Rows of one device under a layout: what each node does there, the collectives between, backward and
// the optimizer in training. Of a pipeline, the slowest stage.
#include "api/parallel.h"
#include "api/rows.h"
#include "api/totals.h"
#include "hw/hardware.h"
#include "support/diagnostic.h"
#include "support/units.h"

#include <algorithm>

namespace roofcast {
namespace {

class ParallelAnalyzer {
public:
  ParallelAnalyzer(const Model& model, const Hardware& hardware, const AnalyzeOptions& options, const ParallelOptions& parallel,
                   LayoutModel& layouts, const Layout& layout, const Step& step)
      : m_(model.module()), hardware_(hardware), parallel_(parallel), layouts_(layouts), layout_(layout), step_(step),
        sharding_(layouts.sharding(layout)), model_(time_model(options.model)) {}

  // Continues an analysis of the same model without a layout: its model, symbols, coverage.
  Analysis run(Analysis base) {
    a_ = std::move(base);
    a_.layout = layout_;
    a_.phase = parallel_.train ? "training" : "inference";
    for (size_t i = 0; i < m_.nodes.size() && i < a_.ops.size(); ++i) scopes_.push_back(std::move(a_.ops[i].scope));
    a_.ops.clear(), a_.groups.clear(), a_.collectives.clear();
    const Pieces& pieces = layouts_.pieces(layout_);
    for (const auto& [index, count] : step_.slowest) {
      const Piece& piece = pieces.all[index];
      for (int64_t k = 0; k < count; ++k)
        for (uint32_t p = piece.begin; p < piece.end; ++p) {
          add_collectives(p, Phase::forward, count);
          add_node(p + static_cast<uint32_t>(k) * (piece.end - piece.begin), piece.block);
        }
    }
    if (parallel_.train)
      for (auto it = step_.slowest.rbegin(); it != step_.slowest.rend(); ++it) {
        const Piece& piece = pieces.all[it->first];
        for (int64_t k = it->second; k-- > 0;)
          for (uint32_t p = piece.end; p-- > piece.begin;) {
            add_backward(p + static_cast<uint32_t>(k) * (piece.end - piece.begin));
            add_collectives(p, Phase::backward, it->second);
          }
      }
    for (const StepCollective& c : step_.collectives)
      if (c.position == UINT32_MAX) add_collective(c);
    if (step_.optimizer > 0) add_optimizer();
    add_schedule();
    add_totals();
    return std::move(a_);
  }

private:
  OpRow& add_row(std::string name, std::string op, std::string domain, const char* phase, double count) {
    OpRow& row = a_.ops.emplace_back();
    row.name = std::move(name), row.op = std::move(op), row.domain = std::move(domain);
    row.phase = phase, row.count = count;
    return row;
  }

  // Rows of the same problem are one line of a table.
  void put_in_group(OpRow& row, const std::string& size, const std::optional<double>& knee) {
    const auto [at, is_new] = groups_.try_emplace(row.phase + row.op + size, static_cast<int64_t>(a_.groups.size()));
    if (is_new) a_.groups.push_back({size, knee});
    row.group = at->second;
  }

  void fill(OpRow& row, const Problem& p) {
    const double n = row.count;
    auto times_n = [&](std::optional<double> v) { return v ? std::optional(*v * n) : v; };
    row.matrix_flops = p.matrix_flops * n, row.vector_flops = p.vector_flops * n, row.flops = *row.matrix_flops + *row.vector_flops;
    row.bytes_read = p.bytes_read * n, row.bytes_written = p.bytes_written * n;
    if (!p.has_work()) {
      row.t_math = row.t_hbm = row.t_comms = row.time_ideal = row.time = 0;
      return;
    }
    const Time t = predict(p, hardware_, model_);
    row.t_math = times_n(t.math), row.t_hbm = times_n(t.hbm), row.t_comms = times_n(t.hbm);
    row.time_ideal = times_n(t.ideal), row.time = times_n(t.predicted);
    if (p.bytes_read + p.bytes_written > 0) row.intensity = (p.matrix_flops + p.vector_flops) / (p.bytes_read + p.bytes_written);
    if (t.bound != Bound::none) row.bound = std::string(name(t.bound));
    std::string size = problem_size(p, std::nullopt, row.shape);
    for (const OperandSize& o : p.operands)
      if (o.is_output) {
        size += " " + std::string(short_name(o.dtype));
        break;
      }
    put_in_group(row, size, knee_of(p, hardware_));
  }

  // Scope, type and local dims of the node's first output.
  void name_row(OpRow& row, NodeId id, const Sharding::Site& site) {
    if (id.index < scopes_.size()) row.scope = scopes_[id.index];
    const Instance& instance = m_.instances[m_[site.node].instance.index];
    const Type type = instance.outputs.empty() ? nullptr : instance.outputs[0];
    if (!type || !type->is_tensor()) return;
    row.dtype = std::string(name(type->dtype));
    if (!type->ranked) return;
    std::vector<int64_t> dims;
    for (size_t d = 0; d < type->dims.size(); ++d) {
      const auto n = evaluate(type->dims[d], layouts_.costing().values());
      if (!n) return;
      int64_t size = *n;
      for (const auto& axis : site.outputs)
        if (!axis.empty() && axis[0].is_sharded() && axis[0].dim == d) size = (size + axis[0].ways - 1) / axis[0].ways;
      dims.push_back(size);
    }
    row.shape = std::move(dims);
  }

  // Collectives of the node at a position, which stands for `alike` ones.
  void add_collectives(uint32_t position, Phase phase, int64_t alike) {
    for (StepCollective c : step_.collectives) {
      if (c.position != position || c.phase != phase) continue;
      c.count /= alike;
      add_collective(c);
    }
  }

  void add_node(uint32_t position, bool in_block) {
    const Sharding::Site& site = sharding_.site_at(position);
    const NodeId id = m_.main().nodes[position];
    const Node& node = m_[id];
    const auto n = static_cast<double>(layout_.microbatches);
    OpRow& row = add_row(display_name(m_, id), std::string(m_.names[node.op_type]),
                         node.domain.valid() && !m_.names[node.domain].empty() ? std::string(m_.names[node.domain]) : "ai.onnx", "forward", n);
    name_row(row, id, site);
    if (site.has_work) fill(row, site.local);
    else row.flops = row.matrix_flops = row.vector_flops = row.bytes_read = row.bytes_written = row.t_math = row.t_hbm = row.t_comms = row.time_ideal = row.time = 0;
    if (parallel_.train && layout_.recompute == "full" && in_block && site.has_work) {
      const std::string again = row.name + ".recompute", op = row.op, domain = row.domain;
      OpRow& repeat = add_row(again, op, domain, "backward", n);
      name_row(repeat, id, site), fill(repeat, site.local);
    }
  }

  void add_backward(uint32_t position) {
    const Sharding::Site& site = sharding_.site_at(position);
    if (!site.has_work) return;
    const NodeId id = m_.main().nodes[position];
    const Node& node = m_[id];
    const auto inputs = m_.inputs(node);
    for (const BackwardProblem& b : Sharding::backward(site, site.local)) {
      std::string of = ".gradient";
      if (b.input >= 0 && static_cast<size_t>(b.input) < inputs.size() && inputs[static_cast<size_t>(b.input)].valid())
        of += sharding_.is_weight(inputs[static_cast<size_t>(b.input)]) ? "_weight" : "_input";
      OpRow& row = add_row(display_name(m_, id) + of, std::string(m_.names[node.op_type]),
                           node.domain.valid() && !m_.names[node.domain].empty() ? std::string(m_.names[node.domain]) : "ai.onnx", "backward",
                           static_cast<double>(layout_.microbatches));
      name_row(row, id, site), fill(row, b.problem);
    }
  }

  void add_collective(const StepCollective& c) {
    CollectiveRow entry = collective_row(c, m_);
    const auto n = static_cast<double>(c.count);
    OpRow& row = add_row(entry.kind + (entry.op.empty() ? "(" + entry.axis + ")" : "(" + entry.op + ")"), entry.kind, "collective", entry.phase.c_str(), n);
    row.phase = entry.phase;
    row.collective = entry.kind, row.axis = entry.axis;
    row.flops = row.matrix_flops = row.vector_flops = row.bytes_read = row.bytes_written = 0;
    row.wire_bytes = c.time.wire_bytes * n;
    row.t_math = row.t_hbm = 0;
    if (c.time.net) row.t_net = *c.time.net * n, row.t_comms = row.t_net, row.time_ideal = row.t_net;
    // What runs beside compute takes no time of the step.
    row.time = c.exposed * n;
    row.bound = "communication";
    if (c.position != UINT32_MAX) row.scope = scopes_[m_.main().nodes[c.position].index];
    put_in_group(row, format_bytes(entry.bytes) + " over " + std::to_string(entry.ranks) + " " + entry.axis, std::nullopt);
    auto same = [&](const CollectiveRow& r) {
      return r.kind == entry.kind && r.axis == entry.axis && r.bytes == entry.bytes && r.phase == entry.phase && r.link == entry.link && r.exposed == entry.exposed;
    };
    const auto at = std::find_if(a_.collectives.begin(), a_.collectives.end(), same);
    if (at == a_.collectives.end()) a_.collectives.push_back(std::move(entry));
    else at->count += entry.count;
  }

  void add_optimizer() {
    OpRow& row = add_row("optimizer", parallel_.optimizer == "sgd" ? "Momentum" : "Adam", "ai.onnx.preview.training", "optimizer", 1);
    const double bytes = step_.optimizer * memory_bandwidth(hardware_).value_or(0);
    row.flops = row.matrix_flops = row.vector_flops = 0;
    row.bytes_read = bytes / 2, row.bytes_written = bytes / 2;
    row.t_math = 0, row.t_hbm = row.t_comms = row.time_ideal = row.time = step_.optimizer;
    row.bound = "memory";
    put_in_group(row, format_bytes(bytes), std::nullopt);
  }

  // What the schedule adds to the sum of the rows.
  void add_schedule() {
    double sum = 0;
    for (const OpRow& r : a_.ops) sum += r.time.value_or(0);
    const double rest = step_.time - sum;
    if (layout_.pp > 1 && rest > 1e-12) {
      OpRow& row = add_row("pipeline bubble", "bubble", "schedule", "forward", 1);
      row.time = rest;
      row.bound = "overhead";
      put_in_group(row, layout_.text(), std::nullopt);
    }
  }

  void add_totals() {
    Totals t;
    double matrix = 0, vector = 0, read = 0, written = 0, wire = 0, math = 0, hbm = 0, net = 0, comms = 0, ideal = 0, time = 0;
    std::map<std::string, double> by_bound;
    for (const OpRow& r : a_.ops) {
      matrix += r.matrix_flops.value_or(0), vector += r.vector_flops.value_or(0);
      read += r.bytes_read.value_or(0), written += r.bytes_written.value_or(0), wire += r.wire_bytes.value_or(0);
      math += r.t_math.value_or(0), hbm += r.t_hbm.value_or(0), net += r.t_net.value_or(0);
      comms += r.t_comms.value_or(0), ideal += r.time_ideal.value_or(0), time += r.time.value_or(0);
      if (r.bound) by_bound[*r.bound] += r.time.value_or(0);
    }
    t.flops = matrix + vector, t.matrix_flops = matrix, t.vector_flops = vector, t.bytes_read = read, t.bytes_written = written;
    t.wire_bytes = wire, t.t_math = math, t.t_hbm = hbm, t.t_net = net, t.t_comms = comms, t.time_ideal = ideal, t.time = time;
    if (read + written > 0) t.intensity = (matrix + vector) / (read + written);
    if (time > 0) {
      t.bound_shares = BoundShares{by_bound["compute"] / time, by_bound["memory"] / time, by_bound["communication"] / time, by_bound["overhead"] / time};
      for (const char* name : {"compute", "memory", "communication", "overhead"})
        if (!t.bound || by_bound[name] > by_bound[*t.bound]) t.bound = name;
      const LayoutCandidate c = candidate_of(layouts_, layout_, step_, hardware_, m_);
      t.mfu = c.mfu, t.hfu = c.hfu;
    }
    t.peak_memory = step_.memory.total();
    if ((t.memory_capacity = memory_capacity(hardware_))) {
      t.fits = *t.peak_memory <= *t.memory_capacity;
      if (!*t.fits) t.why_not = why_not(layouts_, layout_, step_, *t.memory_capacity);
    }
    a_.totals = std::move(t);
  }

  const Module& m_;
  const Hardware& hardware_;
  const ParallelOptions& parallel_;
  LayoutModel& layouts_;
  const Layout& layout_;
  const Step& step_;
  Sharding& sharding_;
  TimeModel model_;
  std::vector<std::optional<std::string>> scopes_;  // by node
  std::map<std::string, int64_t> groups_;
  Analysis a_;
};

}  // namespace

Result<Analysis> analyze_parallel(const Model& model, const Hardware& hardware, const AnalyzeOptions& options, const ParallelOptions& parallel) {
  const Result<LayoutModelOptions> what = layout_model_options(parallel, options.model, options.causal);
  if (!what) return what.error();
  LayoutModel layouts(model.module(), hardware, *what);
  const Result<Layout> layout = layouts.decide(parallel.layout.value_or(Layout{}));
  if (!layout) return layout.error();
  const Result<Step> step = layouts.step(*layout, true);
  if (!step) return step.error();
  AnalyzeOptions plain = options;
  plain.explain.clear();
  Result<Analysis> base = analyze(model, hardware, plain);
  if (!base) return base;
  return ParallelAnalyzer(model, hardware, options, parallel, layouts, *layout, *step).run(std::move(*base));
}

}  // namespace roofcast
