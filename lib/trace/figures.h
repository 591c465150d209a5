// A Timeline → the figures of a diagnosis: unions, idle by cause, classes, steps.
#pragma once

#include "roofcast/diagnose.h"
#include "trace/timeline.h"

namespace roofcast::trace {

// Gaps below this are kernel waits, if the next launch had come already: the threshold of Holistic Trace
// Analysis (facebookresearch/HolisticTraceAnalysis, idle time breakdown).
inline constexpr int64_t kernel_wait_limit = 30'000;  // ns

RankFigures rank_figures(Timeline& timeline, int64_t rank);
std::vector<StepFigures> step_figures(const Timeline& timeline, int64_t rank);

}  // namespace roofcast::trace
