// Constants of the kernel model from measured times.
#pragma once

#include "time/time.h"

#include <span>
#include <string>
#include <vector>

namespace roofcast {

struct TimedProblem {
  Problem problem;
  double seconds = 0;
};

// Chooses the constants of `hardware.kernel` that give the least sum of |log(predicted / measured)|; they
// get `fitted_on`. Returns the median of |predicted − measured| / measured.
double fit_kernel_constants(Hardware& hardware, std::span<const TimedProblem> timed, const std::string& fitted_on);

}  // namespace roofcast
