// Sums over all nodes of a module at the symbols' current values.
#pragma once

#include "time/costing.h"
#include "roofcast/analyze.h"
#include "time/memory.h"

#include <map>

namespace roofcast {

struct TotalsDetail {
  MathType main_math = MathType::none;       // of most matrix FLOPs
  std::map<int64_t, NodeId> missing;         // group whose time lacks a figure of the hardware → a node
};

// The memory model's part takes as long as the rest; leave it out where nobody asks.
Totals total(Costing& costing, const MemoryModel* memory, TotalsDetail* detail = nullptr);

}  // namespace roofcast
