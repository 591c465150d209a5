#include "roofcast/analyze.h"

#include "time/costing.h"
#include "api/formulas.h"
#include "api/rows.h"
#include "api/totals.h"
#include "ops/op_info.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <chrono>
#include <set>

namespace roofcast {
namespace {

// "float32", "sequence(float32)", "map(int64, float32)".
std::string dtype_text(Type type) {
  switch (type->kind) {
  case TypeKind::tensor: return std::string(name(type->dtype));
  case TypeKind::sparse_tensor: return "sparse_tensor(" + std::string(name(type->dtype)) + ")";
  case TypeKind::sequence: return "sequence(" + (type->element ? dtype_text(type->element) : "?") + ")";
  case TypeKind::optional: return "optional(" + (type->element ? dtype_text(type->element) : "?") + ")";
  case TypeKind::map:
    return "map(" + std::string(name(type->dtype)) + ", " + (type->element ? dtype_text(type->element) : "?") + ")";
  }
  return "?";
}

std::optional<std::vector<int64_t>> shape_of(Type type, const Bindings& values) {
  if (!type || !(type->is_tensor() || type->kind == TypeKind::sparse_tensor) || !type->ranked) return std::nullopt;
  std::vector<int64_t> dims;
  for (Expr d : type->dims) {
    const auto v = evaluate(d, values);
    if (!v) return std::nullopt;
    dims.push_back(*v);
  }
  return dims;
}

// The module path of a node. Exporters note "…/layer1: pkg.Sequential/layer1.0: pkg.Block/conv: aten.conv":
// the last but one piece names the module. Others put the path into the node's name.
std::string scope_of(std::string_view noted, std::string_view name) {
  if (noted.find(": ") == noted.npos) {
    if (!noted.empty()) return std::string(noted);
    const size_t slash = name.rfind('/');
    if (slash == name.npos || slash == 0) return {};
    return std::string(name.substr(name[0] == '/', slash - (name[0] == '/')));
  }
  std::vector<std::string_view> pieces;
  for (size_t from = 0; from < noted.size();) {
    const size_t to = std::min(noted.find('/', from), noted.size());
    const std::string_view piece = noted.substr(from, to - from);
    // Class names may hold slashes; a piece is "path: class".
    if (piece.find(": ") != piece.npos) pieces.push_back(piece.substr(0, piece.find(": ")));
    from = to + 1;
  }
  return pieces.size() < 2 ? std::string() : std::string(pieces[pieces.size() - 2]);
}

class Analyzer {
public:
  Analyzer(Module& module, const Hardware& hardware, const AnalyzeOptions& options)
      : m_(module), hardware_(hardware), options_(options),
        costing_(module, hardware, time_model(options.model), options.causal) {}

  Analysis run() {
    a_.time_model = options_.model;
    a_.hardware = {hardware_.name, hardware_.file};
    a_.warnings = m_.warnings;
    warn_of_stand_in(a_.warnings, hardware_, costing_.model());
    costing_.resolve();
    summarize_model();
    for (uint32_t i = 0; i < m_.nodes.size(); ++i) add_row(NodeId{i});
    for (auto& [key, u] : uncounted_) a_.coverage.uncounted.push_back(std::move(u));
    add_groups();
    add_symbols();
    add_tensors();
    add_totals();
    warn();
    return std::move(a_);
  }

