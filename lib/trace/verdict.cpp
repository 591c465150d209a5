#include "trace/verdict.h"

#include "support/units.h"
#include "trace/kernel_classes.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace roofcast::trace {
namespace {

double seconds(Nanoseconds t) { return static_cast<double>(t.count()) * 1e-9; }
double part(Nanoseconds a, Nanoseconds b) { return b.count() > 0 ? static_cast<double>(a.count()) / static_cast<double>(b.count()) : 0; }

KernelClass class_from(std::string_view name) {
  for (size_t c = 0; c < kernel_class_count; ++c)
    if (to_string(static_cast<KernelClass>(c)) == name) return static_cast<KernelClass>(c);
  return KernelClass::other;
}

struct Seen {
  TimeShares shares;
  size_t devices = 0;
  std::map<std::string, Nanoseconds> classes;
  Nanoseconds kernel_time{}, matrix{}, memory{};  // of compute kernels
  uint64_t matched = 0, unmatched = 0, before = 0, waits = 0;
};

Seen look(const Diagnosis& d) {
  Seen s;
  for (const RankFigures& rank : d.ranks)
    for (const DeviceFigures& device : rank.devices) {
      if (device.span.count() == 0) continue;
      ++s.devices;
      TimeShares& t = s.shares;
      t.compute += part(device.compute, device.span), t.exposed_comm += part(device.comm.exposed, device.span);
      t.host_copies += part(device.copies.host_link_exposed, device.span);
      t.device_copies += part(device.copies.exposed - device.copies.host_link_exposed, device.span);
      t.host_wait += part(device.idle.host_wait, device.span), t.kernel_wait += part(device.idle.kernel_wait, device.span);
      t.other_idle += part(device.idle.other, device.span);
      for (const auto& [name, time] : device.classes) {
        s.classes[name] += time;
        const KernelClass c = class_from(name);
        if (c == KernelClass::memcpy || c == KernelClass::memset || c == KernelClass::collective) continue;
        s.kernel_time += time;
        if (leaning_of(c) == Leaning::matrix) s.matrix += time;
        if (leaning_of(c) == Leaning::memory) s.memory += time;
      }
      s.matched += device.launch.matched, s.unmatched += device.launch.unmatched, s.before += device.launch.before_their_launch;
      s.waits += device.idle.kernel_wait_gaps;
    }
  if (s.devices) {
    const double n = static_cast<double>(s.devices);
    for (double* v : {&s.shares.compute, &s.shares.exposed_comm, &s.shares.host_copies, &s.shares.device_copies, &s.shares.host_wait, &s.shares.kernel_wait, &s.shares.other_idle}) *v /= n;
  }
  return s;
}

std::string percent(double share) { return format_share(share); }

void evidence_of_collectives(Diagnosis& d) {
  size_t named = 0;
  double best = 0;
  for (const RankFigures& rank : d.ranks)
    for (const DeviceFigures& device : rank.devices)
      for (const CollectiveRun& c : device.collectives) best = std::max(best, c.busbw);
  if (d.link_bandwidth && best > 0)
    d.evidence.push_back(fmt::format("the best busbw is {} of the {} that the link allows per direction{}", format_share(best / *d.link_bandwidth), format_rate(*d.link_bandwidth, "B"),
                                     best < 0.25 * *d.link_bandwidth ? ": another path, or waiting" : ""));
  for (const RankFigures& rank : d.ranks)
    for (const DeviceFigures& device : rank.devices)
      for (const CollectiveRun& c : device.collectives) {
        if (++named > 3) return;
        d.evidence.push_back(fmt::format("{} of {} over {} ranks: {} × {} each, busbw {}", c.kind, format_bytes(static_cast<double>(c.bytes)), c.ranks, c.count,
                                         format_seconds(seconds(c.time) / static_cast<double>(c.count)), format_rate(c.busbw, "B")));
        if (c.count > 1 && c.slowest > 3 * c.fastest)
          d.evidence.push_back(fmt::format("the same {} took {} to {}: more than the wire, ranks wait for each other", c.kind, format_seconds(seconds(c.fastest)), format_seconds(seconds(c.slowest))));
      }
}

void communication(Diagnosis& d, const Seen& s) {
  d.verdict = "communication", d.where = "network";
  d.rule = "exposed-comm ≥ 30 % of the span (docs/diagnosis.md#communication)";
  d.evidence.push_back(fmt::format("collectives alone on the device for {} of the span", percent(s.shares.exposed_comm)));
  evidence_of_collectives(d);
  d.advice.push_back("one rank alone cannot tell waiting for other ranks from a slow path: look at all ranks' traces");
  d.advice.push_back("topology: `nvidia-smi topo -m` (AMD: `rocm-smi --showtopo`): pairs joined through PCIe or the host do not use the fast link");
  d.advice.push_back("overlap collectives with backward: larger or earlier gradient buckets, and a stream of their own");
}

void host_link(Diagnosis& d, const Seen& s) {
  d.verdict = "communication", d.where = "host_link";
  d.rule = "copies over the host link, beside no kernel, ≥ 30 % of the span (docs/diagnosis.md#host-link)";
  d.evidence.push_back(fmt::format("copies from and to the host alone on the device for {} of the span, though it is busy", percent(s.shares.host_copies)));
  for (const RankFigures& rank : d.ranks)
    for (const DeviceFigures& device : rank.devices)
      for (const CopyRow& c : device.copies.kinds)
        if (c.bandwidth && (c.kind == "h2d" || c.kind == "d2h") && d.evidence.size() < 5)
          d.evidence.push_back(fmt::format("device {}: {} {} in {} copies at {}", device.device, c.kind, format_bytes(static_cast<double>(*c.bytes)), c.count, format_rate(*c.bandwidth, "B")));
  d.advice.push_back("keep weights and states on the device, or copy what the next layer needs while this one computes");
  d.advice.push_back("pinned host memory: pageable copies are synchronous and reach a fraction of the link");
}

void host(Diagnosis& d, const Seen& s) {
  d.verdict = "cpu_io";
  d.rule = "host wait and kernel wait ≥ 15 % of the span (docs/diagnosis.md#cpu-io)";
  d.evidence.push_back(fmt::format("the device idles {} of the span: {} before the host had launched, {} in short gaps between kernels", percent(s.shares.host_wait + s.shares.kernel_wait + s.shares.other_idle),
                                   percent(s.shares.host_wait), percent(s.shares.kernel_wait)));
  if (s.shares.kernel_wait > s.shares.host_wait) {
    d.evidence.push_back(fmt::format("{} gaps below 30 µs: many small kernels", s.waits));
    d.advice.push_back("CUDA or HIP graphs, or torch.compile: one launch for many kernels");
  } else {
    d.advice.push_back("more DataLoader workers, pinned memory and prefetching, if the gaps stand between steps");
    d.advice.push_back("fewer synchronizations (.item(), prints of device values) and CUDA graphs, if they stand inside steps");
  }
}

std::string class_list(const Seen& s, size_t most) {
  std::vector<std::pair<std::string, Nanoseconds>> list(s.classes.begin(), s.classes.end());
  std::sort(list.begin(), list.end(), [](auto& a, auto& b) { return a.second > b.second; });
  Nanoseconds all{};
  for (auto& [name, time] : list) all += time;
  std::string out;
  for (size_t i = 0; i < list.size() && i < most; ++i) out += (i ? ", " : "") + list[i].first + " " + percent(part(list[i].second, all));
  return out;
}

}  // namespace

