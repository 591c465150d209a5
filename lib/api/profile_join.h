// Nodes of a model and of a profile of it, joined by name.
#pragma once

#include "ir/graph.h"
#include "measure/profile.h"
#include "ops/work.h"

#include <vector>

namespace roofcast {

struct ProfileJoin {
  std::vector<const ProfiledNode*> of_node;   // by node of the module; null: not in the profile
  std::vector<const ProfiledNode*> others;    // in the profile only
};

// The optimizer keeps the name of one of the nodes that it fuses, with a suffix of its own.
ProfileJoin join_profile(const Module& module, const Profile& profile);

// Bytes that a node's op reads and writes beside weights: in a run of the whole model they come from the
// op before and go to the next one, through a cache. Weights come from memory once a run.
double passed_on_bytes(const Module& module, NodeId id, const Problem& problem);

}  // namespace roofcast
