// Where comparisons of symbolic amounts flip.
#pragma once

#include "ir/expr.h"

#include <optional>
#include <vector>

namespace roofcast {

// Coefficients by rising power.
using Polynomial = std::vector<double>;

// `e` as a polynomial in one symbol, all others bound by `values`; absent if the symbol stands inside a
// quotient, minimum or maximum, or its power passes 8.
std::optional<Polynomial> polynomial_in(Expr e, SymbolId symbol, const Bindings& values);

Polynomial operator-(const Polynomial& a, const Polynomial& b);
Polynomial scaled(const Polynomial& p, double by);
double value_at(const Polynomial& p, double x);

// Integers of [from, to] around which the polynomial may change its sign, sorted: each real root's
// neighbours. Roots are isolated by those of the derivatives, so none is missed.
std::vector<int64_t> sign_changes(const Polynomial& p, int64_t from, int64_t to);

}  // namespace roofcast
