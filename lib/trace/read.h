// Trace files → Timeline. The kind is told by the file's first bytes.
#pragma once

#include "trace/timeline.h"

#include <string>

namespace roofcast::trace {

// PyTorch Profiler (Kineto) and ONNX Runtime JSON, plain or gzip; Nsight Systems SQLite exports.
// Codes: file-missing, trace-kind, sqlite-schema. What is lost inside is a warning of the timeline.
Result<Timeline> read_trace(const std::string& path);

Result<Timeline> read_json(const std::string& path);     // read_json.cpp
Result<Timeline> read_nsight(const std::string& path);   // read_nsight.cpp

}  // namespace roofcast::trace
