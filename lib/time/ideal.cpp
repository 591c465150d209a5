#include "time/time.h"

#include "support/units.h"

#include <algorithm>

namespace roofcast {

Time roofline(const Problem& problem, const Hardware& hardware, Explanation* explanation) {
  Time time;
  if (!problem.has_work()) {
    time.math = time.hbm = time.net = time.ideal = time.predicted = 0;
    return time;
  }
  auto part = [&](double amount, std::optional<double> rate, std::string_view what, const char* unit) -> std::optional<double> {
    if (amount == 0) return 0;
    if (!rate) {
      time.missing = what;
      return std::nullopt;
    }
    if (explanation) explanation->push_back({std::string(what), amount / *rate, format_quantity(amount, unit) + " at " + format_rate(*rate, unit)});
    return amount / *rate;
  };
  const auto matrix = part(problem.matrix_flops, matrix_rate(hardware, problem.math), "matrix peak", "FLOP");
  const auto vector = part(problem.vector_flops, vector_rate(hardware, problem.math), "vector peak", "FLOP");
  if (matrix && vector) time.math = std::max(*matrix, *vector);
  time.hbm = part(problem.bytes_read + problem.bytes_written, memory_bandwidth(hardware), "memory bandwidth", "B");
  time.net = 0;
  if (!time.math || !time.hbm) return time;
  time.ideal = std::max({*time.math, *time.hbm, *time.net});
  time.bound = *time.math == *time.ideal ? Bound::compute : *time.hbm == *time.ideal ? Bound::memory : Bound::communication;
  time.predicted = time.ideal;
  return time;
}

}  // namespace roofcast
