// The least of a function of a few positive numbers, each within bounds; no derivatives.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace roofcast {

using Loss = std::function<double(std::span<const double>)>;

struct Bounds {
  double low, high;
};

// Steps along one coordinate at a time, then an evolution strategy that adapts its covariance
// (N. Hansen, "The CMA Evolution Strategy: A Tutorial", arXiv 1604.00772), both on logarithms.
// `generations` of the latter; 0: none. The same call gives the same result.
std::vector<double> minimize(const Loss& loss, std::vector<double> start, std::span<const Bounds> bounds, int generations, int starts = 1);

}  // namespace roofcast
