// Output types and values of an Instance by its row in the op table.
#pragma once

#include "ops/op_info.h"

namespace roofcast {

// Fills the Instance's outputs and output_elements. A fault is an error of the file (exit 2).
std::optional<Diagnostic> infer_instance(Module& module, InstanceId id, NodeId node);

}  // namespace roofcast
