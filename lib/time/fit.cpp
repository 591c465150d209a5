#include "time/fit.h"

#include <algorithm>
#include <cmath>

namespace roofcast {

void fit_constants(KernelConstants& constants, std::span<const KernelConstant* const> which,
                   const std::function<double(const KernelConstants&)>& loss, bool fresh) {
  if (fresh)
    for (const KernelConstant* c : which) constants.*c->member = std::sqrt(c->low * c->high);
  constexpr int rounds = 8, grid = 24;
  double least = loss(constants);
  for (int round = 0; round < rounds; ++round) {
    for (const KernelConstant* c : which) {
      double& value = constants.*c->member;
      const bool all = fresh && round == 0;
      const double half = std::sqrt(std::pow(c->high / c->low, all ? 1 : std::pow(0.5, round + (fresh ? 0 : 1))));
      const double from = all ? c->low : std::max(c->low, value / half), to = all ? c->high : std::min(c->high, value * half);
      double best = value;
      for (int i = 0; i <= grid; ++i) {
        value = from * std::pow(to / from, static_cast<double>(i) / grid);
        if (const double l = loss(constants); l < least) least = l, best = value;
      }
      value = best;
    }
  }
}

double fit_cpu_constants(Hardware& hardware, std::span<const TimedProblem> timed, const std::string& fitted_on) {
  std::vector<const KernelConstant*> which;
  for (const KernelConstant& c : kernel_constant_table())
    if (c.use == ConstantUse::cpu || c.name == "launch_overhead") which.push_back(&c);
  auto set = [&](const KernelConstants& constants) {
    for (const KernelConstant* c : which) hardware.kernel[std::string(c->name)] = {constants.*c->member, std::nullopt, fitted_on};
  };
  auto loss = [&](const KernelConstants& constants) {
    set(constants);
    double total = 0;
    for (const TimedProblem& t : timed)
      if (const auto predicted = predict(t.problem, hardware, TimeModel::kernel).predicted) total += std::abs(std::log(*predicted / t.seconds));
    return total;
  };
  KernelConstants constants;
  fit_constants(constants, which, loss, true);
  set(constants);
  std::vector<double> errors;
  for (const TimedProblem& t : timed)
    if (const auto predicted = predict(t.problem, hardware, TimeModel::kernel).predicted) errors.push_back(std::abs(*predicted / t.seconds - 1));
  if (errors.empty()) return 0;
  std::nth_element(errors.begin(), errors.begin() + static_cast<long>(errors.size() / 2), errors.end());
  return errors[errors.size() / 2];
}

}  // namespace roofcast
