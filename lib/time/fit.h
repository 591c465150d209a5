// Constants of the kernel model from measured times.
#pragma once

#include "hw/kernel_constants.h"
#include "time/time.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace roofcast {

// Searches the named constants for the least `loss`, one at a time on an ever finer grid; few constants,
// most of them of one kind of op only. `fresh`: from the middle of their ranges, else from where they are.
void fit_constants(KernelConstants& constants, std::span<const KernelConstant* const> which,
                   const std::function<double(const KernelConstants&)>& loss, bool fresh);

struct TimedProblem {
  Problem problem;
  double seconds = 0;
};

// The constants of a CPU that give the least sum of |log(predicted / measured)|; they get `fitted_on`.
// Returns the median of |predicted − measured| / measured.
double fit_cpu_constants(Hardware& hardware, std::span<const TimedProblem> timed, const std::string& fitted_on);

}  // namespace roofcast
