// What rows of one problem have in common in reports.
#pragma once

#include "hw/hardware.h"
#include "ops/work.h"

#include <optional>
#include <string>
#include <vector>

namespace roofcast {

using Shape = std::vector<int64_t>;

// "512×4096×14336" of a contraction, "8×256×14×14 → 256×14×14" of a convolution, else the output's dims.
std::string problem_size(const Problem& problem, const std::optional<Shape>& input, const std::optional<Shape>& output);

// FLOP per byte where the problem's math roof meets the memory roof.
std::optional<double> knee_of(const Problem& problem, const Hardware& hardware);

}  // namespace roofcast
