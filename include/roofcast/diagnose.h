// What bound a recorded run, with the evidence.
//
//   Result<Diagnosis> d = diagnose({"rank0.json.gz", "rank1.json.gz"}, {});
//   if (d && d->verdict) std::cout << *d->verdict << '\n';      // "communication"
//
// Measured times are integer nanoseconds; JSON gives them in seconds with 9 decimals.
#pragma once

#include "roofcast/fields.h"
#include "roofcast/result.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace roofcast {

using Nanoseconds = std::chrono::nanoseconds;

// What a model must do in one step of one device, by what its kernels lean on: "matrix" or "memory".
struct ModelWork {
  std::string leaning;
  double flops = 0, bytes = 0, time_ideal = 0;
};

struct DiagnoseOptions {
  // Matrix FLOPs of one step of one device, and that device's peak, for MFU.
  std::optional<double> step_flops, peak;
  std::vector<ModelWork> work;                      // of the same step, for the roofline of achieved rates
  std::optional<double> memory_bandwidth;           // bytes/s of the device
  std::optional<double> link_bandwidth;  // bytes/s per direction, to hold busbw against
  std::optional<std::string> baseline;  // a trace to compare with
};

// A device's time without any device event, by what it waited for (docs/diagnosis.md#idle).
struct IdleTime {
  Nanoseconds total{}, host_wait{}, kernel_wait{}, other{};
  uint64_t kernel_wait_gaps = 0;
  std::optional<Nanoseconds> kernel_wait_median;
};

struct CommunicationTime {
  Nanoseconds total{}, exposed{}, overlapped{};
  double share = 0;
};

// Copies of one direction. `bandwidth` needs recorded sizes.
struct CopyRow {
  std::string kind;  // h2d, d2h, d2d, p2p, memset, other
  uint64_t count = 0;
  Nanoseconds time{};
  std::optional<uint64_t> bytes;
  std::optional<double> bandwidth;
};

struct CopyTime {
  Nanoseconds total{}, exposed{}, host_link{}, host_link_exposed{};
  std::vector<CopyRow> kinds;
};

// Kernels of one name, or nodes of one operator in an ONNX Runtime profile.
struct KernelRow {
  std::string name, kernel_class;
  uint64_t count = 0;
  Nanoseconds time{};
  double share = 0;
};

struct LaunchFigures {
  uint64_t matched = 0, unmatched = 0;
  uint64_t shorter_than_their_launch = 0;  // kernels that run for less time than their launch call
  uint64_t before_their_launch = 0;        // a sign of clocks that differ
  std::optional<Nanoseconds> delay_median, delay_max;
};

// Collectives of one kind and size; `busbw` as nccl-tests defines it.
struct CollectiveRun {
  std::string kind;
  uint64_t ranks = 0, bytes = 0, count = 0;
  Nanoseconds time{}, fastest{}, slowest{};
  double busbw = 0;
};

struct DeviceFigures {
  int64_t device = 0;
  std::optional<std::string> name;
  uint64_t events = 0;
  Nanoseconds span{}, busy{};
  Nanoseconds clipped{};  // of durations that run over the next event of their stream, left out of the classes
  IdleTime idle;
  CommunicationTime comm;
  CopyTime copies;
  Nanoseconds compute{};
  LaunchFigures launch;
  std::vector<std::pair<std::string, Nanoseconds>> classes;  // longest first
  std::vector<KernelRow> kernels;                     // longest first
  std::vector<CollectiveRun> collectives;
};

// A trace file without a rank of its own counts from 0 in the order given.
struct RankFigures {
  int64_t rank = 0;
  std::string file;
  std::vector<DeviceFigures> devices;
};

// One device within one step; the step's bounds are the host's marks.
struct StepFigures {
  std::string name;
  int64_t rank = 0, device = 0;
  Nanoseconds span{}, busy{}, compute{}, comm{}, comm_exposed{}, copies{}, copies_exposed{};
  uint64_t events = 0;
};

// Kernels of one leaning against the roofline, in one step of one device.
struct Achieved {
  std::string leaning;
  Nanoseconds time{};          // measured
  double flops = 0, bytes = 0; // of the model
  double flops_rate = 0, bytes_rate = 0;
  double share_of_roof = 0;    // ideal time / measured time
};

// Means over all devices, as shares of their spans; the parts add up to 1.
struct TimeShares {
  double compute = 0, exposed_comm = 0, host_copies = 0, device_copies = 0;
  double host_wait = 0, kernel_wait = 0, other_idle = 0;
};

// One quantity of this run beside the baseline's.
struct RunChange {
  std::string quantity;
  double before = 0, after = 0;
};

struct Comparison {
  std::string source;
  std::optional<std::string> verdict, where;
  std::vector<RunChange> changes;
};

