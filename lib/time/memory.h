// Memory that a run needs at its peak: weights, inputs, and the activations alive at one time.
#pragma once

#include "ir/graph.h"

#include <string>

namespace roofcast {

struct MemoryUse {
  double weights = 0, inputs = 0, activations = 0;  // bytes
  double total() const { return weights + inputs + activations; }
  std::string why_not(double capacity) const;       // "weights alone need 94 of 80 GB"
};

// Nodes run in order; an activation lives from its node to its last use, views share their bytes, a
// body's own peak counts while its owner runs. What is folded at compile time counts as weights.
MemoryUse peak_memory(const Module& module, const Bindings& values);

}  // namespace roofcast
