// cuBLASLt and cuDNN behind plain functions: a plan is made once, then launched.
#pragma once

#include "measure/device.h"
#include "measure/task.h"

#include <cuda_runtime.h>

#include <functional>
#include <optional>
#include <vector>

namespace roofcast::cuda {

using Launch = std::function<void()>;

// Empty: the library does not do it for these types or sizes. `memory` keeps workspaces.
Launch plan_product(const DeviceTable&, cudaStream_t, const Task&, const std::vector<void*>& in, void* out, std::vector<DeviceBuffer>& memory);

// Operands lie channels-last: dims are the task's, the channels of one position are neighbours. A bias is
// part of the graph.
Launch plan_convolution(const DeviceTable&, cudaStream_t, const Task&, const std::vector<void*>& in, void* out, std::vector<DeviceBuffer>& memory);

}  // namespace roofcast::cuda
