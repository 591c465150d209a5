// Rules that several families share.
#pragma once

#include "ops/op_info.h"
#include "ops/values.h"

namespace roofcast {

// Access of an op over all its inputs, each broadcast as in numpy: b.., b.., … -> b.. . Before opset 7
// the second operand is aligned at `axis` instead, and the output has the first one's dims.
AccessResult broadcast_all(const OpView& view);

// Output 0 has input 0's type.
void same_as_first(InferContext& c);
// Values of input 0 unchanged.
std::optional<std::vector<Scalar>> pass_value(const OpView& view);

// The dims named by integers that may be negative; fails on one out of range or twice.
std::optional<std::vector<size_t>> normalize_axes(InferContext& c, const std::vector<int64_t>& axes, size_t rank);

// Reads only what lies inside the loops for input i, whatever its size.
void read_bytes(const OpView& view, Work& work, size_t i, Expr bytes);

}  // namespace roofcast
