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
inline constexpr int special = 1;
inline constexpr int relu = 1;
inline constexpr int leaky_relu = 3;
inline constexpr int clip = 2;
inline constexpr int sigmoid = 4;
inline constexpr int silu = 5;
inline constexpr int softplus = 3;
inline constexpr int softsign = 3;
inline constexpr int mish = 5;
inline constexpr int elu = 5;
inline constexpr int celu = 7;
inline constexpr int selu = 6;
inline constexpr int hard_sigmoid = 4;
inline constexpr int hard_swish = 5;
inline constexpr int gelu_erf = 5;
inline constexpr int gelu_tanh = 9;
inline constexpr int gelu_quick = 6;
inline constexpr int threshold = 2;
inline constexpr int shrink = 6;
inline constexpr int quantize = 5;
inline constexpr int dequantize = 2;
inline constexpr int sign = 3;

// What each of them counts.
struct Named {
  std::string_view name;
  int flops;
  std::string_view definition;
};
inline constexpr Named all[] = {
    {"add, multiply, compare, …", arithmetic, "one operation"},
    {"exp, log, sqrt, power, erf, sin, tanh, …", special, "one evaluation"},
    {"relu", relu, "max(x, 0)"},
    {"leaky relu", leaky_relu, "compare, multiply, select"},
    {"clip", clip, "max, min"},
    {"sigmoid", sigmoid, "1 / (1 + exp(-x)): negate, exp, add, divide"},
    {"silu", silu, "x · sigmoid(x)"},
    {"softplus", softplus, "log(exp(x) + 1): exp, add, log"},
    {"softsign", softsign, "x / (1 + |x|): abs, add, divide"},
    {"mish", mish, "x · tanh(softplus(x))"},
    {"elu", elu, "x > 0 ? x : α (exp(x) − 1)"},
    {"celu", celu, "max(0, x) + min(0, α (exp(x / α) − 1))"},
    {"selu", selu, "γ · elu(x)"},
    {"hard sigmoid", hard_sigmoid, "max(0, min(1, α x + β))"},
    {"hard swish", hard_swish, "x · hard_sigmoid(x)"},
    {"gelu erf", gelu_erf, "0.5 x (1 + erf(x / √2)): mul, erf, add, mul, mul"},
    {"gelu tanh", gelu_tanh, "0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))"},
    {"gelu quick", gelu_quick, "x · sigmoid(1.702 x)"},
    {"threshold", threshold, "compare, select"},
    {"shrink", shrink, "two compares, add, subtract, two selects"},
    {"quantize", quantize, "divide, round, add zero point, max, min"},
    {"dequantize", dequantize, "subtract zero point, multiply"},
    {"sign", sign, "(x > 0) − (x < 0)"},
};

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
