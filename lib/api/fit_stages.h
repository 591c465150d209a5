// Which rows of measured tables decide over which constants.
#pragma once

#include "api/row_prediction.h"

#include <span>
#include <string_view>
#include <vector>

namespace roofcast {

// One fit after another: later ones see the constants of earlier ones.
enum class Only : uint8_t { any, no, yes };

struct FitStage {
  std::string_view name;
  ConstantUse use;
  std::vector<std::string_view> families;
  std::optional<Kind> kind = {};
  std::vector<CollectiveKind> collectives = {};
  Only matrix_unit = Only::any;  // whether one multiplies
  Only math8 = Only::any;        // whether both operands of products have 8 bits
  Only cache8 = Only::any;       // whether cached keys and values have

  bool takes(const MeasuredRow& row, const KernelDevice& device) const;
};
const std::vector<FitStage>& fit_stages();

}  // namespace roofcast
