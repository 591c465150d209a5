// A Task: an op with all its sizes in numbers, as something that can be run.
//
//   Result<Task> task = describe(module, instance, values);
//   task->size_text()                       "1×64×56×56, 64×64×3×3 → 1×64×56×56 f32"
//
// Backends switch on the form. What has no form is skipped, with the reason. Two nodes of one Task are
// timed once.
#pragma once

#include "ir/graph.h"

#include <span>
#include <string>
#include <variant>
#include <vector>

namespace roofcast {

struct Operand {
  DType dtype = DType::float32;
  std::vector<int64_t> dims;

  int64_t elements() const;
  double bytes() const;
  bool operator==(const Operand&) const = default;
};

namespace form {

// Y = alpha A·B + beta C. Batch dims broadcast as in numpy; C (input 2, if there) broadcasts to Y.
struct Product {
  bool transpose_a = false, transpose_b = false;
  double alpha = 1, beta = 1;
  bool operator==(const Product&) const = default;
};

// X (n, c, spatial), W (m, c / groups, spatial) and perhaps B (m). Padding behind follows from Y.
struct Convolution {
  int64_t groups = 1;
  std::vector<int64_t> strides, dilations, pads;  // pads: in front
  bool operator==(const Convolution&) const = default;
};

struct Pooling {
  bool average = false, count_padding = false;
  std::vector<int64_t> kernel, strides, dilations, pads;
  bool operator==(const Pooling&) const = default;
};

enum class Function : uint8_t {
  abs, add, ceil, clip, cos, divide, elu, erf, exp, floor, gelu, gelu_tanh, hard_sigmoid, hard_swish,
  is_nan, leaky_relu, log, logical_and, logical_or, max, min, multiply, negate, power, reciprocal, relu,
  round, sigmoid, sign, silu, sin, softplus, sqrt, subtract, tanh, where, equal, less, less_equal,
  greater, greater_equal, convert,
};

// Output element = function of the inputs' elements, broadcast as in numpy.
struct Pointwise {
  Function function = Function::add;
  double alpha = 0, beta = 0;   // of clip: bounds
  bool operator==(const Pointwise&) const = default;
};

enum class Reducer : uint8_t { sum, mean, max, min };
struct Reduction {
  Reducer reducer = Reducer::sum;
  std::vector<int64_t> axes;    // sorted
  bool operator==(const Reduction&) const = default;
};

struct Softmax {
  int64_t axis = 0;
  bool log = false;
  bool operator==(const Softmax&) const = default;
};

enum class Normalizer : uint8_t { layer, rms, batch };
// layer, rms: over dims from `axis` on, with scale (and bias); batch: X, scale, bias, mean, variance.
struct Normalization {
  Normalizer normalizer = Normalizer::layer;
  int64_t axis = 0;
  double epsilon = 1e-5;
  bool operator==(const Normalization&) const = default;
};

struct Permutation {
  std::vector<int64_t> order;
  bool operator==(const Permutation&) const = default;
};

struct Concatenation {
  int64_t axis = 0;
  bool operator==(const Concatenation&) const = default;
};

// Input 0's slices along an axis, chosen by input 1.
struct Lookup {
  int64_t axis = 0;
  bool operator==(const Lookup&) const = default;
};

}  // namespace form

using Form = std::variant<form::Product, form::Convolution, form::Pooling, form::Pointwise, form::Reduction,
                          form::Softmax, form::Normalization, form::Permutation, form::Concatenation, form::Lookup>;

struct Task {
  Form form;
  std::vector<Operand> inputs, outputs;

  double bytes() const;           // of all operands
  std::string size_text() const;
  bool operator==(const Task&) const = default;
};

// Code op-not-run, with the reason, if no backend could run it.
Result<Task> describe(Module& module, const Instance& instance, const Bindings& values);

// Elements of an operand in memory, row-major, in its own type.
struct HostTensor {
  Operand operand;
  std::vector<std::byte> bytes;

  double at(int64_t index) const;
  void set(int64_t index, double value);
};

// Inputs for a task: reproducible, of moderate size, and valid where they are indices.
std::vector<HostTensor> random_inputs(const Task& task, uint64_t seed = 1);

// The task by its definition, in double precision. Slow; the truth of every backend's test.
std::vector<HostTensor> reference(const Task& task, std::span<const HostTensor> inputs);

}  // namespace roofcast