void judge(Diagnosis& d, const Thresholds& limit) {
  const Seen s = look(d);
  if (s.devices == 0) return;
  d.shares = s.shares;
  // Shares of ratios of integers: a hair below a limit is at it.
  auto reaches = [](double share, double threshold) { return share >= threshold - 1e-9; };
  // Where most kernels start before their own launch, the clocks differ and host waits mean nothing.
  const bool clocks_agree = s.matched == 0 || s.before * 2 <= s.matched;
  const double host_idle = clocks_agree ? s.shares.host_wait + s.shares.kernel_wait : 0;
  const double matrix = part(s.matrix, s.kernel_time), memory = part(s.memory, s.kernel_time);
  struct Candidate {
    double share;
    void (*apply)(Diagnosis&, const Seen&);
  };
  std::vector<Candidate> candidates;
  if (reaches(s.shares.exposed_comm, limit.exposed_comm)) candidates.push_back({s.shares.exposed_comm, communication});
  if (reaches(s.shares.host_copies, limit.host_copies)) candidates.push_back({s.shares.host_copies, host_link});
  if (reaches(host_idle, limit.host_idle)) candidates.push_back({host_idle, host});
  if (!candidates.empty()) {
    std::max_element(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) { return a.share < b.share; })->apply(d, s);
  } else if (reaches(s.shares.other_idle, 0.30)) {
    d.verdict = "mixed";
    d.rule = "no rule reached; most idle is neither host wait nor short (docs/diagnosis.md#mixed)";
    d.evidence.push_back(fmt::format("the device idles {} of the span for another or an unknown reason: waits between streams, or launches before recording began", percent(s.shares.other_idle)));
    d.advice.push_back("look at cross-stream events around the largest gaps; record from before the first launch");
  } else if (reaches(memory, limit.memory_work)) {
    d.verdict = "memory";
    d.rule = "memory-leaning kernels ≥ 50 % of compute kernels' time (docs/diagnosis.md#memory)";
    d.evidence.push_back(fmt::format("busy {} of the span, and pointwise, norm, softmax and copy kernels take {} of the compute kernels' time", percent(1 - s.shares.host_wait - s.shares.kernel_wait - s.shares.other_idle), percent(memory)));
    d.advice.push_back("fuse: torch.compile, a fused attention, fused norm and activation kernels");
    d.advice.push_back("a smaller type (bf16, fp8) halves the bytes");
  } else if (reaches(matrix, limit.matrix_work)) {
    d.verdict = "compute";
    d.rule = "matrix kernels ≥ 2/3 of compute kernels' time (docs/diagnosis.md#compute)";
    d.evidence.push_back(fmt::format("busy {} of the span, and gemm, conv and attention kernels take {} of the compute kernels' time", percent(1 - s.shares.host_wait - s.shares.kernel_wait - s.shares.other_idle), percent(matrix)));
    d.advice.push_back("lower precision (bf16, fp8, int8) and shapes that fill the matrix units (multiples of 64 and more)");
    d.advice.push_back("if MFU is low all the same, look at tile and wave quantisation of the largest kernels");
  } else {
    d.verdict = "mixed";
    d.rule = "no rule reached (docs/diagnosis.md#mixed)";
    d.evidence.push_back(fmt::format("matrix kernels take {}, memory-leaning ones {} of the compute kernels' time", percent(matrix), percent(memory)));
  }
  d.evidence.push_back("kernel time: " + class_list(s, 5));
  if (!clocks_agree) d.evidence.push_back(fmt::format("{} of {} kernels start before their launch: the clocks differ, so host wait is not judged", s.before, s.matched));
  if (s.unmatched * 5 > s.matched + s.unmatched)
    d.evidence.push_back(fmt::format("{} of {} device events have no launch record", s.unmatched, s.matched + s.unmatched));

  // Ranks against each other.
  if (d.ranks.size() > 1) {
    double least = 1e300, most = 0;
    int64_t slowest = 0;
    for (const RankFigures& r : d.ranks) {
      double compute = 0;
      for (const DeviceFigures& device : r.devices) compute += seconds(device.compute);
      least = std::min(least, compute);
      if (compute > most) most = compute, slowest = r.rank;
    }
    if (most > 0) {
      const double spread = 1 - least / most;
      d.evidence.push_back(spread > 0.1 ? fmt::format("ranks differ by {} in compute time: rank {} is the slowest, the others wait for it", percent(spread), slowest)
                                        : fmt::format("ranks differ by {} in compute time: no straggler", percent(spread)));
    }
  }
  // Sanity of steps, and of single events.
  size_t empty = 0;
  for (const StepFigures& step : d.steps) empty += step.events == 0;
  if (empty) d.evidence.push_back(fmt::format("{} of {} steps have no device event", empty, d.steps.size()));
  if (d.steps.size() >= 3) {
    std::vector<uint64_t> counts;
    for (const StepFigures& step : d.steps) counts.push_back(step.events);
    std::nth_element(counts.begin(), counts.begin() + static_cast<ptrdiff_t>(counts.size() / 2), counts.end());
    if (d.steps.front().events * 2 < counts[counts.size() / 2])
      d.evidence.push_back(fmt::format("the first step has {} device events, others about {}: the profiler lost its beginning", d.steps.front().events, counts[counts.size() / 2]));
  }
  for (const RankFigures& r : d.ranks)
    for (const DeviceFigures& device : r.devices)
      if (device.clipped.count()) d.evidence.push_back(fmt::format("durations that run over the next kernel of their stream: {} left out of the classes", format_seconds(seconds(device.clipped))));
  for (const RankFigures& r : d.ranks)
    for (const DeviceFigures& device : r.devices)
      for (const KernelRow& k : device.kernels)
        if (k.count == 1 && device.events > 3 && k.time * 2 > device.busy) d.evidence.push_back(fmt::format("a single event ({}) is {} of the busy time: a broken record?", k.name, percent(part(k.time, device.busy))));
}

}  // namespace roofcast::trace
