#include "api/profile_join.h"

#include <unordered_map>
#include <unordered_set>

namespace roofcast {

ProfileJoin join_profile(const Module& module, const Profile& profile) {
  std::unordered_map<std::string, const ProfiledNode*> by_name, by_stem;
  for (const ProfiledNode& node : profile.nodes) {
    by_name.try_emplace(node.name, &node);
    for (const std::string& stem : node.stems) by_stem.try_emplace(stem, &node);
  }
  ProfileJoin join;
  std::unordered_set<const ProfiledNode*> joined;
  for (uint32_t i = 0; i < module.nodes.size(); ++i) {
    const std::string name = display_name(module, NodeId{i});
    const ProfiledNode* found = nullptr;
    if (const auto at = by_name.find(name); at != by_name.end()) found = at->second;
    else if (const auto near = by_stem.find(name); near != by_stem.end()) found = near->second;
    join.of_node.push_back(found);
    if (found) joined.insert(found);
  }
  for (const ProfiledNode& node : profile.nodes)
    if (!joined.contains(&node)) join.others.push_back(&node);
  return join;
}

double passed_on_bytes(const Module& module, NodeId id, const Problem& problem) {
  const auto inputs = module.inputs(module[id]);
  double weights = 0;
  for (size_t i = 0; i < inputs.size() && i < problem.operands.size() && !problem.operands[i].is_output; ++i)
    if (inputs[i].valid() && (module[inputs[i]].storage == Storage::weight || module[inputs[i]].storage == Storage::constant))
      weights += problem.operands[i].bytes;
  return problem.bytes_read + problem.bytes_written - weights;
}

}  // namespace roofcast
