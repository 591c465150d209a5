// Convolutions.
#include "time/kernel/kernel.h"

#include "support/units.h"

#include <algorithm>

namespace roofcast {

Kernel convolution_time(const ConvShape& s, const KernelDevice& d, Explanation* explanation) {
  Kernel k;
  const double flops = 2 * s.batch * s.groups * s.channels * s.filters * s.out_points * s.taps;
  const double bytes = s.groups * (s.batch * (s.channels * s.image_points + s.filters * s.out_points) + s.filters * s.channels * s.taps) * s.bits / 8;
  k.overhead = d.c.launch_overhead;
  k.compute = flops / d.matrix(s.math);
  k.memory = bytes / d.memory_rate;
  k.seconds = k.overhead + std::max(k.compute, k.memory);
  if (explanation) {
    explanation->push_back({"launch", k.overhead, "start of a kernel"});
    explanation->push_back({"matrix", k.compute, format_flops(flops)});
    explanation->push_back({"memory", k.memory, format_bytes(bytes)});
  }
  return k;
}

}  // namespace roofcast
