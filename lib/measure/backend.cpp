#include "measure/backend.h"

#include "support/diagnostic.h"
#include "support/units.h"

#include <new>

namespace roofcast {

#ifndef ROOFCAST_CPU
Result<std::unique_ptr<Backend>> make_cpu_backend(int) {
  return error("device-missing", "this build runs no ops on the CPU", {}, "install oneDNN and Eigen (libdnnl-dev, libeigen3-dev), configure again and build");
}
#endif
#ifndef ROOFCAST_CUDA
Result<std::unique_ptr<Backend>> make_cuda_backend() {
  return error("device-missing", "this build runs no ops on CUDA devices", {}, "build the cuda preset on a machine with nvcc");
}
#endif

Result<std::unique_ptr<PreparedOp>> prepare(Backend& backend, const Task& task) {
  // Host copy, the backend's own, and perhaps one in another layout.
  constexpr double copies = 3;
  const double need = copies * task.bytes(), have = backend.free_memory();
  if (need > have)
    return error("op-not-run", "it takes " + format_bytes(need) + " and " + format_bytes(have) + " are free");
  try {
    return backend.prepare(task, random_inputs(task));
  } catch (const std::bad_alloc&) {
    return error("op-not-run", "out of memory");
  }
}

}  // namespace roofcast