struct Diagnosis {
  std::string source;
  std::optional<std::string> verdict;  // cpu_io, communication, memory, compute, mixed
  std::optional<std::string> where;    // network, host_link
  std::string rule;
  std::vector<std::string> evidence, advice;
  std::optional<double> mfu;
  std::vector<Achieved> achieved;
  std::optional<double> peak, memory_bandwidth;  // roofs of `achieved`
  std::optional<TimeShares> shares;
  std::optional<std::string> steps_from;  // markers, ranges, optimizer
  std::vector<StepFigures> steps;
  std::vector<RankFigures> ranks;
  std::optional<Comparison> baseline;
  std::vector<Diagnostic> warnings;
  bool incomplete = false;  // a trace ended in the middle
  std::optional<double> link_bandwidth;
};

// Reads one trace a rank and says what bound the run. Faults inside a trace are warnings as long as
// something of it can be read.
Result<Diagnosis> diagnose(const std::vector<std::string>& traces, const DiagnoseOptions& options);

template <class F> void fields(F&& field, const IdleTime& t) {
  field("total", t.total, Unit::second, "span without any device event");
  field("host_wait", t.host_wait, Unit::second, "gaps whose next launch came after they began");
  field("kernel_wait", t.kernel_wait, Unit::second, "other gaps below 30 µs");
  field("other", t.other, Unit::second, "the rest: waits for streams, ranks, or launch unknown");
  field("kernel_wait_gaps", t.kernel_wait_gaps, Unit::count, "number of kernel waits");
  field("kernel_wait_median", t.kernel_wait_median, Unit::second, "median kernel wait");
}

template <class F> void fields(F&& field, const CommunicationTime& t) {
  field("total", t.total, Unit::second, "union of collective kernels");
  field("exposed", t.exposed, Unit::second, "part without any compute kernel beside it");
  field("overlapped", t.overlapped, Unit::second, "total - exposed");
  field("share", t.share, Unit::share, "total / span");
}

template <class F> void fields(F&& field, const CopyRow& r) {
  field("kind", r.kind, Unit::none, "direction");
  field("count", r.count, Unit::count, "copies");
  field("time", r.time, Unit::second, "summed time");
  field("bytes", r.bytes, Unit::byte, "summed recorded sizes");
  field("bandwidth", r.bandwidth, Unit::per_second, "bytes / time");
}

template <class F> void fields(F&& field, const CopyTime& t) {
  field("total", t.total, Unit::second, "union of copies and memsets");
  field("exposed", t.exposed, Unit::second, "part beside no kernel");
  field("host_link", t.host_link, Unit::second, "union of copies from and to the host");
  field("host_link_exposed", t.host_link_exposed, Unit::second, "part beside no kernel");
  field("kinds", t.kinds, Unit::none, "by direction");
}

template <class F> void fields(F&& field, const KernelRow& r) {
  field("name", r.name, Unit::none, "kernel, or operator of an ONNX Runtime profile");
  field("class", r.kernel_class, Unit::none, "by the table of names");
  field("count", r.count, Unit::count, "runs");
  field("time", r.time, Unit::second, "summed time");
  field("share", r.share, Unit::share, "of summed device event time");
}

template <class F> void fields(F&& field, const LaunchFigures& l) {
  field("matched", l.matched, Unit::count, "device events whose launch call is known");
  field("unmatched", l.unmatched, Unit::count, "device events without one");
  field("delay_median", l.delay_median, Unit::second, "end of the call to start on the device");
  field("delay_max", l.delay_max, Unit::second, "longest such delay");
  field("shorter_than_their_launch", l.shorter_than_their_launch, Unit::count,
        "device events shorter than their launch call");
  field("before_their_launch", l.before_their_launch, Unit::count,
        "device events that start before their launch call");
}

template <class F> void fields(F&& field, const CollectiveRun& r) {
  field("kind", r.kind, Unit::none, "collective");
  field("ranks", r.ranks, Unit::count, "group size");
  field("bytes", r.bytes, Unit::byte, "size of one call");
  field("count", r.count, Unit::count, "calls");
  field("time", r.time, Unit::second, "summed time");
  field("fastest", r.fastest, Unit::second, "shortest call");
  field("slowest", r.slowest, Unit::second, "longest call");
  field("busbw", r.busbw, Unit::per_second, "bytes/s on the wire, from the mean time");
}

