#include "time/minimize.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <random>

namespace roofcast {
namespace {

using Vector = std::vector<double>;

void descend(const Loss& loss, Vector& x, double& least, std::span<const Bounds> bounds, int rounds) {
  double step = 0.5;
  for (int round = 0; round < rounds; ++round, step *= 0.6)
    for (size_t i = 0; i < x.size(); ++i)
      for (const double by : {step, -step, step / 3, -step / 3})
        while (true) {
          const double kept = x[i];
          x[i] = std::clamp(kept * std::exp(by), bounds[i].low, bounds[i].high);
          const double l = x[i] == kept ? least : loss(x);
          if (l < least - 1e-7) {
            least = l;
            continue;
          }
          x[i] = kept;
          break;
        }
}

// Lower triangle L with L·Lᵀ = C, rows after one another.
void factorise(const Vector& c, Vector& l, size_t n) {
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j <= i; ++j) {
      double sum = c[i * n + j];
      for (size_t k = 0; k < j; ++k) sum -= l[i * n + k] * l[j * n + k];
      l[i * n + j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / l[j * n + j];
    }
}

class Normal {
public:
  double operator()() {
    auto uniform = [&] { return (static_cast<double>(random_() >> 11) + 0.5) * 0x1p-53; };
    return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform());
  }

private:
  std::mt19937_64 random_{1};
};

void evolve(const Loss& loss, Vector& best, double& least, std::span<const Bounds> bounds, int generations) {
  const size_t n = best.size(), children = 4 + static_cast<size_t>(4 * std::log(static_cast<double>(n))), parents = children / 2;
  const double dims = static_cast<double>(n);
  Vector weight(parents);
  for (size_t i = 0; i < parents; ++i) weight[i] = std::log(static_cast<double>(parents) + 0.5) - std::log(static_cast<double>(i) + 1);
  const double total = std::accumulate(weight.begin(), weight.end(), 0.0);
  double squares = 0;
  for (double& w : weight) w /= total, squares += w * w;
  const double effective = 1 / squares;
  const double cs = (effective + 2) / (dims + effective + 5), damping = 1 + cs, cc = 4 / (dims + 4);
  const double c1 = 2 / ((dims + 1.3) * (dims + 1.3) + effective);
  const double cm = std::min(1 - c1, 2 * (effective - 2 + 1 / effective) / ((dims + 2) * (dims + 2) + effective));
  const double chi = std::sqrt(dims) * (1 - 1 / (4 * dims) + 1 / (21 * dims * dims));

  Normal normal;
  Vector mean(n), covariance(n * n, 0), factor(n * n, 0), path_c(n, 0), path_s(n, 0);
  for (size_t i = 0; i < n; ++i) mean[i] = std::log(best[i]), covariance[i * n + i] = 1;
  double sigma = 0.25;
  struct Child {
    Vector z, y;
    double loss;
  };
  std::vector<Child> all(children, {Vector(n), Vector(n), 0});
  for (int generation = 0; generation < generations; ++generation) {
    factorise(covariance, factor, n);
    for (Child& c : all) {
      Vector x(n);
      double outside = 0;
      for (double& z : c.z) z = normal();
      for (size_t i = 0; i < n; ++i) {
        c.y[i] = 0;
        for (size_t j = 0; j <= i; ++j) c.y[i] += factor[i * n + j] * c.z[j];
        const double wanted = mean[i] + sigma * c.y[i];
        x[i] = std::clamp(std::exp(wanted), bounds[i].low, bounds[i].high);
        outside += (wanted - std::log(x[i])) * (wanted - std::log(x[i]));
      }
      const double l = loss(x);
      c.loss = l * (1 + 1e-2 * outside);
      if (l < least) least = l, best = x;
    }
    std::sort(all.begin(), all.end(), [](const Child& a, const Child& b) { return a.loss < b.loss; });
    Vector y(n, 0), z(n, 0);
    for (size_t p = 0; p < parents; ++p)
      for (size_t i = 0; i < n; ++i) y[i] += weight[p] * all[p].y[i], z[i] += weight[p] * all[p].z[i];
    double length = 0;
    for (size_t i = 0; i < n; ++i) {
      mean[i] += sigma * y[i];
      path_s[i] = (1 - cs) * path_s[i] + std::sqrt(cs * (2 - cs) * effective) * z[i];
      length += path_s[i] * path_s[i];
    }
    length = std::sqrt(length);
    const bool steady = length / std::sqrt(1 - std::pow(1 - cs, 2 * (generation + 1))) < (1.4 + 2 / (dims + 1)) * chi;
    for (size_t i = 0; i < n; ++i) path_c[i] = (1 - cc) * path_c[i] + (steady ? std::sqrt(cc * (2 - cc) * effective) * y[i] : 0);
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j <= i; ++j) {
        double spread = 0;
        for (size_t p = 0; p < parents; ++p) spread += weight[p] * all[p].y[i] * all[p].y[j];
        covariance[i * n + j] = covariance[j * n + i] = (1 - c1 - cm) * covariance[i * n + j] + c1 * path_c[i] * path_c[j] + cm * spread;
      }
    sigma *= std::exp(cs / damping * (length / chi - 1));
  }
}

}  // namespace

std::vector<double> minimize(const Loss& loss, std::vector<double> start, std::span<const Bounds> bounds, int generations, int starts) {
  std::vector<double> best;
  double least_of_all = 0;
  Normal normal;
  for (int s = 0; s < std::max(1, starts) && !start.empty(); ++s) {
    std::vector<double> x = start;
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::clamp(s == 0 ? x[i] : x[i] * std::exp(normal()), bounds[i].low, bounds[i].high);
    double least = loss(x);
    descend(loss, x, least, bounds, 3);
    if (generations > 0) {
      evolve(loss, x, least, bounds, generations);
      descend(loss, x, least, bounds, 2);
    }
    if (s == 0 || least < least_of_all) least_of_all = least, best = std::move(x);
  }
  return best;
}

}  // namespace roofcast
