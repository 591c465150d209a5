#include "time/kernel/kernel.h"

#include <algorithm>

namespace roofcast {

KernelDevice::KernelDevice(const Hardware& hardware) : c(kernel_constants(hardware)) {
  for (int i = 1; i < types; ++i) {
    const MathType type = static_cast<MathType>(i);
    matrix_peak[i] = matrix_rate(hardware, type).value_or(0);
    vector_peak[i] = vector_rate(hardware, type).value_or(0);
    matrix_unit[i] = hardware.matrix_peak.contains(std::string(name(type)));
  }
  memory_rate = memory_bandwidth(hardware).value_or(0);
  l2_bytes = cache_capacity(hardware).value_or(1);
  cores = std::max(1.0, constant(hardware, "cores").value_or(1));
  clock = constant(hardware, "clock").value_or(1e9);
  known = !hardware.kernel.empty();
}

}  // namespace roofcast
