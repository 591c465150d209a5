// What the commands on layouts share: a search model from options, and a step as a candidate.
#pragma once

#include "roofcast/layouts.h"
#include "search/layouts.h"

namespace roofcast {

Result<std::vector<ShardPin>> parse_pins(const std::vector<std::string>& texts);
Result<LayoutModelOptions> layout_model_options(const ParallelOptions& parallel, const std::string& time_model, bool causal);

// A step as people read it. `details`: its collectives, with names of nodes.
LayoutCandidate candidate_of(LayoutModel& model, const Layout& layout, const Step& step, const Hardware& hardware, const Module& module);

// Why it does not fit and the least change that would make it; empty if it fits.
std::string why_not(LayoutModel& model, const Layout& layout, const Step& step, double capacity);

// One collective as a row of a report.
CollectiveRow collective_row(const StepCollective& c, const Module& module);

}  // namespace roofcast
