// Arithmetic on the known values of small tensors: how shape computations inside a graph are followed.
#pragma once

#include "ops/op_info.h"

#include <functional>
#include <optional>
#include <vector>

namespace roofcast {

// Exact while rational with a constant denominator, else in double; unknown if neither.
Scalar add(const Scalar& a, const Scalar& b);
Scalar subtract(const Scalar& a, const Scalar& b);
Scalar multiply(const Scalar& a, const Scalar& b);
Scalar divide(const Scalar& a, const Scalar& b);            // of reals
Scalar divide_integer(const Scalar& a, const Scalar& b);    // truncating, as ONNX integer Div
Scalar modulo(const Scalar& a, const Scalar& b);            // sign of the divisor
Scalar minimum(const Scalar& a, const Scalar& b);
Scalar maximum(const Scalar& a, const Scalar& b);
Scalar floor(const Scalar& a);
Scalar ceil(const Scalar& a);
Scalar truncate(const Scalar& a);                           // float → integer Cast
// -1, 0, 1 for a < b, a = b, a > b, if symbols' bounds decide it.
std::optional<int> compare(const Scalar& a, const Scalar& b);

// Elements of an operand whose dims are all constant and few; absent otherwise.
std::optional<size_t> small_size(Type type);

using BinaryScalar = Scalar(const Scalar&, const Scalar&);
using UnaryScalar = Scalar(const Scalar&);

// Value rules made of the above: numpy broadcasting over all inputs, left to right.
std::optional<std::vector<Scalar>> broadcast_values(const OpView& view, BinaryScalar* f);
std::optional<std::vector<Scalar>> map_values(const OpView& view, UnaryScalar* f);

template <BinaryScalar* F> std::optional<std::vector<Scalar>> binary(const OpView& view) { return broadcast_values(view, F); }
template <UnaryScalar* F> std::optional<std::vector<Scalar>> unary(const OpView& view) { return map_values(view, F); }

// Whether `input` broadcasts to `output` as in numpy; all dims are constant.
bool broadcasts(Type output, Type input);
// The element of input `i` that the flat index of the (broadcast) output falls on; it must broadcast.
size_t broadcast_index(size_t flat, Type output, Type input);

}  // namespace roofcast
