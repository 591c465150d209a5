// The kernel model of CPUs: time = overhead + max(math, memory) + the part of the lesser that the greater
// does not hide.
//
//   math     FLOPs / (peak × the share of it that kernels of this kind reach). A depthwise convolution
//            reuses nothing, so its share falls with few taps: taps / (taps + fill). Convolutions work on
//            whole vectors of channels: sizes are rounded up to lanes.
//   memory   bytes / bandwidth of the main memory, or of the cache that operands lie in; what moves in small pieces also passes the core at a
//            rate of its own.
//
// Constants are measured by `roofcast calibrate` (lib/api/calibrate.cpp); one that is absent has no effect.
#include "time/time.h"

#include "support/units.h"

#include <algorithm>
#include <cmath>

namespace roofcast {
namespace {

// How much more a convolution computes than it must because channels fill whole vectors.
double padding(const Problem& p, double lanes) {
  double more = 1;
  auto pad = [&](int64_t size) { more *= std::ceil(static_cast<double>(size) / lanes) * lanes / static_cast<double>(size); };
  for (const FactorSize& f : p.factors) {
    const bool in_image = f.operands & 1, in_weights = f.operands & 2;
    // Channels of the output: of weights and output alone. Few channels in, as of a picture, are not padded.
    if (f.role == Role::pass && in_weights && !in_image) pad(f.size);
    if (f.role == Role::reduce && in_weights && in_image && static_cast<double>(f.size) > lanes / 2) pad(f.size);
  }
  return more;
}

// Seconds that the operands take from where they lie: a cache, if it holds what is cached, or main memory.
double memory_time(const Problem& p, const Hardware& hardware) {
  const double rate = memory_bandwidth(hardware).value_or(1e300), all = p.bytes_read + p.bytes_written;
  for (const char* level : {"l2", "llc"}) {
    const auto at = hardware.memory.find(level);
    if (p.cached_bytes == 0 || at == hardware.memory.end() || !at->second.capacity || !at->second.bandwidth) continue;
    if (p.cached_bytes <= at->second.capacity->value) return p.cached_bytes / at->second.bandwidth->value + (all - p.cached_bytes) / rate;
  }
  return all / rate;
}

std::string_view efficiency_name(const Problem& p, bool depthwise, bool windows) {
  switch (p.kind) {
  case Kind::contraction: case Kind::attention: case Kind::recurrent: case Kind::moe: return "contraction_efficiency";
  case Kind::convolution: return depthwise ? "depthwise_efficiency" : "convolution_efficiency";
  case Kind::pooling: return windows ? "pooling_efficiency" : "pointwise_efficiency";
  case Kind::reduction: return "reduction_efficiency";
  case Kind::softmax: return "softmax_efficiency";
  case Kind::normalization: return "normalization_efficiency";
  default: return "pointwise_efficiency";
  }
}

}  // namespace

Time cpu_kernel(const Problem& problem, const Hardware& hardware, Explanation* explanation) {
  Time time = roofline(problem, hardware);
  if (!time.ideal || !problem.has_work()) return time;
  auto share = [&](std::string_view name, double otherwise) { return constant(hardware, std::string(name)).value_or(otherwise); };

  bool reduces = false, windows = false;
  double taps = 1;
  for (const FactorSize& f : problem.factors) {
    if (f.role == Role::reduce && f.size > 1) reduces = true;
    if (f.role == Role::window) windows = true, taps *= static_cast<double>(f.size);
  }
  const bool depthwise = problem.kind == Kind::convolution && !reduces;
  const std::string_view efficiency = efficiency_name(problem, depthwise, windows);
  double reached = share(efficiency, 1);
  if (depthwise) reached *= taps / (taps + share("depthwise_fill", 0));
  if (problem.kind == Kind::convolution && !depthwise) reached /= padding(problem, std::round(share("vector_lanes", 1)));
  const double math = *time.math / reached;

  const double bytes = problem.bytes_read + problem.bytes_written;
  const double memory = memory_time(problem, hardware);
  const bool moves = problem.kind == Kind::movement || problem.kind == Kind::lookup;
  const double through = moves ? bytes / share(problem.kind == Kind::movement ? "movement_bandwidth" : "lookup_bandwidth", 1e30) : 0;
  const double core = std::max(math, through);

  const double hidden = share("memory_overlap", 1);
  const double lesser = (1 - hidden) * std::min(core, memory);
  const double overhead = share("launch_overhead", 0);
  time.predicted = overhead + std::max(core, memory) + lesser;
  if (overhead > std::max(core, memory)) time.bound = Bound::overhead;
  if (!explanation) return time;
  auto add = [&](std::string name, double seconds, std::string why) {
    if (seconds > 0) explanation->push_back({std::move(name), seconds, std::move(why)});
  };
  add("overhead", overhead, "start of an op");
  add("math", math, std::string(efficiency) + " " + format_share(reached) + " of the peak");
  add("moving", through, "pieces pass the core");
  add("memory", memory, format_bytes(bytes) + " from and to where the operands lie");
  add("not overlapped", lesser, format_share(1 - hidden) + " of the lesser");
  return time;
}

}  // namespace roofcast
