// ONNX file → Module. Model-local functions are inlined; weights are never looked at.
#pragma once

#include "ir/graph.h"
#include "roofcast/load_options.h"
#include "support/mapped_file.h"

#include <memory>
#include <string>

namespace roofcast {

// Any opset and IR version. Symbols named in `options.set` and those that `options.shapes` determine
// are constants in the result, unless `keep_symbols`. Faults name the file, and the node or byte.
Result<std::unique_ptr<Module>> read_onnx(const std::string& path, const LoadOptions& options);
// The same of bytes that are there already; `path` is for messages.
Result<std::unique_ptr<Module>> read_onnx(std::shared_ptr<const MappedFile> file, const std::string& path, const LoadOptions& options);

}  // namespace roofcast
