#include "measure/profile.h"

#include "support/diagnostic.h"
#include "support/mapped_file.h"

#include <nlohmann/json.hpp>

#include <unordered_map>

namespace roofcast {
namespace {

constexpr std::string_view suffix = "_kernel_time";

// "conv1_nchwc" was conv1; "sigmoid/QuickGeluFusion/" was sigmoid; "a_token_3" keeps its name.
std::vector<std::string> stems_of(const std::string& name) {
  std::vector<std::string> stems;
  for (std::string_view tail : {"_nchwc", "_quant", "_fused"})
    if (name.ends_with(tail)) stems.push_back(name.substr(0, name.size() - tail.size()));
  // Fusions append "/<pass>/"; a node's own name may hold slashes too.
  if (name.ends_with('/'))
    for (size_t at = name.rfind('/', name.size() - 2); at != name.npos && at > 0; at = name.rfind('/', at - 1))
      stems.push_back(name.substr(0, at));
  return stems;
}

std::string text(const nlohmann::json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

}  // namespace

Result<Profile> read_onnxruntime_profile(const std::string& path) {
  Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(path);
  if (!file) return std::move(file.error());
  const std::string_view bytes = (*file)->bytes();
  const nlohmann::json document = nlohmann::json::parse(bytes.begin(), bytes.end(), nullptr, false);
  if (!document.is_array())
    return error("trace-kind", "not a profile of ONNX Runtime", {.file = path}, "SessionOptions.enable_profiling writes one, a JSON array");
  Profile profile;
  std::unordered_map<std::string, size_t> index;
  for (const nlohmann::json& event : document) {
    if (!event.is_object() || text(event, "cat") != "Node") continue;
    std::string name = text(event, "name");
    const auto duration = event.find("dur");
    if (!name.ends_with(suffix) || duration == event.end() || !duration->is_number()) continue;
    name.resize(name.size() - suffix.size());
    const auto args = event.find("args");
    const nlohmann::json empty = nlohmann::json::object();
    const nlohmann::json& details = args != event.end() && args->is_object() ? *args : empty;
    if (profile.provider.empty()) profile.provider = text(details, "provider");
    const auto [at, is_new] = index.try_emplace(name, profile.nodes.size());
    if (is_new) profile.nodes.push_back({name, text(details, "op_name"), stems_of(name), {}});
    profile.nodes[at->second].seconds.push_back(duration->get<double>() * 1e-6);
  }
  if (profile.nodes.empty())
    return error("trace-kind", "no node was timed in it", {.file = path}, "SessionOptions.enable_profiling writes node events");
  for (ProfiledNode& node : profile.nodes)
    if (node.seconds.size() > 1) node.seconds.erase(node.seconds.begin());
  return profile;
}

}  // namespace roofcast
