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

// As --model names it.
TimeModel time_model(const std::string& name);

// Warning model-stands-in, if the kernel model is asked for and cannot be had as fitted.
void warn_of_stand_in(std::vector<Diagnostic>& warnings, const Hardware& hardware, TimeModel model);

// The memory model's part takes as long as the rest; leave it out where nobody asks.
Totals total(Costing& costing, const MemoryModel* memory, TotalsDetail* detail = nullptr);

}  // namespace roofcast
