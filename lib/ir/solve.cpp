#include "ir/solve.h"

#include <algorithm>
#include <cmath>

namespace roofcast {
namespace {

constexpr size_t most_powers = 9;

Polynomial multiply(const Polynomial& a, const Polynomial& b) {
  Polynomial out(a.size() + b.size() - 1, 0.0);
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < b.size(); ++j) out[i + j] += a[i] * b[j];
  return out;
}

std::optional<Polynomial> walk(Expr e, SymbolId symbol, const Bindings& values) {
  if (e.is_constant()) return Polynomial{static_cast<double>(e.constant())};
  const ExprNode* n = e.node();
  if (!n) return std::nullopt;
  std::vector<SymbolId> symbols;
  collect_symbols(e, symbols);
  if (std::find(symbols.begin(), symbols.end(), symbol) == symbols.end()) {
    const auto v = evaluate_real(e, values);
    return v ? std::optional(Polynomial{*v}) : std::nullopt;
  }
  switch (n->kind) {
  case ExprKind::symbol: return Polynomial{0, 1};
  case ExprKind::sum: {
    Polynomial total{static_cast<double>(n->constant)};
    for (const ExprTerm& t : n->terms) {
      const auto p = walk(t.monomial, symbol, values);
      if (!p) return std::nullopt;
      if (p->size() > total.size()) total.resize(p->size());
      for (size_t i = 0; i < p->size(); ++i) total[i] += (*p)[i] * static_cast<double>(t.coefficient);
    }
    return total;
  }
  case ExprKind::product: {
    Polynomial total{1};
    for (Expr a : n->args) {
      const auto p = walk(a, symbol, values);
      if (!p || total.size() + p->size() > most_powers + 1) return std::nullopt;
      total = multiply(total, *p);
    }
    return total;
  }
  default: return std::nullopt;
  }
}

// Real roots in [from, to], by bisection between the derivative's.
std::vector<double> roots(Polynomial p, double from, double to) {
  while (!p.empty() && p.back() == 0) p.pop_back();
  if (p.size() < 2) return {};
  if (p.size() == 2) {
    const double root = -p[0] / p[1];
    return root >= from && root <= to ? std::vector{root} : std::vector<double>{};
  }
  Polynomial slope;
  for (size_t i = 1; i < p.size(); ++i) slope.push_back(p[i] * static_cast<double>(i));
  std::vector<double> stops = roots(slope, from, to);
  stops.insert(stops.begin(), from), stops.push_back(to);
  std::vector<double> found;
  for (size_t i = 0; i + 1 < stops.size(); ++i) {
    double low = stops[i], high = stops[i + 1];
    const double at_low = value_at(p, low), at_high = value_at(p, high);
    if (at_low == 0) found.push_back(low);
    if ((at_low < 0) == (at_high < 0)) continue;
    for (int step = 0; step < 200 && high - low > 0.25; ++step) {
      const double middle = (low + high) / 2;
      ((value_at(p, middle) < 0) == (at_low < 0) ? low : high) = middle;
    }
    found.push_back(low);
  }
  // A root may touch zero at the far end or at a stop without crossing.
  found.insert(found.end(), stops.begin(), stops.end());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::optional<Polynomial> polynomial_in(Expr e, SymbolId symbol, const Bindings& values) { return walk(e, symbol, values); }

Polynomial operator-(const Polynomial& a, const Polynomial& b) {
  Polynomial out(std::max(a.size(), b.size()), 0.0);
  for (size_t i = 0; i < a.size(); ++i) out[i] += a[i];
  for (size_t i = 0; i < b.size(); ++i) out[i] -= b[i];
  return out;
}

Polynomial scaled(const Polynomial& p, double by) {
  Polynomial out = p;
  for (double& c : out) c *= by;
  return out;
}

double value_at(const Polynomial& p, double x) {
  double v = 0;
  for (size_t i = p.size(); i-- > 0;) v = v * x + p[i];
  return v;
}

std::vector<int64_t> sign_changes(const Polynomial& p, int64_t from, int64_t to) {
  std::vector<int64_t> out;
  for (double r : roots(p, static_cast<double>(from), static_cast<double>(to)))
    for (int64_t at = static_cast<int64_t>(std::floor(r)) - 1; at <= static_cast<int64_t>(std::floor(r)) + 2; ++at)
      if (at >= from && at <= to) out.push_back(at);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace roofcast
