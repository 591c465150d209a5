#include "roofcast/layouts.h"

#include "api/parallel.h"
#include "api/totals.h"
#include "hw/hardware.h"
#include "support/diagnostic.h"
#include "support/units.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

namespace roofcast {
namespace {

// A layout with the two figures that rank it.
struct Ranked {
  Layout layout;
  double time = 0, memory = 0;
};

// What of a step's time is what.
struct Parts {
  double compute, exposed, bubble, optimizer;
};
Parts parts_of(const Step& s) {
  const double compute = std::max(0.0, s.time - s.t_net_exposed - s.bubble - s.optimizer);
  return {compute, s.t_net_exposed, s.bubble, s.optimizer};
}

// One line: why `a` is quicker than `b`.
std::string why_quicker(const Layout& a, const Step& sa, const Layout& b, const Step& sb) {
  const Parts x = parts_of(sa), y = parts_of(sb);
  std::pair<double, const char*> gains[] = {{y.compute - x.compute, "compute"},
                                            {y.exposed - x.exposed, "exposed communication"},
                                            {y.bubble - x.bubble, "pipeline bubble"},
                                            {y.optimizer - x.optimizer, "optimizer"}};
  std::stable_sort(std::begin(gains), std::end(gains), [](auto& p, auto& q) { return p.first > q.first; });
  std::string text = fmt::format("{} against {}: {} less {}", a.text(), b.text(), format_seconds(std::max(0.0, gains[0].first)), gains[0].second);
  for (int k = 1; k < 4; ++k)
    if (gains[k].first > 0.05 * (sb.time - sa.time)) text += fmt::format(", {} less {}", format_seconds(gains[k].first), gains[k].second);
  if (gains[3].first < 0) text += fmt::format(", for {} more {}", format_seconds(-gains[3].first), gains[3].second);
  return text;
}

class Search {
public:
  Search(const Model& model, const Hardware& hardware, const LayoutsOptions& options, LayoutModel& layouts)
      : m_(model.module()), hardware_(hardware), options_(options), layouts_(layouts),
        capacity_(memory_capacity(hardware).value_or(1e300)) {}

  Result<LayoutSearch> run() {
    const auto start = std::chrono::steady_clock::now();
    out_.file = m_.file, out_.hardware = hardware_.name, out_.time_model = options_.model;
    warn_of_stand_in(out_.warnings, hardware_, time_model(options_.model));
    out_.phase = options_.parallel.train ? "training" : "inference";
    out_.global_batch = layouts_.global_batch();
    if (!layouts_.has_batch_symbol())
      out_.warnings.push_back(warning("layout-batch", "the batch is a constant of the file, so that dp and microbatches are not searched", {.file = m_.file},
                                      "export the model with a symbolic batch dim"));
    for (int64_t devices : options_.devices) {
      if (Status status = search(devices); !status) return std::move(status.error());
      add_scaling(devices);
    }
    add_candidates();
    if (options_.parallel.layout)
      if (Status status = add_guess(*options_.parallel.layout); !status) return std::move(status.error());
    out_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(out_);
  }

private:
  Status search(int64_t devices) {
    fitting_.clear(), rest_.clear(), front_.clear();
    SearchSpace space{devices, options_.parallel.train, static_cast<int64_t>(layouts_.blocks()), 64, 1};
    if (const auto tokens = layouts_.tokens(); tokens && *tokens / static_cast<double>(layouts_.global_batch()) >= 16384) space.widest_context = 16;
    if (!layouts_.has_batch_symbol()) space.widest_context = 1;
    std::optional<Diagnostic> fault;
    const size_t keep = std::max<size_t>(options_.top, 2);
    auto quicker = [](const Ranked& a, const Ranked& b) { return a.time < b.time; };
    auto smaller = [](const Ranked& a, const Ranked& b) { return a.memory < b.memory; };
    auto put = [&](std::vector<Ranked>& heap, const Ranked& r, auto&& less) {
      if (heap.size() == keep && !less(r, heap.front())) return;
      if (heap.size() == keep) std::pop_heap(heap.begin(), heap.end(), less), heap.pop_back();
      heap.push_back(r), std::push_heap(heap.begin(), heap.end(), less);
    };
    for_each_layout(space, layouts_.has_batch_symbol() ? layouts_.global_batch() : 1, layouts_.experts(), [&](const Layout& l) {
      if (fault) return;
      const Result<Step> step = layouts_.step(l, false);
      if (!step) {
        fault = step.error();
        return;
      }
      ++out_.searched;
      const Ranked r{l, step->time, step->memory.total()};
      if (r.memory > capacity_) return put(rest_, r, smaller);
      ++out_.feasible;
      put(fitting_, r, quicker);
      // The front of time and memory.
      auto better = [&](const Ranked& f) { return f.time <= r.time && f.memory <= r.memory; };
      if (std::none_of(front_.begin(), front_.end(), better)) {
        std::erase_if(front_, [&](const Ranked& f) { return r.time <= f.time && r.memory <= f.memory; });
        front_.push_back(r);
      }
    });
    if (fault) return *fault;
    std::sort(fitting_.begin(), fitting_.end(), quicker);
    std::sort(rest_.begin(), rest_.end(), smaller);
    std::sort(front_.begin(), front_.end(), quicker);
    if (fitting_.empty() && rest_.empty())
      return error("layout-devices", "no layout of " + std::to_string(devices) + " devices divides a batch of " + std::to_string(layouts_.global_batch()),
                   {.file = m_.file}, "--global-batch gives another one");
    return Ok{};
  }

