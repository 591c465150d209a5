// A number that counts what is done to it, by the convention of lib/ops/scalar_costs.h, and small
// tensors of it. Tests run an op's definition on them and compare the tally with the op table.
//
// Both branches of a select are evaluated, as on vector hardware; arithmetic on plain doubles is
// constant folding and counts nothing.
#pragma once

#include <Eigen/Core>

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace counting {

struct Tally {
  int64_t products = 0;   // multiplications and divisions
  int64_t sums = 0;       // additions, subtractions, negations
  int64_t choices = 0;    // comparisons, selects, minima, maxima, absolute values, roundings
  int64_t specials = 0;   // exp, log, sqrt, powers, erf, (hyperbolic) trigonometric functions
  int64_t total() const { return products + sums + choices + specials; }
};
inline Tally tally;

struct Counted {
  double value = 0;
  Counted() = default;
  Counted(double v) : value(v) {}  // implicit: constants mix with counted numbers

  Counted& operator+=(Counted o) { return *this = *this + o; }
  Counted& operator-=(Counted o) { return *this = *this - o; }
  Counted& operator*=(Counted o) { return *this = *this * o; }
  Counted& operator/=(Counted o) { return *this = *this / o; }
  friend Counted operator+(Counted a, Counted b) { return ++tally.sums, a.value + b.value; }
  friend Counted operator-(Counted a, Counted b) { return ++tally.sums, a.value - b.value; }
  friend Counted operator-(Counted a) { return ++tally.sums, -a.value; }
  friend Counted operator*(Counted a, Counted b) { return ++tally.products, a.value * b.value; }
  friend Counted operator/(Counted a, Counted b) { return ++tally.products, a.value / b.value; }
  friend bool operator<(Counted a, Counted b) { return ++tally.choices, a.value < b.value; }
  friend bool operator>(Counted a, Counted b) { return ++tally.choices, a.value > b.value; }
  friend bool operator==(Counted a, Counted b) { return ++tally.choices, a.value == b.value; }
};

inline Counted choice(double v) { return ++tally.choices, v; }
inline Counted special(double v) { return ++tally.specials, v; }
inline Counted select(bool c, Counted a, Counted b) { return choice(c ? a.value : b.value); }
inline Counted max(Counted a, Counted b) { return choice(std::fmax(a.value, b.value)); }
inline Counted min(Counted a, Counted b) { return choice(std::fmin(a.value, b.value)); }
inline Counted abs(Counted a) { return choice(std::fabs(a.value)); }
inline Counted round(Counted a) { return choice(std::nearbyint(a.value)); }
inline Counted exp(Counted a) { return special(std::exp(a.value)); }
inline Counted log(Counted a) { return special(std::log(a.value)); }
inline Counted sqrt(Counted a) { return special(std::sqrt(a.value)); }
inline Counted erf(Counted a) { return special(std::erf(a.value)); }
inline Counted tanh(Counted a) { return special(std::tanh(a.value)); }
inline Counted pow(Counted a, double p) { return special(std::pow(a.value, p)); }

// What `f` counts.
template <class F> Tally count(F&& f) {
  tally = {};
  f();
  return tally;
}

using Shape = std::vector<int64_t>;

inline int64_t elements(const Shape& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

// Calls f(index) for every place of a shape, the last dim fastest.
template <class F> void each(const Shape& shape, F&& f) {
  Shape index(shape.size(), 0);
  for (int64_t left = elements(shape); left > 0; --left) {
    f(const_cast<const Shape&>(index));
    for (size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
  }
}

struct Tensor {
  Shape shape;
  std::vector<Counted> data;

  explicit Tensor(Shape s, double fill = 0.5)
      : shape(std::move(s)), data(static_cast<size_t>(elements(shape)), fill) {}
  Counted& operator[](const Shape& index) { return data[offset(index)]; }
  // Outside of the tensor lies padding: zeros, which are computed with like any value.
  Counted padded(const Shape& index) const {
    for (size_t d = 0; d < shape.size(); ++d)
      if (index[d] < 0 || index[d] >= shape[d]) return 0.0;
    return data[offset(index)];
  }
  // The element that a place of a larger shape falls on, as numpy broadcasts.
  Counted broadcast(const Shape& index) const {
    Shape own(shape.size());
    for (size_t d = 0; d < own.size(); ++d)
      own[d] = shape[d] == 1 ? 0 : index[index.size() - own.size() + d];
    return data[offset(own)];
  }

private:
  size_t offset(const Shape& index) const {
    int64_t at = 0;
    for (size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
    return static_cast<size_t>(at);
  }
};

// Random choices with a fixed seed, so that a failure can be repeated.
class Random {
public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  int64_t operator()(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(engine_() % static_cast<uint32_t>(most - least + 1));
  }
  bool coin() { return (*this)(0, 1) != 0; }
  Shape shape(int64_t rank, int64_t most = 4) {
    Shape s;
    for (int64_t d = 0; d < rank; ++d) s.push_back((*this)(1, most));
    return s;
  }

private:
  std::mt19937 engine_;
};

}  // namespace counting

template <>
struct Eigen::NumTraits<counting::Counted> : Eigen::GenericNumTraits<counting::Counted> {
  using Real = counting::Counted;
  using NonInteger = counting::Counted;
  using Nested = counting::Counted;
  enum { IsComplex = 0, IsInteger = 0, IsSigned = 1, RequireInitialization = 1,
         ReadCost = 1, AddCost = 1, MulCost = 1 };
};
