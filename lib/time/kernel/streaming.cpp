// Kernels that pass over their operands, line by line: pointwise, reduction, softmax, normalization,
// movement, lookups.
//
//   time = launch + call + max4(lines, memory)
//   lines   of one core: (line + bytes / rate) · lines / cores, or FLOPs / vector peak if that is longer
//   memory  what L2 does not hold over the memory bandwidth, reading and writing by their own share;
//           what it holds over L2's
//
// Lines that are passed over again come from L2 or main memory once the lines in flight outgrow L2.
// Softmax keeps a line of up to 1024 elements in registers: PyTorch, aten/src/ATen/native/cuda/
// PersistentSoftmax.cuh. Bandwidth against size: J. D. McCalpin, "STREAM", cs.virginia.edu/stream.
#include "time/kernel/kernel.h"

#include "support/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace roofcast {
namespace {

constexpr double line_in_registers = 1024;  // elements
constexpr double block_of_threads = 1024;   // elements of a pointwise kernel's block

const LineConstants& constants_of(const StreamShape& s, const KernelDevice& d) {
  switch (s.kind) {
  case Kind::softmax: return s.cols > line_in_registers ? d.c.long_softmax : d.c.softmax;
  case Kind::normalization: case Kind::reduction: return d.c.normalization;
  default: return s.narrows ? d.c.quantize : s.gated ? d.c.gated : d.c.pointwise;
  }
}

}  // namespace

Kernel stream_time(const StreamShape& s, const KernelDevice& d, Explanation* explanation) {
  const LineConstants& c = constants_of(s, d);
  const double bytes = s.bytes_read + s.bytes_written, core_clocks = d.cores * d.clock;
  double again = 0;
  if (c.again > 0 && s.rows > 0) {
    const double in_flight = std::min(s.rows, d.cores * c.resident) * s.bytes_read / s.rows;
    again = c.again * s.bytes_read * std::min(1.0, std::max(0.0, 2 * in_flight / (d.l2_bytes * c.cache) - 1));
  }
  const double share = d.left_stream(bytes / c.cache);
  const double dram = (share * (s.bytes_read / d.c.stream_read + s.bytes_written / d.c.stream_write) + again / d.c.stream_read) / d.memory_rate;
  const bool by_line = s.gated || s.narrows || s.kind == Kind::softmax || s.kind == Kind::normalization || s.kind == Kind::reduction;
  const double lines = by_line ? s.rows : s.rows * s.cols / std::max(s.cols, block_of_threads);
  Kernel k;
  k.overhead = d.c.launch_overhead + c.call;
  const double math = s.flops > 0 ? s.flops / (d.vector(s.math) * c.flops) : 0;
  k.compute = std::max(lines * c.line / d.cores + bytes / (c.rate * core_clocks), math);
  k.memory = overlapped(dram, bytes / (d.c.stream_l2_rate * core_clocks));
  const double seconds = overlapped(k.compute, k.memory);
  k.seconds = k.overhead + seconds;
  if (explanation) {
    auto add = [&](const char* name, double t, std::string why) { explanation->push_back({name, t, std::move(why)}); };
    add("launch", k.overhead, "start of a kernel");
    add("lines", k.compute, fmt::format("{:g} lines on {:g} cores, {}", lines, d.cores, format_flops(s.flops)));
    add("memory", k.memory, format_bytes(share * bytes) + " of " + format_bytes(bytes) + " beyond L2" + (again > 0 ? ", " + format_bytes(again) + " again" : ""));
    add("not hidden", seconds - std::max(k.compute, k.memory), "seams of compute and memory");
  }
  return k;
}

}  // namespace roofcast
