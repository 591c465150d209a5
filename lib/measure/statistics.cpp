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

double kendall_tau(std::span<const std::pair<double, double>> pairs) {
  double agree = 0, first = 0, second = 0;
  for (size_t i = 0; i < pairs.size(); ++i)
    for (size_t j = i + 1; j < pairs.size(); ++j) {
      const double a = pairs[i].first - pairs[j].first, b = pairs[i].second - pairs[j].second;
      first += a != 0, second += b != 0;
      agree += (a > 0) == (b > 0) && (a < 0) == (b < 0) ? a != 0 : -(a != 0 && b != 0);
    }
  return first > 0 && second > 0 ? agree / std::sqrt(first * second) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace roofcast
