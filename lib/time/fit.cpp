#include "time/fit.h"

#include "time/minimize.h"

#include <algorithm>
#include <cmath>

namespace roofcast {

namespace {

// One constant at a time on an ever finer grid: most of them act on one kind of op only.
void search_grid(KernelConstants& constants, std::span<const KernelConstant* const> which,
                 const std::function<double(const KernelConstants&)>& loss) {
  for (const KernelConstant* c : which) c->of(constants) = std::sqrt(c->low * c->high);
  constexpr int rounds = 8, grid = 24;
  double least = loss(constants);
  for (int round = 0; round < rounds; ++round) {
    for (const KernelConstant* c : which) {
      double& value = c->of(constants);
      const bool all = round == 0;
      const double half = std::sqrt(std::pow(c->high / c->low, all ? 1 : std::pow(0.5, round)));
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

}  // namespace

void fit_constants(KernelConstants& constants, std::span<const KernelConstant* const> which,
                   const std::function<double(const KernelConstants&)>& loss, int generations, int starts) {
  std::vector<double> start;
  std::vector<Bounds> bounds;
  for (const KernelConstant* c : which) start.push_back(c->of(constants)), bounds.push_back({c->low, c->high});
  auto set = [&](KernelConstants& to, std::span<const double> values) {
    for (size_t i = 0; i < which.size(); ++i) which[i]->of(to) = values[i];
  };
  set(constants, minimize([&](std::span<const double> values) {
    KernelConstants tried = constants;
    set(tried, values);
    return loss(tried);
  }, std::move(start), bounds, generations, starts));
}

double fit_cpu_constants(Hardware& hardware, std::span<const TimedProblem> timed, const std::string& fitted_on) {
  std::vector<const KernelConstant*> which;
  for (const KernelConstant& c : kernel_constant_table())
    if (c.use == ConstantUse::cpu || c.name == "launch_overhead") which.push_back(&c);
  auto set = [&](const KernelConstants& constants) {
    for (const KernelConstant* c : which) hardware.kernel[std::string(c->name)] = {c->of(constants), std::nullopt, fitted_on};
  };
  auto loss = [&](const KernelConstants& constants) {
    set(constants);
    double total = 0;
    for (const TimedProblem& t : timed)
      if (const auto predicted = predict(t.problem, hardware, TimeModel::kernel).predicted) total += std::abs(std::log(*predicted / t.seconds));
    return total;
  };
  KernelConstants constants;
  search_grid(constants, which, loss);
  set(constants);
  std::vector<double> errors;
  for (const TimedProblem& t : timed)
    if (const auto predicted = predict(t.problem, hardware, TimeModel::kernel).predicted) errors.push_back(std::abs(*predicted / t.seconds - 1));
  if (errors.empty()) return 0;
  std::nth_element(errors.begin(), errors.begin() + static_cast<long>(errors.size() / 2), errors.end());
  return errors[errors.size() / 2];
}

}  // namespace roofcast
