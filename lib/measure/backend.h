// Backends: what runs a Task and times it.
//
//   Result<std::unique_ptr<Backend>> cpu = make_cpu_backend(1);      code device-missing if this build has none
//   auto op = (*cpu)->prepare(task, random_inputs(task));            code op-not-run, with the reason
//   std::vector<double> seconds = (*op)->time({.runs = 15, .cold = true});
#pragma once

#include "measure/task.h"
#include "roofcast/result.h"

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace roofcast {

struct RunOptions {
  int runs = 15;
  bool cold = true;                            // operands in no cache before each run
  double least_s = 0.01;                       // all runs together take at least this long
  double most_s = 1;                           // and no more runs begin after this
  const std::atomic<bool>* stop = nullptr;     // set: end early
};

// An op with its data in place.
class PreparedOp {
public:
  virtual ~PreparedOp() = default;
  virtual std::vector<double> time(const RunOptions& options) = 0;  // seconds of each run, warm-up left out
  virtual std::vector<HostTensor> outputs() = 0;                    // of one more run
};

class Backend {
public:
  virtual ~Backend() = default;
  virtual std::string device() const = 0;      // "AMD EPYC, 1 thread"
  virtual double free_memory() const = 0;      // bytes
  // One-time work (weights reordered, algorithms chosen) is done here and is not timed.
  virtual Result<std::unique_ptr<PreparedOp>> prepare(const Task& task, std::span<const HostTensor> inputs) = 0;
  // What may disturb the times: clocks, heat, other load; empty if nothing is known.
  virtual std::string note() const { return {}; }
};

Result<std::unique_ptr<Backend>> make_cpu_backend(int threads);
Result<std::unique_ptr<Backend>> make_cuda_backend();

// Refuses what does not fit in free memory, makes inputs and prepares; failures are Diagnostics.
Result<std::unique_ptr<PreparedOp>> prepare(Backend& backend, const Task& task);

}  // namespace roofcast
