// Repeated blocks: runs of nodes that do the same on values that hang together in the same way, as the
// layers of a transformer do. What is decided for one block holds for all.
#pragma once

#include "ir/graph.h"

#include <vector>

namespace roofcast {

// Nodes of the main region at positions [first, first + period·count), `count` times the same.
struct Repeat {
  uint32_t first = 0, period = 0, count = 0;
  uint32_t end() const { return first + period * count; }
};

// Disjoint, in order; each with count ≥ 2. Two nodes are alike if they share an Instance and each
// input is the same value, or a weight, or made by nodes that stand one period apart.
std::vector<Repeat> repeated_blocks(const Module& module);

}  // namespace roofcast
