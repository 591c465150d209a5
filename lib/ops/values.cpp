#include "ops/values.h"

#include <cmath>

namespace roofcast {
namespace {

Scalar rational(Expr num, int64_t den) {
  if (!num.is_known() || num.is_overflow() || den == 0) return {};
  if (den < 0) num = -num, den = -den;
  if (den != 1)
    if (const auto q = exact_div(num, Expr(den))) return Scalar::integer(*q);
  return {Scalar::Kind::rational, num, den, 0};
}

Scalar from_real(double v) { return std::isfinite(v) ? Scalar::from_double(v) : Scalar{Scalar::Kind::real, {}, 1, v}; }

bool both_rational(const Scalar& a, const Scalar& b) {
  constexpr int64_t most = int64_t{1} << 30;
  return a.kind == Scalar::Kind::rational && b.kind == Scalar::Kind::rational && a.den < most && b.den < most;
}

template <class F> Scalar real_op(const Scalar& a, const Scalar& b, F&& f) {
  const auto x = a.as_double(), y = b.as_double();
  return x && y ? from_real(f(*x, *y)) : Scalar{};
}

}  // namespace

Scalar add(const Scalar& a, const Scalar& b) {
  if (both_rational(a, b)) return rational(a.num * b.den + b.num * a.den, a.den * b.den);
  return real_op(a, b, [](double x, double y) { return x + y; });
}
Scalar subtract(const Scalar& a, const Scalar& b) {
  if (both_rational(a, b)) return rational(a.num * b.den - b.num * a.den, a.den * b.den);
  return real_op(a, b, [](double x, double y) { return x - y; });
}
Scalar multiply(const Scalar& a, const Scalar& b) {
  if (both_rational(a, b)) return rational(a.num * b.num, a.den * b.den);
  return real_op(a, b, [](double x, double y) { return x * y; });
}

Scalar divide(const Scalar& a, const Scalar& b) {
  if (both_rational(a, b)) {
    if (b.num.is_constant()) return rational(a.num * b.den, a.den * b.num.constant());
    if (const auto q = exact_div(a.num * b.den, b.num * a.den)) return Scalar::integer(*q);
    return {};
  }
  return real_op(a, b, [](double x, double y) { return x / y; });
}

Scalar divide_integer(const Scalar& a, const Scalar& b) {
  const Expr x = a.as_expr(), y = b.as_expr();
  if (!x.is_known() || !y.is_known() || y == Expr(0)) return {};
  if (x.is_constant() && y.is_constant()) return Scalar::integer(x.constant() / y.constant());
  if (lower_bound(x) >= 0 && lower_bound(y) > 0) return Scalar::integer(floor_div(x, y));
  if (const auto q = exact_div(x, y)) return Scalar::integer(*q);
  // Towards zero: down from above it, up from below it.
  if (lower_bound(y) > 0) return Scalar::integer(max(floor_div(x, y), 0) + min(ceil_div(x, y), 0));
  return {};
}

Scalar modulo(const Scalar& a, const Scalar& b) {
  const Expr x = a.as_expr(), y = b.as_expr();
  if (x.is_known() && y.is_known() && y != Expr(0) && (y.is_constant() || lower_bound(y) > 0)) return Scalar::integer(mod(x, y));
  return real_op(a, b, [](double p, double q) { return p - q * std::floor(p / q); });
}

Scalar minimum(const Scalar& a, const Scalar& b) {
  if (both_rational(a, b) && a.den == b.den) return rational(min(a.num, b.num), a.den);
  return real_op(a, b, [](double x, double y) { return std::min(x, y); });
}
Scalar maximum(const Scalar& a, const Scalar& b) {
  if (both_rational(a, b) && a.den == b.den) return rational(max(a.num, b.num), a.den);
  return real_op(a, b, [](double x, double y) { return std::max(x, y); });
}

Scalar floor(const Scalar& a) {
  if (a.kind == Scalar::Kind::rational) return Scalar::integer(floor_div(a.num, a.den));
  return a.kind == Scalar::Kind::real && std::isfinite(a.real) ? from_real(std::floor(a.real)) : Scalar{};
}
Scalar ceil(const Scalar& a) {
  if (a.kind == Scalar::Kind::rational) return Scalar::integer(ceil_div(a.num, a.den));
  return a.kind == Scalar::Kind::real && std::isfinite(a.real) ? from_real(std::ceil(a.real)) : Scalar{};
}
Scalar truncate(const Scalar& a) {
  if (a.kind == Scalar::Kind::rational) {
    if (a.den == 1 || lower_bound(a.num) >= 0) return floor(a);
    return a.num.is_constant() ? Scalar::integer(a.num.constant() / a.den) : Scalar{};
  }
  return a.kind == Scalar::Kind::real && std::fabs(a.real) < 1e18 ? Scalar::integer(static_cast<int64_t>(a.real)) : Scalar{};
}

std::optional<int> compare(const Scalar& a, const Scalar& b) {
  if (both_rational(a, b)) {
    const Expr d = a.num * b.den - b.num * a.den;
    if (d == Expr(0)) return 0;
    if (!d.is_known() || d.is_overflow()) return std::nullopt;
    if (lower_bound(d) > 0) return 1;
    if (upper_bound(d) < 0) return -1;
    return std::nullopt;
  }
  const auto x = a.as_double(), y = b.as_double();
  if (!x || !y) return std::nullopt;
  return *x < *y ? -1 : *x > *y ? 1 : 0;
}

std::optional<size_t> small_size(Type type) {
  if (!type || !type->is_tensor() || !type->ranked) return std::nullopt;
  int64_t n = 1;
  for (Expr d : type->dims) {
    const auto v = d.as_constant();
    if (!v || *v < 0 || *v > static_cast<int64_t>(limits::known_elements)) return std::nullopt;
    n *= *v;
    if (n > static_cast<int64_t>(limits::known_elements)) return std::nullopt;
  }
  return static_cast<size_t>(n);
}

bool broadcasts(Type output, Type input) {
  if (input->dims.size() > output->dims.size()) return false;
  const size_t skip = output->dims.size() - input->dims.size();
  for (size_t d = 0; d < input->dims.size(); ++d)
    if (input->dims[d] != Expr(1) && input->dims[d] != output->dims[d + skip]) return false;
  return true;
}

size_t broadcast_index(size_t flat, Type output, Type input) {
  size_t index = 0, stride = 1;
  const size_t skip = output->dims.size() - input->dims.size();
  for (size_t d = output->dims.size(); d-- > 0;) {
    const size_t extent = static_cast<size_t>(output->dims[d].constant());
    const size_t at = extent ? flat % extent : 0;
    flat = extent ? flat / extent : 0;
    if (d < skip) continue;
    const size_t own = static_cast<size_t>(input->dims[d - skip].constant());
    if (own != 1) index += at * stride;
    stride *= own;
  }
  return index;
}

std::optional<std::vector<Scalar>> broadcast_values(const OpView& view, BinaryScalar* f) {
  const auto n = small_size(view.out(0));
  if (!n || view.input_count() == 0) return std::nullopt;
  for (size_t i = 0; i < view.input_count(); ++i) {
    const auto own = small_size(view.in(i));
    if (!own || !view.values(i) || view.values(i)->items.size() != *own) return std::nullopt;
    if (!broadcasts(view.out(0), view.in(i))) return std::nullopt;
  }
  std::vector<Scalar> out(*n);
  for (size_t flat = 0; flat < *n; ++flat) {
    out[flat] = view.values(0)->items[broadcast_index(flat, view.out(0), view.in(0))];
    for (size_t i = 1; i < view.input_count(); ++i)
      out[flat] = f(out[flat], view.values(i)->items[broadcast_index(flat, view.out(0), view.in(i))]);
  }
  return out;
}

std::optional<std::vector<Scalar>> map_values(const OpView& view, UnaryScalar* f) {
  if (!view.values(0)) return std::nullopt;
  std::vector<Scalar> out;
  for (const Scalar& s : view.values(0)->items) out.push_back(f(s));
  return out;
}

}  // namespace roofcast
