#include "time/fit.h"

#include <algorithm>
#include <cmath>

namespace roofcast {
namespace {

// The range in which a constant is looked for.
struct Range {
  const char* name;
  double low, high;
};
constexpr Range ranges[] = {
    {"launch_overhead", 5e-8, 5e-5},     {"memory_overlap", 0.02, 1},        {"contraction_efficiency", 0.05, 1},
    {"convolution_efficiency", 0.05, 1}, {"depthwise_efficiency", 0.01, 1}, {"depthwise_fill", 0.1, 100},
    {"pooling_efficiency", 1e-4, 1},   {"pointwise_efficiency", 1e-4, 1}, {"reduction_efficiency", 1e-4, 1},
    {"softmax_efficiency", 1e-4, 1},   {"normalization_efficiency", 1e-4, 1}, {"movement_bandwidth", 1e8, 1e13},
    {"lookup_bandwidth", 1e8, 1e13},     {"vector_lanes", 1, 32},
};

double loss(const Hardware& hardware, std::span<const TimedProblem> timed) {
  double total = 0;
  for (const TimedProblem& t : timed)
    if (const auto predicted = predict(t.problem, hardware, TimeModel::kernel).predicted) total += std::abs(std::log(*predicted / t.seconds));
  return total;
}

}  // namespace

double fit_kernel_constants(Hardware& hardware, std::span<const TimedProblem> timed, const std::string& fitted_on) {
  for (const Range& r : ranges) hardware.kernel[r.name] = {std::sqrt(r.low * r.high), std::nullopt, fitted_on};
  // One constant at a time, on an ever finer grid: few constants, most of them of one kind of op only.
  constexpr int rounds = 8, grid = 24;
  for (int round = 0; round < rounds; ++round) {
    for (const Range& r : ranges) {
      double& value = hardware.kernel[r.name].value;
      const double span = std::pow(r.high / r.low, round == 0 ? 1 : std::pow(0.5, round));
      const double from = round == 0 ? r.low : std::max(r.low, value / std::sqrt(span));
      const double to = round == 0 ? r.high : std::min(r.high, value * std::sqrt(span));
      double best = value, least = loss(hardware, timed);
      for (int i = 0; i <= grid; ++i) {
        value = from * std::pow(to / from, static_cast<double>(i) / grid);
        if (const double l = loss(hardware, timed); l < least) least = l, best = value;
      }
      value = best;
    }
  }
  std::vector<double> errors;
  for (const TimedProblem& t : timed)
    if (const auto predicted = predict(t.problem, hardware, TimeModel::kernel).predicted) errors.push_back(std::abs(*predicted / t.seconds - 1));
  if (errors.empty()) return 0;
  std::nth_element(errors.begin(), errors.begin() + static_cast<long>(errors.size() / 2), errors.end());
  return errors[errors.size() / 2];
}

}  // namespace roofcast