  // The terms of one node's time, by the same code that computed it.
  Status explain(Analysis& analysis) {
    std::vector<std::string> names;
    for (uint32_t i = 0; i < m_.nodes.size(); ++i) {
      names.push_back(display_name(m_, NodeId{i}));
      if (names.back() != options_.explain) continue;
      const Costing::Cost cost = costing_.cost(NodeId{i});
      NodeExplanation& e = analysis.explanation.emplace();
      e.node = names.back(), e.op = m_.names[m_.nodes[i].op_type];
      if (cost.work) e.access = cost.work->access.text();
      if (!cost.uncounted.empty()) e.terms.push_back({"not counted", 0, std::string(cost.uncounted)});
      if (cost.group < 0) {
        if (cost.uncounted.empty()) e.terms.push_back({"no work", 0, "a view, or known when the model is compiled"});
        return Ok{};
      }
      e.size = analysis.groups[static_cast<size_t>(cost.group)].size;
      Explanation terms;
      const Time t = predict(costing_.problem(cost.group), hardware_, costing_.model(), &terms);
      for (Term& term : terms) e.terms.push_back({std::move(term.name), term.seconds, std::move(term.why)});
      if (costing_.model() != TimeModel::ideal) {
        Explanation ideal;
        predict(costing_.problem(cost.group), hardware_, TimeModel::ideal, &ideal);
        for (Term& term : ideal) e.ideal_terms.push_back({std::move(term.name), term.seconds, std::move(term.why)});
      }
      e.time = t.predicted, e.time_ideal = t.ideal;
      if (t.bound != Bound::none) e.bound = std::string(name(t.bound));
      return Ok{};
    }
    std::string near;
    for (const std::string& n : nearest_names(options_.explain, names)) near += (near.empty() ? "near: " : ", ") + n;
    return error("usage", "no node is called \"" + options_.explain + "\"", {.file = m_.file}, near);
  }

private:
  void summarize_model() {
    ModelSummary& s = a_.model;
    s.file = m_.file;
    if (!m_.producer.empty()) s.producer = m_.producer;
    s.ir_version = m_.ir_version;
    for (const auto& [domain, version] : m_.opsets) s.opset[domain.empty() ? "ai.onnx" : domain] = version;
    s.nodes = static_cast<int64_t>(m_.nodes.size());
    for (const auto& [name, count] : m_.device_configurations) s.devices[name] = std::atoll(count.c_str());
    // Scales and zero points are no parameters; packed weights count by logical element.
    std::vector<char> auxiliary(m_.values.size());
    std::vector<double> logical(m_.values.size());
    for (const Node& node : m_.nodes) {
      const OpInfo* op = m_.instances[node.instance.index].op;
      if (!op || (!op->auxiliary && !op->packed_weight)) continue;
      const auto inputs = m_.inputs(node);
      for (size_t i = 0; i < inputs.size() && i < 32; ++i)
        if (inputs[i].valid() && op->auxiliary >> i & 1) auxiliary[inputs[i].index] = 1;
      if (op->packed_weight) {
        const OpView view(m_, m_.instances[node.instance.index]);
        for (size_t i = 0; i < inputs.size(); ++i)
          if (const auto n = evaluate_real(op->packed_weight(view, i), costing_.values()); n && inputs[i].valid())
            logical[inputs[i].index] = *n;
      }
    }
    double parameters = 0, bytes = 0;
    for (size_t i = 0; i < m_.values.size(); ++i) {
      const Value& v = m_.values[i];
      if (v.storage != Storage::weight) continue;
      bytes += static_cast<double>(v.stored_bytes);
      if (auxiliary[i] || !v.type || !v.type->is_tensor()) continue;
      parameters += logical[i] > 0 ? logical[i] : evaluate_real(v.type->elements(), costing_.values()).value_or(0);
    }
    s.parameters = static_cast<int64_t>(parameters);
    s.parameter_bytes = static_cast<int64_t>(bytes);
  }

