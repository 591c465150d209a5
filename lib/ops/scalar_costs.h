// What one scalar function counts as, in vector FLOPs: the one convention of all per-op formulas.
//
// Each elementary operation counts 1: add, subtract, multiply, divide, compare, select, minimum,
// maximum, negate, absolute value, round, and each evaluation of exp, log, sqrt, a power, erf or a
// (hyperbolic) trigonometric function. Conversions of type, copies and operations on addresses
// count 0; logical and bitwise operations on elements count 1. Compound functions are the sum of
// what their definition evaluates, with constants folded and both branches of a select evaluated. A
// sum of n takes n − 1 additions, but a contraction a multiplication and an addition for each point.
// Windows count in full: positions on padding like any other. test/counting counts the same way by
// running the definitions on a counting number type.
#pragma once

#include <string_view>

namespace roofcast::scalar_cost {

inline constexpr int arithmetic = 1;
inline constexpr int special = 1;        // exp, log, sqrt, erf, sin, …
inline constexpr int relu = 1;           // max(x, 0)
inline constexpr int leaky_relu = 3;     // compare, multiply, select
inline constexpr int clip = 2;           // max, min
inline constexpr int sigmoid = 4;        // 1 / (1 + exp(-x)): negate, exp, add, divide
inline constexpr int silu = 5;           // x · sigmoid(x)
inline constexpr int softplus = 3;       // log(exp(x) + 1): exp, add, log
inline constexpr int softsign = 3;       // x / (1 + |x|): abs, add, divide
inline constexpr int mish = 5;           // x · tanh(softplus(x))
inline constexpr int elu = 5;            // x > 0 ? x : α (exp(x) − 1)
inline constexpr int celu = 7;           // max(0, x) + min(0, α (exp(x / α) − 1))
inline constexpr int selu = 6;           // γ · elu(x)
inline constexpr int hard_sigmoid = 4;   // max(0, min(1, α x + β))
inline constexpr int hard_swish = 5;     // x · hard_sigmoid(x)
inline constexpr int gelu_erf = 5;       // 0.5 x (1 + erf(x / √2)): mul, erf, add, mul, mul
inline constexpr int gelu_tanh = 9;      // 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))
inline constexpr int gelu_quick = 6;     // x · sigmoid(1.702 x)
inline constexpr int threshold = 2;      // compare, select
inline constexpr int shrink = 6;         // two compares, add, subtract, two selects
inline constexpr int quantize = 5;       // divide, round, add zero point, max, min
inline constexpr int dequantize = 2;     // subtract zero point, multiply
inline constexpr int sign = 3;           // (x > 0) − (x < 0)

// Of an activation that an op names by an attribute.
constexpr int activation(std::string_view name) {
  if (name.empty() || name == "none") return 0;
  if (name == "Relu") return relu;
  if (name == "Sigmoid") return sigmoid;
  if (name == "silu" || name == "swish") return silu;
  if (name == "LeakyRelu") return leaky_relu;
  if (name == "Clip") return clip;
  if (name == "HardSigmoid") return hard_sigmoid;
  if (name == "HardSwish") return hard_swish;
  return special;
}

}  // namespace roofcast::scalar_cost
