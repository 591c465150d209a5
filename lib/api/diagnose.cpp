#include "roofcast/diagnose.h"

#include "support/diagnostic.h"
#include "trace/figures.h"
#include "trace/read.h"
#include "trace/verdict.h"

#include <algorithm>

namespace roofcast {
namespace {

Result<Diagnosis> diagnose_traces(const std::vector<std::string>& traces, std::optional<double> link_bandwidth) {
  Diagnosis d;
  d.link_bandwidth = link_bandwidth;
  if (traces.empty()) return error("usage", "no trace", {}, "roofcast diagnose TRACE…");
  for (size_t i = 0; i < traces.size(); ++i) {
    // One rank at a time: only its figures stay.
    Result<trace::Timeline> timeline = trace::read_trace(traces[i]);
    if (!timeline) return std::move(timeline.error());
    trace::join_launches(*timeline);
    const int64_t rank = timeline->rank.value_or(static_cast<int64_t>(i));
    d.source += (i ? ", " : "") + traces[i];
    std::vector<StepFigures> steps = trace::step_figures(*timeline, rank);
    d.steps.insert(d.steps.end(), steps.begin(), steps.end());
    if (!timeline->steps_from.empty()) d.steps_from = timeline->steps_from;
    d.ranks.push_back(trace::rank_figures(*timeline, rank));
    d.incomplete |= timeline->truncated;
    d.warnings.insert(d.warnings.end(), timeline->warnings.begin(), timeline->warnings.end());
    if (timeline->device_events() == 0)
      d.warnings.push_back(warning("trace-kind", "no device event: only the CPU was recorded", {.file = traces[i]}, "record with ProfilerActivity.CUDA"));
  }
  std::stable_sort(d.ranks.begin(), d.ranks.end(), [](const RankFigures& a, const RankFigures& b) { return a.rank < b.rank; });
  trace::judge(d);
  return d;
}

double mean_step(const Diagnosis& d) {
  double total = 0;
  for (const StepFigures& s : d.steps) total += static_cast<double>(s.span.count()) * 1e-9;
  return d.steps.empty() ? 0 : total / static_cast<double>(d.steps.size());
}

}  // namespace

Result<Diagnosis> diagnose(const std::vector<std::string>& traces, const DiagnoseOptions& options) {
  Result<Diagnosis> d = diagnose_traces(traces, options.link_bandwidth);
  if (!d) return d;
  if (options.step_flops && options.peak && *options.peak > 0) {
    // A trace without steps is one step: its devices' span.
    double seconds = mean_step(*d);
    if (seconds == 0)
      for (const RankFigures& r : d->ranks)
        for (const DeviceFigures& v : r.devices) seconds = std::max(seconds, static_cast<double>(v.span.count()) * 1e-9);
    if (seconds > 0) d->mfu = *options.step_flops / (seconds * *options.peak);
  }
  d->peak = options.peak, d->memory_bandwidth = options.memory_bandwidth;
  for (const ModelWork& w : options.work) {
    // Measured time of the classes that lean the same way, of one step of one device.
    Nanoseconds time{};
    size_t devices = 0;
    for (const RankFigures& r : d->ranks)
      for (const DeviceFigures& v : r.devices) {
        ++devices;
        for (const auto& [name, t] : v.classes) {
          const bool moves = name == "memcpy" || name == "memset" || name == "collective";
          const bool matrix = name == "gemm" || name == "conv" || name == "attention";
          if (!moves && matrix == (w.leaning == "matrix")) time += t;
        }
      }
    const size_t steps = std::max<size_t>(1, devices ? d->steps.size() / devices : 1);
    const double seconds = devices ? static_cast<double>(time.count()) * 1e-9 / static_cast<double>(devices * steps) : 0;
    if (seconds <= 0) continue;
    d->achieved.push_back({w.leaning, Nanoseconds(static_cast<int64_t>(seconds * 1e9)), w.flops, w.bytes, w.flops / seconds, w.bytes / seconds, w.time_ideal / seconds});
  }
  if (!options.baseline) return d;
  const Result<Diagnosis> before = diagnose_traces({*options.baseline}, options.link_bandwidth);
  if (!before) return before.error();
  Comparison& c = d->baseline.emplace();
  c.source = before->source, c.verdict = before->verdict, c.where = before->where;
  if (before->shares && d->shares) {
    const TimeShares &a = *before->shares, &b = *d->shares;
    c.changes = {{"compute", a.compute, b.compute}, {"exposed_comm", a.exposed_comm, b.exposed_comm}, {"host_copies", a.host_copies, b.host_copies},
                 {"host_wait", a.host_wait, b.host_wait}, {"kernel_wait", a.kernel_wait, b.kernel_wait}, {"other_idle", a.other_idle, b.other_idle}};
  }
  if (!before->steps.empty() && !d->steps.empty()) c.changes.push_back({"step_seconds", mean_step(*before), mean_step(*d)});
  return d;
}

}  // namespace roofcast
