// Kernels that pass over their operands once.
#include "time/kernel/kernel.h"

#include "support/units.h"

#include <algorithm>

namespace roofcast {

Kernel stream_time(const StreamShape& s, const KernelDevice& d, Explanation* explanation) {
  Kernel k;
  const double bytes = s.bytes_read + s.bytes_written;
  k.overhead = d.c.launch_overhead;
  k.compute = s.flops > 0 ? s.flops / d.vector(s.math) : 0;
  k.memory = bytes / d.memory_rate;
  k.seconds = k.overhead + std::max(k.compute, k.memory);
  if (explanation) {
    explanation->push_back({"launch", k.overhead, "start of a kernel"});
    explanation->push_back({"vector", k.compute, format_flops(s.flops)});
    explanation->push_back({"memory", k.memory, format_bytes(bytes)});
  }
  return k;
}

}  // namespace roofcast
