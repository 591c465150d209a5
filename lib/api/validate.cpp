#include "roofcast/validate.h"

#include "time/costing.h"
#include "api/profile_join.h"
#include "measure/backend.h"
#include "measure/statistics.h"
#include "support/diagnostic.h"
#include "support/units.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <unordered_map>

namespace roofcast {
namespace {

// A spread beyond this is said in the table.
constexpr double noisy_spread = 0.05;

struct Candidate {
  NodeId node;
  int64_t group;
  double weight = 0;   // predicted seconds of all its nodes
  int64_t count = 0;   // nodes
  std::optional<Task> task;
  std::string reason;  // why there is no task
  std::vector<double> seconds;  // of a profile: each node's median
};

class Validator {
public:
  Validator(Module& module, Hardware hardware, const ValidateOptions& options)
      : m_(module), hardware_(std::move(hardware)), options_(options), costing_(module, hardware_, TimeModel::kernel, options.causal) {}

  Result<Validation> run() {
    v_.file = m_.file;
    v_.hardware = hardware_.name;
    v_.cache = options_.cold ? "cold" : "warm";
    costing_.resolve();
    Status status = options_.profile.empty() ? measure() : read_profile();
    if (!status) return std::move(status.error());
    summarize();
    return std::move(v_);
  }

private:
  // Nodes that are the same task are one candidate; most time first.
  std::vector<Candidate> candidates(const ProfileJoin* join = nullptr) {
    std::vector<Candidate> found;
    std::unordered_map<std::string, std::vector<size_t>> by_text;
    for (uint32_t i = 0; i < m_.nodes.size(); ++i) {
      const NodeId id{i};
      const Costing::Cost cost = costing_.cost(id);
      if (cost.group < 0 || costing_.trips(m_[id].region) == 0 || (join && !join->of_node[i])) continue;
      const Instance& instance = m_.instances[m_[id].instance.index];
      Result<Task> task = describe(m_, instance, costing_.values());
      const std::string op(m_.names[m_[id].op_type]);
      std::vector<size_t>& alike = by_text[op + " " + (task ? task->size_text() : std::to_string(cost.group))];
      const auto same = std::find_if(alike.begin(), alike.end(), [&](size_t other) {
        return task ? found[other].task && *found[other].task == *task : !found[other].task;
      });
      const double seconds = costing_.time(cost.group).predicted.value_or(0);
      const size_t at = same == alike.end() ? found.size() : *same;
      if (at == found.size()) {
        alike.push_back(at);
        Candidate c{id, cost.group};
        if (task) c.task = std::move(*task);
        else c.reason = task.error().message;
        found.push_back(std::move(c));
      }
      found[at].weight += seconds, ++found[at].count;
      if (join) found[at].seconds.push_back(median(join->of_node[i]->seconds));
    }
    std::stable_sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) { return a.weight > b.weight; });
    return found;
  }

  // Top N by predicted time, all, or those whose node or op is named.
  Result<std::vector<Candidate>> select() {
    std::vector<Candidate> all = candidates();
    std::vector<Candidate> chosen;
    for (const std::string& what : options_.select) {
      if (what == "all") return all;
      if (what.starts_with("top:")) {
        size_t n = 0;
        const auto [end, fault] = std::from_chars(what.data() + 4, what.data() + what.size(), n);
        if (fault != std::errc() || end != what.data() + what.size() || n == 0)
          return error("usage", "--select " + what + " is not understood", {}, "top:20, all, or names of nodes or ops");
        for (size_t i = 0; i < all.size() && i < n; ++i) chosen.push_back(all[i]);
        continue;
      }
      const size_t before = chosen.size();
      for (const Candidate& c : all)
        if (display_name(m_, c.node) == what || m_.names[m_[c.node].op_type] == what) chosen.push_back(c);
      if (chosen.size() == before) {
        std::vector<std::string> names;
        for (const Candidate& c : all) names.push_back(display_name(m_, c.node));
        std::string near;
        for (const std::string& n : nearest_names(what, names)) near += (near.empty() ? "" : ", ") + n;
        return error("usage", "--select " + what + ": no node or op with work is called so" + (near.empty() ? "" : "; near: " + near), {.file = m_.file},
                     "top:20, all, or names of nodes or ops");
      }
    }
    return chosen;
  }

  Status measure() {
    v_.source = "measured";
    Result<std::vector<Candidate>> chosen = select();
    if (!chosen) return std::move(chosen.error());
    Result<std::unique_ptr<Backend>> backend = options_.on == "cuda" ? make_cuda_backend() : make_cpu_backend(options_.threads);
    if (!backend) return std::move(backend.error());
    v_.device = (*backend)->device();
    for (Candidate& c : *chosen) {
      if (options_.stop && *options_.stop) break;
      if (!c.task) {
        skip(c, c.reason);
        continue;
      }
      const Result<std::unique_ptr<PreparedOp>> op = prepare(**backend, *c.task);
      if (!op) {
        skip(c, op.error().message);
        continue;
      }
      const std::vector<double> samples = (*op)->time({.runs = options_.runs, .cold = options_.cold, .stop = options_.stop});
      if (!samples.empty()) add_row(c, samples);
      else if (!(options_.stop && *options_.stop)) skip(c, "it failed while it ran");
    }
    if (options_.stop && *options_.stop) {
      v_.interrupted = true;
      v_.warnings.push_back(warning("interrupted", "ended before all ops were timed; what was timed is kept", {.file = m_.file}));
    }
    if (const std::string note = (*backend)->note(); !note.empty()) v_.warnings.push_back(warning("device-unsteady", note, {}, "measure again on a quiet machine"));
    return Ok{};
  }

