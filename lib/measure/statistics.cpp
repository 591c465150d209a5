#include "measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace roofcast {

double percentile(std::vector<double> samples, double share) {
  if (samples.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(samples.begin(), samples.end());
  const double at = share * static_cast<double>(samples.size() - 1);
  const size_t below = static_cast<size_t>(at), above = std::min(below + 1, samples.size() - 1);
  return samples[below] + (at - static_cast<double>(below)) * (samples[above] - samples[below]);
}

double median(std::vector<double> samples) { return percentile(std::move(samples), 0.5); }

double spread(const std::vector<double>& samples) {
  return (percentile(samples, 0.75) - percentile(samples, 0.25)) / 2 / median(samples);
}

namespace {

double pairs_of(double n) { return n * (n - 1) / 2; }

// Pairs of one value within runs of equal ones; `values` is sorted.
template <class Equal> double tied_pairs(size_t n, Equal&& equal) {
  double tied = 0;
  for (size_t from = 0, to; from < n; from = to) {
    for (to = from + 1; to < n && equal(from, to);) ++to;
    tied += pairs_of(static_cast<double>(to - from));
  }
  return tied;
}

// Sorts by merging; returns how many pairs stood in the wrong order.
double sort_and_count(std::vector<double>& v, std::vector<double>& space, size_t from, size_t to) {
  if (to - from < 2) return 0;
  const size_t middle = from + (to - from) / 2;
  double swaps = sort_and_count(v, space, from, middle) + sort_and_count(v, space, middle, to);
  for (size_t i = from, j = middle, k = from; k < to; ++k) {
    if (j == to || (i < middle && v[i] <= v[j])) space[k] = v[i++];
    else space[k] = v[j++], swaps += static_cast<double>(middle - i);
  }
  std::copy(space.begin() + static_cast<long>(from), space.begin() + static_cast<long>(to), v.begin() + static_cast<long>(from));
  return swaps;
}

}  // namespace

// W. R. Knight, "A computer method for calculating Kendall's tau with ungrouped data", JASA 61, 1966.
double kendall_tau(std::span<const std::pair<double, double>> pairs) {
  std::vector<std::pair<double, double>> sorted(pairs.begin(), pairs.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t n = sorted.size();
  const double both = tied_pairs(n, [&](size_t i, size_t j) { return sorted[i] == sorted[j]; });
  const double first = tied_pairs(n, [&](size_t i, size_t j) { return sorted[i].first == sorted[j].first; });
  std::vector<double> second, space(n);
  for (const auto& [x, y] : sorted) second.push_back(y);
  const double swaps = sort_and_count(second, space, 0, n);
  const double same_second = tied_pairs(n, [&](size_t i, size_t j) { return second[i] == second[j]; });
  const double all = pairs_of(static_cast<double>(n)), untied = (all - first) * (all - same_second);
  if (untied <= 0) return std::numeric_limits<double>::quiet_NaN();
  return (all - first - same_second + both - 2 * swaps) / std::sqrt(untied);
}

}  // namespace roofcast
