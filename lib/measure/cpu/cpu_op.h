// What oneDNN and Eigen give the CPU backend: a thing to run and the memory that it touches.
#pragma once

#include "measure/backend.h"

#include <functional>

namespace roofcast::cpu {

struct CpuOp {
  std::function<void()> run;
  std::vector<std::span<std::byte>> operands;           // all memory that a run reads or writes
  std::function<std::vector<HostTensor>()> read;        // outputs, row-major
};

// Absent: this library does not do the task, or only by its slow reference code.
std::optional<CpuOp> with_onednn(const Task& task, std::span<const HostTensor> inputs);
std::optional<CpuOp> with_eigen(const Task& task, std::span<const HostTensor> inputs);

// Dims of a broadcast merged where neighbours are alike: {rows, n} and {1, n} of [b, s, n] + [n].
struct Broadcast {
  std::vector<int64_t> dims;                    // of the output
  std::vector<std::vector<int64_t>> operands;   // each dim as in `dims`, or 1
};
Broadcast merge_dims(const Task& task);

}  // namespace roofcast::cpu
