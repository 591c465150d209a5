// Fused attention.
#include "time/kernel/kernel.h"

#include "support/units.h"

#include <algorithm>

namespace roofcast {

Kernel attention_time(const AttentionShape& s, const KernelDevice& d, Explanation* explanation) {
  Kernel k;
  const double rows = s.batch * s.kv_heads * s.group * s.queries;
  const double bytes = s.kv_bytes + rows * (s.head + s.value_head) * s.bits / 8;
  k.overhead = d.c.launch_overhead;
  k.compute = s.flops / d.matrix(s.math);
  k.memory = bytes / d.memory_rate;
  k.seconds = k.overhead + std::max(k.compute, k.memory);
  if (explanation) {
    explanation->push_back({"launch", k.overhead, "start of a kernel"});
    explanation->push_back({"matrix", k.compute, format_flops(s.flops)});
    explanation->push_back({"memory", k.memory, format_bytes(bytes)});
  }
  return k;
}

}  // namespace roofcast