  void add_row(NodeId id) {
    const Node& node = m_[id];
    const Instance& instance = m_.instances[node.instance.index];
    const Costing::Cost cost = costing_.cost(id);
    OpRow& row = a_.ops.emplace_back();
    row.name = display_name(m_, id);
    row.op = m_.names[node.op_type];
    row.domain = node.domain.valid() && !m_.names[node.domain].empty() ? std::string(m_.names[node.domain]) : "ai.onnx";
    if (std::string scope = scope_of(m_.names[node.scope], m_.names[node.name]); !scope.empty()) row.scope = std::move(scope);
    if (node.phase != Phase::forward) row.phase = node.phase == Phase::backward ? "backward" : "optimizer";
    row.count = costing_.trips(node.region);
    const Type type = instance.outputs.empty() ? nullptr : instance.outputs[0];
    if (type) row.dtype = dtype_text(type), row.shape = shape_of(type, costing_.values());
    ++a_.coverage.ops;
    if (!cost.uncounted.empty() && row.count > 0) {
      auto [at, is_new] = uncounted_.try_emplace(std::tuple(row.op, row.domain, std::string(cost.uncounted)));
      if (is_new) at->second = {row.op, row.domain, 0, std::string(cost.uncounted), row.name};
      ++at->second.count;
      return;
    }
    ++a_.coverage.counted;
    if (options_.symbolic && cost.work && cost.group >= 0) row.formulas = formulas_of(*cost.work, m_.exprs, options_.latex);
    row.group = row.count > 0 ? cost.group : -1;
    if (row.group < 0) {
      row.flops = row.matrix_flops = row.vector_flops = row.bytes_read = row.bytes_written = 0;
      row.t_math = row.t_hbm = row.t_comms = row.time_ideal = row.time = 0;
      return;
    }
    const Problem& p = costing_.problem(cost.group);
    const Time& t = costing_.time(cost.group);
    const double n = row.count;
    auto times_n = [&](std::optional<double> v) { return v ? std::optional(*v * n) : v; };
    row.matrix_flops = p.matrix_flops * n, row.vector_flops = p.vector_flops * n;
    row.flops = *row.matrix_flops + *row.vector_flops;
    row.bytes_read = p.bytes_read * n, row.bytes_written = p.bytes_written * n;
    row.t_math = times_n(t.math), row.t_hbm = times_n(t.hbm);
    if (p.collective != CollectiveKind::none) row.t_net = times_n(t.net);
    if (t.hbm && t.net) row.t_comms = std::max(*t.hbm, *t.net) * n;
    row.time_ideal = times_n(t.ideal), row.time = times_n(t.predicted);
    if (const double bytes = p.bytes_read + p.bytes_written; bytes > 0) row.intensity = (p.matrix_flops + p.vector_flops) / bytes;
    if (t.bound != Bound::none && n > 0) row.bound = std::string(name(t.bound));
  }

  void add_groups() {
    for (size_t g = 0; g < costing_.groups(); ++g) {
      const auto id = static_cast<int64_t>(g);
      const Problem& p = costing_.problem(id);
      const Instance& instance = costing_.instance_of(id);
      const Bindings& values = costing_.values();
      Group& group = a_.groups.emplace_back();
      group.knee = knee_of(p, hardware_);
      const Type out = instance.outputs.empty() ? nullptr : instance.outputs[0];
      const Type in = instance.inputs.empty() ? nullptr : instance.inputs[0];
      group.size = problem_size(p, shape_of(in, values), shape_of(out, values));
      if (out && out->is_tensor()) group.size += " " + std::string(short_name(out->dtype));
    }
  }

  // Symbols that some type or trip count is made of, or that the user set.
  std::vector<char> used_symbols() const {
    std::vector<char> used(m_.exprs.symbol_count());
    std::vector<SymbolId> found;
    std::set<Type> seen;
    for (const Value& v : m_.values)
      if (v.type && seen.insert(v.type).second)
        for (Expr d : v.type->dims) collect_symbols(d, found);
    for (const Region& r : m_.regions) collect_symbols(r.trips, found);
    for (SymbolId id = 0; id < used.size(); ++id)
      if (m_.bound.get(id)) found.push_back(id);
    while (!found.empty()) {
      const SymbolId id = found.back();
      found.pop_back();
      if (used[id]) continue;
      used[id] = 1;
      // A default may lean on other symbols.
      collect_symbols(m_.exprs.info(id).bound, found);
      collect_symbols(m_.exprs.info(id).expected, found);
    }
    return used;
  }

