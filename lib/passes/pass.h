// A pass: a named function on a module. Passes know no hardware and no cost.
#pragma once

#include "ir/graph.h"
#include "roofcast/model.h"

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace roofcast {

using PassOptions = std::map<std::string, std::string>;  // of "retype{to=bf16}"

struct PassInfo {
  std::string_view name, summary;
  Status (*run)(Module&, const PassOptions&);
};

// All passes, in the order in which a pipeline would use them.
std::span<const PassInfo> pass_table();

// Types and values of every node; see infer_types.cpp.
Status infer_types(Module& module, const PassOptions& options = {});

// Floating-point activations (and weights if `weights` is given) become another type, as a what-if.
// options: to=bf16, weights=bf16
Status retype(Module& module, const PassOptions& options);

// One line a node on stdout: types, kind, access, FLOPs and bytes as algebra.
Status print_facets(Module& module, const PassOptions& options);

// The Instance of a node whose outputs' types stand already (after a rewrite, instead of inference).
InstanceId instance_with_outputs(Module& module, NodeId id);

// Runs "infer,retype{to=bf16}", verifying after each pass in development builds. Times are appended.
Status run_pipeline(Module& module, std::string_view pipeline, std::vector<PassTime>* times = nullptr);

}  // namespace roofcast
