// An expression's text, read again, is the same expression.
#include "ir/expr.h"

#include <catch2/catch.hpp>

#include <random>

using namespace roofcast;

TEST_CASE("expressions print what parses to them", "[ir]") {
  ExprPool pool;
  std::mt19937 engine(1);
  const auto below = [&](size_t n) { return engine() % n; };
  const auto random = [&](auto&& self, int depth) -> Expr {
    if (depth == 0 || below(5) == 0)
      return below(3) ? pool.symbol(std::string(1, static_cast<char>('a' + below(3))))
                      : Expr(static_cast<int64_t>(below(7)) - 2);
    const Expr a = self(self, depth - 1), b = self(self, depth - 1);
    switch (below(6)) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    case 3: return floor_div(a, static_cast<int64_t>(below(4)) + 1);
    case 4: return min(a, b);
    default: return max(a, b);
    }
  };
  for (int round = 0; round < 5000; ++round) {
    const Expr e = random(random, 4);
    const auto again = parse_expr(e.text(), pool, SymbolOrigin::input_dim);
    INFO(e.text());
    REQUIRE(again.has_value());
    CHECK(*again == e);
  }
}