  LayoutCandidate candidate(const Layout& l) {
    const Step step = *layouts_.step(l, true);
    LayoutCandidate c = candidate_of(layouts_, l, step, hardware_, m_);
    if (!c.fits) c.why_not = why_not(layouts_, l, step, capacity_);
    return c;
  }

  void add_scaling(int64_t devices) {
    const Ranked& best = fitting_.empty() ? rest_.front() : fitting_.front();
    if (options_.devices.size() < 2) return;
    const Step step = *layouts_.step(best.layout, false);
    const LayoutCandidate c = candidate_of(layouts_, best.layout, step, hardware_, m_);
    ScalingPoint p{devices, c.text, c.time, c.tokens_per_s, c.mfu, c.hfu, std::nullopt, c.t_net_exposed, !fitting_.empty()};
    if (!out_.scaling.empty()) {
      const ScalingPoint& first = out_.scaling.front();
      p.efficiency = first.time * static_cast<double>(first.devices) / (p.time * static_cast<double>(devices));
    } else {
      p.efficiency = 1;
    }
    const Parts parts = parts_of(step);
    if (!out_.communication_from && parts.exposed > std::max({parts.compute, parts.bubble})) out_.communication_from = devices;
    out_.scaling.push_back(p);
  }

  void add_candidates() {
    const std::vector<Ranked>& shown = fitting_.empty() ? rest_ : fitting_;
    for (const Ranked& r : shown) {
      LayoutCandidate& c = out_.candidates.emplace_back(candidate(r.layout));
      c.pareto = std::any_of(front_.begin(), front_.end(), [&](const Ranked& f) { return f.layout.text() == c.text; });
    }
    for (const Ranked& r : front_) {
      LayoutCandidate& c = out_.pareto.emplace_back(candidate(r.layout));
      c.pareto = true, c.collectives.clear();
    }
    const Step best = *layouts_.step(shown[0].layout, false);
    for (size_t k = 1; k < out_.candidates.size(); ++k)
      out_.candidates[k].why = why_quicker(shown[0].layout, best, shown[k].layout, *layouts_.step(shown[k].layout, false));
    if (shown.size() > 1) out_.candidates[0].why = out_.candidates[1].why;
    out_.best = out_.candidates[0];
  }

  Status add_guess(const Layout& layout) {
    const Result<Layout> decided = layouts_.decide(layout);
    if (!decided) return decided.error();
    const Result<Step> step = layouts_.step(*decided, true);
    if (!step) return step.error();
    LayoutCandidate& c = out_.guess.emplace(candidate(*decided));
    if (!c.fits) {
      c.why = "it does not fit: " + *c.why_not;
      return Ok{};
    }
    const Step best = *layouts_.step(out_.best->layout, false);
    c.why = best.time < step->time * (1 - 1e-9) ? why_quicker(out_.best->layout, best, *decided, *step) : "as quick as the best found";
    return Ok{};
  }

  const Module& m_;
  const Hardware& hardware_;
  const LayoutsOptions& options_;
  LayoutModel& layouts_;
  double capacity_;
  LayoutSearch out_;
  std::vector<Ranked> fitting_, rest_, front_;
};

}  // namespace

Result<LayoutSearch> layouts(const Model& model, const Hardware& hardware, const LayoutsOptions& options) {
  const Result<LayoutModelOptions> what = layout_model_options(options.parallel, options.model, options.causal);
  if (!what) return what.error();
  LayoutModel layouts(model.module(), hardware, *what);
  return Search(model, hardware, options, layouts).run();
}

}  // namespace roofcast
