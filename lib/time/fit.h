// Constants of the kernel model from measured times.
#pragma once

#include "hw/kernel_constants.h"
#include "time/time.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace roofcast {

// Searches the constants in `which` for the least `loss`, from where they are and from `starts` − 1 places about.
void fit_constants(KernelConstants& constants, std::span<const KernelConstant* const> which,
                   const std::function<double(const KernelConstants&)>& loss, int generations, int starts);

struct TimedProblem {
  Problem problem;
  double seconds = 0;
};

// The constants of a CPU that give the least sum of |log(predicted / measured)|; they get `fitted_on`.
// Returns the median of |predicted − measured| / measured.
double fit_cpu_constants(Hardware& hardware, std::span<const TimedProblem> timed, const std::string& fitted_on);

}  // namespace roofcast
