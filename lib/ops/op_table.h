// The op table: every family's rows, and look-up by domain, name and opset.
#pragma once

#include "ops/op_info.h"

#include <span>

namespace roofcast {

using OpFamily = std::span<const OpInfo>;

// One function a family file, listed in op_table.cpp.
OpFamily contraction_ops();
OpFamily convolution_ops();
OpFamily attention_ops();
OpFamily packed_attention_ops();
OpFamily position_ops();
OpFamily state_space_ops();
OpFamily recurrent_ops();
OpFamily moe_ops();
OpFamily pointwise_ops();
OpFamily reduction_ops();
OpFamily normalization_ops();
OpFamily pooling_ops();
OpFamily softmax_ops();
OpFamily movement_ops();
OpFamily indexing_ops();
OpFamily shape_ops();
OpFamily quantization_ops();
OpFamily random_ops();
OpFamily sort_ops();
OpFamily signal_ops();
OpFamily image_ops();
OpFamily sequence_ops();
OpFamily control_ops();
OpFamily classic_ml_ops();
OpFamily optimizer_ops();
OpFamily contrib_ops();
OpFamily packed_matmul_ops();
OpFamily generation_ops();

std::span<const OpFamily> op_families();

// The row with the greatest `since` ≤ opset. A name that is not known in the default domain, but is
// one of com.microsoft, is taken as that (fusers write such names without their domain).
const OpInfo* find_op(std::string_view domain, std::string_view name, int opset);
// The same where custom ops go first.
const OpInfo* find_op(std::span<const OpInfo* const> custom, std::string_view domain,
                      std::string_view name, int opset);

}  // namespace roofcast
