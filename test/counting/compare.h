// Compares what running an op's definition counts with what the op table says.
#pragma once

#include "counting/counted.h"
#include "support/one_op.h"

#include <set>
#include <string>

namespace counting {

using roofcast::OneOp;

// One function a family of the op table.
struct Compared;
void compare_pointwise(Compared&);
void compare_contractions(Compared&);
void compare_convolutions(Compared&);
void compare_pooling(Compared&);
void compare_reductions(Compared&);
void compare_softmax(Compared&);
void compare_normalizations(Compared&);
void compare_images(Compared&);

// What a definition counted, products of a contraction apart.
struct Counts {
  Tally matrix, vector;
  Shape shape;  // of output 0
};

// Collects which ops were compared, and reports each difference.
struct Compared {
  std::set<std::string> ops;  // "domain:name"
  Random random{1};

  void operator()(OneOp& op, const Counts& counts);
};

inline OneOp::Dims dims(const Shape& shape) { return {shape.begin(), shape.end()}; }

// Quantising a sum: scale, round, add the zero point, saturate.
inline Counted requantize(Counted x) { return min(max(round(x * 0.5) + 3.0, 0.0), 255.0); }

}  // namespace counting