  void skip(const Candidate& c, std::string reason) {
    v_.skipped.push_back({display_name(m_, c.node) + " (" + std::string(m_.names[m_[c.node].op_type]) + ")", std::move(reason), c.count});
  }

  void add_row(const Candidate& c, const std::vector<double>& samples) {
    Problem problem = costing_.problem(c.group);
    if (v_.source == "profile") problem.cached_bytes = passed_on_bytes(m_, c.node, problem);
    else if (!options_.cold) problem.cached_bytes = problem.bytes_read + problem.bytes_written;
    const Time time = predict(problem, hardware_, TimeModel::kernel);
    const Instance& instance = m_.instances[m_[c.node].instance.index];
    ValidatedOp& row = v_.ops.emplace_back();
    row.name = display_name(m_, c.node), row.op = m_.names[m_[c.node].op_type];
    row.count = c.count;
    if (const Type type = instance.outputs.empty() ? nullptr : instance.outputs[0]; type && type->is_tensor()) {
      row.dtype = name(type->dtype);
      for (Expr d : type->dims) row.shape.push_back(evaluate(d, costing_.values()).value_or(-1));
    }
    if (c.task) row.size = c.task->size_text();
    row.measured = median(samples), row.measured_min = *std::min_element(samples.begin(), samples.end());
    row.runs = static_cast<int64_t>(samples.size());
    row.spread = spread(samples), row.noisy = row.spread > noisy_spread;
    row.predicted = time.predicted, row.predicted_ideal = time.ideal;
    if (row.predicted && row.measured > 0) row.error = (*row.predicted - row.measured) / row.measured;
    if (time.bound != Bound::none) row.bound = std::string(name(time.bound));
  }

  Status read_profile() {
    v_.source = "profile";
    Result<Profile> profile = read_onnxruntime_profile(options_.profile);
    if (!profile) return std::move(profile.error());
    v_.device = "ONNX Runtime, " + profile->provider;
    const ProfileJoin join = join_profile(m_, *profile);
    for (const Candidate& c : candidates(&join)) add_row(c, c.seconds);
    for (uint32_t i = 0; i < m_.nodes.size(); ++i) {
      const ProfiledNode* found = join.of_node[i];
      const int64_t group = costing_.cost(NodeId{i}).group;
      const Candidate c{NodeId{i}, group, 0, 1};
      // Views and constants: the runtime may still call something for them.
      if (group < 0 && found) skip(c, "takes no time in the model; " + format_seconds(median(found->seconds)) + " in the profile");
      if (group >= 0 && !found) skip(c, "not in the profile: fused with another node, folded or removed");
    }
    for (const ProfiledNode* node : join.others)
      v_.skipped.push_back({node->name + " (" + node->op + ")", "in the profile only: the runtime added or renamed it", 1});
    if (v_.ops.empty()) return error("trace-kind", "no node of the profile is called as one of the model", {.file = options_.profile}, "is it a profile of this model?");
    return Ok{};
  }

  void summarize() {
    std::vector<double> errors;
    std::vector<std::pair<double, double>> pairs;
    double predicted = 0, measured = 0;
    for (const ValidatedOp& row : v_.ops) {
      if (!row.error) continue;
      errors.push_back(std::abs(*row.error));
      pairs.push_back({row.measured, *row.predicted});
      predicted += *row.predicted * static_cast<double>(row.count), measured += row.measured * static_cast<double>(row.count);
    }
    ValidationSummary& s = v_.summary;
    s.total_measured = measured;
    if (errors.empty()) return;
    s.total_predicted = predicted;
    s.total_error = (predicted - measured) / measured;
    s.median_abs_error = median(errors), s.p90 = percentile(errors, 0.9);
    s.mape = std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
    if (const double tau = kendall_tau(pairs); std::isfinite(tau)) s.kendall_tau = tau;
  }

  Module& m_;
  const Hardware hardware_;
  const ValidateOptions& options_;
  Costing costing_;
  Validation v_;
};

}  // namespace

Result<Validation> validate(const Model& model, const Hardware& hardware, const ValidateOptions& options) {
  if (options.on != "cpu" && options.on != "cuda") return error("usage", "--on " + options.on + " is not understood", {}, "cpu or cuda");
  // Kernels of another library than the one that was calibrated reach other shares of the same peaks.
  Hardware runtime = hardware;
  if (!options.profile.empty() && hardware.family == "cpu") {
    const Result<Hardware> constants = load_hardware("families/cpu-onnxruntime");
    if (!constants) return constants.error();
    for (const auto& [name, figure] : constants->kernel) runtime.kernel[name] = figure;
  }
  return Validator(model.module(), std::move(runtime), options).run();
}

}  // namespace roofcast
