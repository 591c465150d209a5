#include "measure/statistics.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace roofcast {

TEST_CASE("medians and percentiles interpolate", "[measure]") {
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 2, 3}) == 2.5);
  CHECK(percentile({0, 10}, 0.9) == Approx(9));
  CHECK(spread({1, 1, 1, 1}) == 0);
  CHECK(spread({8, 9, 10, 11, 12}) == Approx(0.1));  // quartiles 9 and 11
}

TEST_CASE("Kendall's tau counts pairs in order", "[measure]") {
  using Pairs = std::vector<std::pair<double, double>>;
  CHECK(kendall_tau(Pairs{{1, 10}, {2, 20}, {3, 30}}) == 1);
  CHECK(kendall_tau(Pairs{{1, 30}, {2, 20}, {3, 10}}) == -1);
  CHECK(kendall_tau(Pairs{{1, 10}, {2, 30}, {3, 20}}) == Approx(1.0 / 3));       // two agree, one does not
  CHECK(kendall_tau(Pairs{{1, 10}, {1, 20}, {2, 30}}) == Approx(2 / std::sqrt(6.0)));  // a tie on one side
  CHECK(std::isnan(kendall_tau(Pairs{{1, 1}})));
}

}  // namespace roofcast
