// Profiles that ONNX Runtime writes: a JSON array of events, one a node and run.
#pragma once

#include "roofcast/result.h"

#include <string>
#include <vector>

namespace roofcast {

struct ProfiledNode {
  std::string name, op;
  std::vector<std::string> stems;  // names that it may have had before the optimizer renamed it
  std::vector<double> seconds;     // of each run
};

struct Profile {
  std::string provider;            // "CPUExecutionProvider"
  std::vector<ProfiledNode> nodes; // in order of first appearance
};

// The first run is left out where there are more: it allocates and packs. Codes: file-missing, trace-kind.
Result<Profile> read_onnxruntime_profile(const std::string& path);

}  // namespace roofcast
