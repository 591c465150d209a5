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

// The main region with its repeats folded: of a block that repeats, the first `keep` instances and the
// last one stand for all.
struct Fold {
  uint32_t keep = 0;
  std::vector<Repeat> repeats;
  struct Site {
    uint32_t position = 0;               // among the main region's nodes
    int64_t times = 1;                   // nodes that it stands for
  };
  std::vector<Site> sites;               // in order
  std::vector<uint32_t> site_of;         // by position
  std::vector<uint32_t> canonical;       // by value: the one that stands for it
};
Fold fold_blocks(const Module& module, uint32_t keep);

}  // namespace roofcast
