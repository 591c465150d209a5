// Matrix products.
#include "time/kernel/kernel.h"

#include "support/units.h"

#include <algorithm>

namespace roofcast {

Kernel gemm_time(const GemmShape& s, const KernelDevice& d, Explanation* explanation) {
  Kernel k;
  const double flops = 2 * s.batch * s.m * s.n * s.k;
  const double bytes = s.batch * (s.m * s.k * s.a_bits + s.k * s.n * s.b_bits + s.m * s.n * s.c_bits) / 8;
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
