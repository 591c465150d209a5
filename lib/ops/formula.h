// An op's formulas in readable algebra, from its row: what `roofcast ops` prints.
#pragma once

#include "ops/op_info.h"

#include <string>

namespace roofcast {

struct FormulaText {
  std::string matrix_flops, vector_flops, bytes;
};
FormulaText formula_of(const OpInfo& op);

}  // namespace roofcast
