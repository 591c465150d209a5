#include "trace/figures.h"

#include <algorithm>
#include <map>

namespace roofcast::trace {
namespace {

struct Interval {
  int64_t start, end;
};
using Intervals = std::vector<Interval>;  // sorted, apart

// Adds an interval whose start is not before those added so far.
void add(Intervals& set, int64_t start, int64_t end) {
  if (!set.empty() && start <= set.back().end) set.back().end = std::max(set.back().end, end);
  else set.push_back({start, end});
}
int64_t length(const Intervals& set) {
  int64_t total = 0;
  for (const Interval& i : set) total += i.end - i.start;
  return total;
}
// Length of what both cover.
int64_t overlap(const Intervals& a, const Intervals& b) {
  int64_t total = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    total += std::max<int64_t>(0, std::min(a[i].end, b[j].end) - std::max(a[i].start, b[j].start));
    (a[i].end < b[j].end ? i : j)++;
  }
  return total;
}
Intervals clip(const Intervals& set, int64_t start, int64_t end) {
  Intervals out;
  auto at = std::lower_bound(set.begin(), set.end(), start, [](const Interval& i, int64_t v) { return i.end <= v; });
  for (; at != set.end() && at->start < end; ++at) out.push_back({std::max(at->start, start), std::min(at->end, end)});
  return out;
}
Intervals merged(const Intervals& a, const Intervals& b) {
  Intervals all(a), out;
  all.insert(all.end(), b.begin(), b.end());
  std::sort(all.begin(), all.end(), [](const Interval& x, const Interval& y) { return x.start < y.start; });
  for (const Interval& i : all) add(out, i.start, i.end);
  return out;
}

Nanoseconds ns(int64_t v) { return Nanoseconds(v); }

// One device's unions; its events are sorted by start.
struct Unions {
  Intervals busy, comm, copies, host_link, compute, kernels;
  explicit Unions(const Device& device) {
    for (const DeviceEvent& e : device.events) {
      add(busy, e.start, e.end());
      if (e.kernel_class == KernelClass::memcpy || e.kernel_class == KernelClass::memset) {
        add(copies, e.start, e.end());
        if (e.copy == CopyKind::h2d || e.copy == CopyKind::d2h) add(host_link, e.start, e.end());
      } else {
        add(e.kernel_class == KernelClass::collective ? comm : compute, e.start, e.end());
        add(kernels, e.start, e.end());
      }
    }
  }
};

template <class T> std::optional<Nanoseconds> median(std::vector<T>& values) {
  if (values.empty()) return std::nullopt;
  auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return ns(*middle);
}

// Bytes on the wire per byte of buffer, as nccl-tests counts busbw (doc/PERFORMANCE.md there).
double bus_factor(std::string_view kind, double n) {
  if (kind.find("allreduce") != kind.npos || kind.find("all_reduce") != kind.npos) return 2 * (n - 1) / n;
  if (kind.find("gather") != kind.npos || kind.find("scatter") != kind.npos || kind.find("all_to_all") != kind.npos || kind.find("alltoall") != kind.npos) return (n - 1) / n;
  return 1;
}

void collectives(const Timeline& t, const Device& device, DeviceFigures& out) {
  struct Sum {
    uint64_t count = 0;
    int64_t time = 0, fastest = INT64_MAX, slowest = 0;
  };
  std::map<std::tuple<std::string, uint64_t, uint64_t>, Sum> sums;
  for (const DeviceEvent& e : device.events) {
    if (e.kernel_class != KernelClass::collective || e.payload == no_index) continue;
    const Payload& p = t.payloads[e.payload];
    const uint64_t elements = std::max(p.in_elements, p.out_elements);
    if (!p.collective || !elements || !p.element_bytes || elements > UINT64_MAX / 16) continue;
    Sum& s = sums[{t.names[p.collective], p.ranks, elements * p.element_bytes}];
    ++s.count, s.time += e.duration;
    s.fastest = std::min(s.fastest, e.duration), s.slowest = std::max(s.slowest, e.duration);
  }
  for (const auto& [key, s] : sums) {
    const auto& [kind, ranks, bytes] = key;
    const double n = static_cast<double>(std::max<uint64_t>(2, ranks));
    const double seconds = static_cast<double>(s.time) * 1e-9 / static_cast<double>(s.count);
    out.collectives.push_back({kind, ranks, bytes, s.count, ns(s.time), ns(s.fastest), ns(s.slowest),
                               seconds > 0 ? static_cast<double>(bytes) * bus_factor(kind, n) / seconds : 0});
  }
  std::stable_sort(out.collectives.begin(), out.collectives.end(), [](const CollectiveRun& a, const CollectiveRun& b) { return a.time > b.time; });
}

DeviceFigures device_figures(Timeline& t, const Device& device) {
  DeviceFigures d;
  d.device = device.id, d.name = device.name, d.events = device.events.size();
  if (device.events.empty()) return d;
  const Unions u(device);
  d.span = ns(u.busy.back().end - u.busy.front().start);
  d.busy = ns(length(u.busy));
  d.compute = ns(length(u.compute));
  const int64_t comm = length(u.comm), shared = overlap(u.comm, u.compute);
  d.comm = {ns(comm), ns(comm - shared), ns(shared), d.span.count() ? static_cast<double>(comm) / static_cast<double>(d.span.count()) : 0};
  d.copies.total = ns(length(u.copies));
  d.copies.exposed = d.copies.total - ns(overlap(u.copies, u.kernels));
  d.copies.host_link = ns(length(u.host_link));
  d.copies.host_link_exposed = d.copies.host_link - ns(overlap(u.host_link, u.kernels));

  // Some devices report durations that run over the next kernels of their stream: for sums by class such an
  // event ends where the next one of its stream begins. Concurrent kernels of a graph overlap by less.
  std::vector<int64_t> durations(device.events.size());
  std::unordered_map<uint16_t, int64_t> next_start;
  for (size_t i = device.events.size(); i-- > 0;) {
    const DeviceEvent& e = device.events[i];
    durations[i] = e.duration;
    if (const auto at = next_start.find(e.track); at != next_start.end()) {
      const int64_t over = e.end() - at->second;
      if (over > 1'000'000 && over * 2 > e.duration) durations[i] = std::max<int64_t>(0, at->second - e.start), d.clipped += ns(e.duration - durations[i]);
    }
    next_start[e.track] = e.start;
  }

  // Idle, by the first event behind each gap.
  std::vector<int64_t> waits, delays;
  int64_t end = device.events.front().start;
  std::array<int64_t, kernel_class_count> by_class{};
  std::map<CopyKind, CopyRow> copies;
  struct NameSum {
    uint64_t count = 0;
    int64_t time = 0;
    KernelClass kernel_class = KernelClass::other;
  };
  std::unordered_map<uint32_t, NameSum> by_name;
  int64_t all_time = 0;
  size_t index = 0;
  for (const DeviceEvent& e : device.events) {
    const int64_t duration = durations[index++];
    const Launch* launch = e.launch == no_index ? nullptr : &t.launches[e.launch];
    if (e.start > end) {
      const int64_t gap = e.start - end;
      d.idle.total += ns(gap);
      if (launch && launch->start > end) d.idle.host_wait += ns(gap);
      else if (gap < kernel_wait_limit) d.idle.kernel_wait += ns(gap), waits.push_back(gap);
      else d.idle.other += ns(gap);
    }
    end = std::max(end, e.end());
    if (launch) {
      ++d.launch.matched;
      delays.push_back(std::max<int64_t>(0, e.start - launch->end()));
      d.launch.before_their_launch += e.start < launch->start;
      d.launch.shorter_than_their_launch += e.duration < launch->duration;
    } else {
      ++d.launch.unmatched;
    }
    by_class[static_cast<size_t>(e.kernel_class)] += duration;
    NameSum& sum = by_name[e.name];
    ++sum.count, sum.time += duration, all_time += duration;
    sum.kernel_class = e.kernel_class;
    if (e.copy != CopyKind::none) {
      CopyRow& row = copies[e.copy];
      ++row.count, row.time += ns(e.duration);
      if (e.payload != no_index && t.payloads[e.payload].bytes) row.bytes = row.bytes.value_or(0) + *t.payloads[e.payload].bytes;
    }
  }
  d.idle.kernel_wait_gaps = waits.size();
  d.idle.kernel_wait_median = median(waits);
  if (!delays.empty()) d.launch.delay_max = ns(*std::max_element(delays.begin(), delays.end()));
  d.launch.delay_median = median(delays);
  for (auto& [kind, row] : copies) {
    row.kind = to_string(kind);
    if (row.bytes && row.time.count() > 0) row.bandwidth = static_cast<double>(*row.bytes) / (static_cast<double>(row.time.count()) * 1e-9);
    d.copies.kinds.push_back(row);
  }
  for (size_t c = 0; c < kernel_class_count; ++c)
    if (by_class[c]) d.classes.push_back({std::string(to_string(static_cast<KernelClass>(c))), ns(by_class[c])});
  std::stable_sort(d.classes.begin(), d.classes.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [name, sum] : by_name)
    d.kernels.push_back({t.names[name], std::string(to_string(sum.kernel_class)), sum.count, ns(sum.time),
                         all_time ? static_cast<double>(sum.time) / static_cast<double>(all_time) : 0});
  std::sort(d.kernels.begin(), d.kernels.end(), [](const KernelRow& a, const KernelRow& b) { return a.time != b.time ? a.time > b.time : a.name < b.name; });
  collectives(t, device, d);
  return d;
}

}  // namespace

