// An analysis written into a copy of its model, as metadata_props of the nodes: roofcast.flops, .bytes,
// .t_math, .t_comms, .time, .bound. Netron shows them; figures of an inlined function go to its call.
#pragma once

#include "roofcast/analyze.h"

#include <string>

namespace roofcast {

// `analysis` must be of `model`, which must come from an ONNX file.
Status annotate(const Model& model, const Analysis& analysis, const std::string& target);

}  // namespace roofcast
