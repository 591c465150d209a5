// Ops that stand for their kinds, of sizes that no shipped model has: what calibration times.
#pragma once

#include <string>

namespace roofcast {

// A graph in textual IR (lib/ir/print.h), each node by itself.
std::string calibration_workload();

}  // namespace roofcast