RankFigures rank_figures(Timeline& timeline, int64_t rank) {
  RankFigures out{rank, timeline.file, {}};
  std::sort(timeline.devices.begin(), timeline.devices.end(), [](const Device& a, const Device& b) { return a.id < b.id; });
  for (const Device& d : timeline.devices) out.devices.push_back(device_figures(timeline, d));
  return out;
}

std::vector<StepFigures> step_figures(const Timeline& timeline, int64_t rank) {
  std::vector<StepFigures> out;
  if (timeline.devices.empty())  // a CPU trace still has steps
    for (const Mark& mark : timeline.steps) out.push_back({.name = mark.name, .rank = rank, .span = ns(mark.end - mark.start)});
  for (const Device& device : timeline.devices) {
    const Unions u(device);
    for (const Mark& mark : timeline.steps) {
      auto inside = [&](const Intervals& set) { return clip(set, mark.start, mark.end); };
      const Intervals comm = inside(u.comm), compute = inside(u.compute), copies = inside(u.copies);
      StepFigures s;
      s.name = mark.name, s.rank = rank, s.device = device.id;
      s.span = ns(mark.end - mark.start);
      s.busy = ns(length(inside(u.busy))), s.compute = ns(length(compute)), s.comm = ns(length(comm));
      s.comm_exposed = s.comm - ns(overlap(comm, compute));
      s.copies = ns(length(copies));
      s.copies_exposed = s.copies - ns(overlap(copies, merged(comm, compute)));
      auto first = std::lower_bound(device.events.begin(), device.events.end(), mark.start, [](const DeviceEvent& e, int64_t v) { return e.start < v; });
      auto last = std::lower_bound(device.events.begin(), device.events.end(), mark.end, [](const DeviceEvent& e, int64_t v) { return e.start < v; });
      s.events = static_cast<uint64_t>(last - first);
      out.push_back(std::move(s));
    }
  }
  return out;
}

}  // namespace roofcast::trace