template <class F> void fields(F&& field, const DeviceFigures& d) {
  field("device", d.device, Unit::none, "number of the device in the trace");
  field("name", d.name, Unit::none, "product name");
  field("events", d.events, Unit::count, "kernels, copies and memsets");
  field("span", d.span, Unit::second, "first start to last end");
  field("busy", d.busy, Unit::second, "union of all device events");
  if (d.clipped.count()) field("clipped", d.clipped, Unit::second, "of durations that run over the next event of their stream");
  field("idle", d.idle, Unit::second, "span - busy");
  field("comm", d.comm, Unit::second, "collectives");
  field("copies", d.copies, Unit::second, "copies and memsets");
  field("compute", d.compute, Unit::second, "union of all other kernels");
  field("launch", d.launch, Unit::none, "launch calls");
  field("classes", d.classes, Unit::second, "summed time by class of kernel");
  field("kernels", d.kernels, Unit::none, "by name, longest first");
  field("collectives", d.collectives, Unit::none, "with recorded sizes, by kind and size");
}

template <class F> void fields(F&& field, const RankFigures& r) {
  field("rank", r.rank, Unit::none, "rank of the process");
  field("file", r.file, Unit::none, "its trace");
  field("devices", r.devices, Unit::none, "by device");
}

template <class F> void fields(F&& field, const StepFigures& s) {
  field("name", s.name, Unit::none, "mark of the step");
  field("rank", s.rank, Unit::none, "rank");
  field("device", s.device, Unit::none, "device");
  field("span", s.span, Unit::second, "length of the mark");
  field("busy", s.busy, Unit::second, "union of device events inside");
  field("compute", s.compute, Unit::second, "union of compute kernels inside");
  field("comm", s.comm, Unit::second, "union of collectives inside");
  field("comm_exposed", s.comm_exposed, Unit::second, "part beside no compute kernel");
  field("copies", s.copies, Unit::second, "union of copies and memsets inside");
  field("copies_exposed", s.copies_exposed, Unit::second, "part beside no kernel");
  field("events", s.events, Unit::count, "device events that start inside");
}

template <class F> void fields(F&& field, const Achieved& a) {
  field("leaning", a.leaning, Unit::none, "matrix or memory");
  field("time", a.time, Unit::second, "measured, in one step of one device");
  field("flops", a.flops, Unit::flop, "of the model");
  field("bytes", a.bytes, Unit::byte, "of the model");
  field("flops_rate", a.flops_rate, Unit::per_second, "achieved FLOP/s");
  field("bytes_rate", a.bytes_rate, Unit::per_second, "achieved bytes/s");
  field("share_of_roof", a.share_of_roof, Unit::share, "ideal time / measured time");
}

template <class F> void fields(F&& field, const TimeShares& s) {
  field("compute", s.compute, Unit::share, "compute kernels");
  field("exposed_comm", s.exposed_comm, Unit::share, "collectives beside no compute kernel");
  field("host_copies", s.host_copies, Unit::share, "copies over the host link beside no kernel");
  field("device_copies", s.device_copies, Unit::share, "other copies beside none of these");
  field("host_wait", s.host_wait, Unit::share, "idle, the host had not launched");
  field("kernel_wait", s.kernel_wait, Unit::share, "idle, short gaps between kernels");
  field("other_idle", s.other_idle, Unit::share, "idle for another or an unknown reason");
}

template <class F> void fields(F&& field, const RunChange& c) {
  field("quantity", c.quantity, Unit::none, "what changed");
  field("before", c.before, Unit::none, "in the baseline");
  field("after", c.after, Unit::none, "in this run");
}

template <class F> void fields(F&& field, const Comparison& c) {
  field("source", c.source, Unit::none, "the baseline's trace");
  field("verdict", c.verdict, Unit::none, "the baseline's verdict");
  field("where", c.where, Unit::none, "the baseline's link");
  field("changes", c.changes, Unit::none, "quantities of both");
}

template <class F> void fields(F&& field, const Diagnosis& d) {
  field("source", d.source, Unit::none, "the traces");
  field("verdict", d.verdict, Unit::none, "cpu_io, communication, memory, compute or mixed");
  field("where", d.where, Unit::none, "network or host_link, for communication");
  field("rule", d.rule, Unit::none, "the rule that led to the verdict");
  field("evidence", d.evidence, Unit::none, "what speaks for it");
  field("advice", d.advice, Unit::none, "what to try");
  field("mfu", d.mfu, Unit::share, "model FLOPs utilisation");
  if (!d.achieved.empty()) field("achieved", d.achieved, Unit::none, "kernels against the roofline");
  field("shares", d.shares, Unit::share, "of the span, mean over devices");
  field("steps_from", d.steps_from, Unit::none, "where the steps' bounds come from");
  field("steps", d.steps, Unit::none, "by step, rank and device");
  field("ranks", d.ranks, Unit::none, "by rank");
  field("baseline", d.baseline, Unit::none, "comparison with --baseline");
  field("warnings", d.warnings, Unit::none, "what was lost or is doubtful");
}

}  // namespace roofcast
