// Memory that a run needs at its peak: weights, inputs, and the activations alive at one time.
#pragma once

#include "ir/graph.h"

#include <string>
#include <vector>

namespace roofcast {

struct MemoryUse {
  double weights = 0, inputs = 0, activations = 0;  // bytes
  double total() const { return weights + inputs + activations; }
  std::string why_not(double capacity) const;       // "weights alone need 94 of 80 GB"
};

// Who lives when, found once; how large all is, for any values of the symbols. Nodes run in order; an
// activation lives from its node to its last use, views share their bytes, a body's own peak counts
// while its owner runs. What is folded at compile time counts as weights.
class MemoryModel {
public:
  explicit MemoryModel(const Module& module);
  MemoryUse at(const Bindings& values) const;

private:
  // What happens at one node of a region, in order.
  struct Step {
    std::vector<uint32_t> born, dead;  // values
    std::vector<RegionId> bodies;
  };
  double peak(RegionId region, const std::vector<double>& bytes) const;

  const Module& m_;
  std::vector<std::vector<Step>> regions_;
  std::vector<uint32_t> sizes_;  // by value: index into distinct_
  std::vector<Expr> distinct_;   // bytes
  double weights_ = 0;
};

}  // namespace roofcast