  void add_symbols() {
    const std::vector<char> used = used_symbols();
    for (SymbolId id = 0; id < m_.exprs.symbol_count(); ++id)
      if (const auto v = costing_.values().get(id); v && used[id]) a_.symbols[m_.exprs.info(id).name] = *v;
    for (SymbolId id : costing_.defaulted()) {
      if (!used[id]) continue;
      const Symbol& s = m_.exprs.info(id);
      // A symbol that the graph's own shapes determine is not assumed.
      if (s.origin == SymbolOrigin::unbound && s.expected.is_known()) continue;
      Assumed assumed;
      assumed.symbol = s.name;
      if (!s.node.empty()) assumed.node = s.node;
      if (s.bound.is_known()) assumed.bound = evaluate(s.bound, costing_.values());
      assumed.used = costing_.values().get(id).value_or(1);
      assumed.why = s.why.empty() ? "not set; --set " + s.name + "=N says otherwise" : s.why;
      a_.coverage.assumed.push_back(std::move(assumed));
    }
  }

  void add_tensors() {
    std::vector<std::pair<std::string, TensorRow>> rows;
    for (const Value& v : m_.values) {
      if (v.region.index != 0 || !v.name.valid()) continue;
      ++a_.coverage.tensors;
      const auto shape = shape_of(v.type, costing_.values());
      const bool known = shape || (v.type && !v.type->is_tensor());
      a_.coverage.shapes_known += known;
      if (!options_.tensors || !v.type) continue;
      TensorRow row{dtype_text(v.type), shape, std::nullopt};
      if (options_.symbolic && v.type->ranked) {
        row.shape.reset();
        for (Expr d : v.type->dims) row.symbolic_shape ? row.symbolic_shape->push_back(d.text()) : void(row.symbolic_shape = {d.text()});
        if (!row.symbolic_shape) row.symbolic_shape.emplace();
      }
      rows.push_back({std::string(m_.names[v.name]), std::move(row)});
    }
    if (options_.tensors) a_.tensors = std::move(rows);
  }

  void add_totals() {
    const MemoryModel memory(m_);
    a_.totals = total(costing_, &memory, &detail_);
    if (options_.symbolic) a_.totals.formulas = total_formulas(costing_, options_.latex);
    if (detail_.main_math != MathType::none) {
      a_.main_math = std::string(name(detail_.main_math));
      a_.knee = knee(hardware_, detail_.main_math);
    }
  }

  void warn() {
    std::set<std::string> seen;
    for (const auto& [group, example] : detail_.missing) {
      const Problem& p = costing_.problem(group);
      const std::string what = std::string(costing_.time(group).missing) + " for " + std::string(name(p.math));
      if (seen.insert(what).second)
        a_.warnings.push_back(warning("peak-missing", hardware_.name + " has no " + what + "; the times that need it are left out",
                                      {.file = hardware_.file, .node = display_name(m_, example)}, "add it to the hardware file, or choose another --dtype"));
    }
    for (const Uncounted& u : a_.coverage.uncounted)
      a_.warnings.push_back(warning(u.reason == "unknown operator" ? "op-unknown" : "op-no-work",
                                    std::to_string(u.count) + " × " + u.op + " (" + u.domain + ") not counted: " + u.reason,
                                    {.file = m_.file, .node = u.example},
                                    u.reason == "unknown operator" ? "--ops FILE.toml can give its cost" : ""));
    for (const Assumed& s : a_.coverage.assumed) {
      const bool by_data = s.node.has_value();
      Where where{.file = m_.file};
      if (by_data) where.node = *s.node;
      a_.warnings.push_back(warning(by_data ? "size-data-dependent" : "symbol-assumed",
                                    s.symbol + " = " + std::to_string(s.used) + " is assumed: " + s.why, std::move(where)));
    }
  }

  Module& m_;
  const Hardware& hardware_;
  const AnalyzeOptions& options_;
  Costing costing_;
  Analysis a_;
  std::map<std::tuple<std::string, std::string, std::string>, Uncounted> uncounted_;
  TotalsDetail detail_;
};

}  // namespace

Result<Analysis> analyze(const Model& model, const Hardware& hardware, const AnalyzeOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Analyzer analyzer(model.module(), hardware, options);
  Analysis analysis = analyzer.run();
  if (!options.explain.empty())
    if (Status status = analyzer.explain(analysis); !status) return std::move(status.error());
  analysis.times = model.times();
  analysis.times.push_back({"cost", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()});
  return analysis;
}

}  // namespace roofcast
