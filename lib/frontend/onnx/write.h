// A copy of a model file with properties added to its nodes. Weights' bytes are copied by the kernel,
// never parsed.
#pragma once

#include "roofcast/result.h"

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace roofcast {

using Properties = std::vector<std::pair<std::string, std::string>>;

// Copies `source` to `target`. `by_node` holds, by the byte at which a NodeProto begins in `source`, what
// goes into its metadata_props; older entries whose key begins with `prefix` are dropped everywhere.
Status write_annotated(const std::string& source, const std::string& target, std::string_view prefix,
                       const std::unordered_map<uint64_t, Properties>& by_node);

}  // namespace roofcast
