#include "passes/pass.h"

#include "support/diagnostic.h"

#include <chrono>

namespace roofcast {

std::span<const PassInfo> pass_table() {
  static constexpr PassInfo table[] = {
      {"infer", "types of all values, with the values of shape arithmetic", infer_types},
      {"retype", "another floating-point type, as a what-if: retype{to=bf16,weights=bf16}", retype},
      {"print-facets", "prints kind, access, FLOPs and bytes of each node", print_facets},
  };
  return table;
}

Status run_pipeline(Module& module, std::string_view pipeline, std::vector<PassTime>* times) {
  while (!pipeline.empty()) {
    size_t end = std::min(pipeline.find(','), pipeline.size());
    const size_t brace = pipeline.find('{');
    PassOptions options;
    std::string_view name = pipeline.substr(0, end);
    if (brace < end) {
      const size_t close = pipeline.find('}', brace);
      if (close == pipeline.npos) return error("usage", "pipeline lacks a closing brace", {}, "write pass{key=value,…}");
      name = pipeline.substr(0, brace);
      std::string_view list = pipeline.substr(brace + 1, close - brace - 1);
      while (!list.empty()) {
        const size_t comma = std::min(list.find(','), list.size());
        const std::string_view item = list.substr(0, comma);
        const size_t equals = std::min(item.find('='), item.size());
        options[std::string(item.substr(0, equals))] = std::string(equals < item.size() ? item.substr(equals + 1) : "");
        list.remove_prefix(std::min(comma + 1, list.size()));
      }
      end = std::min(pipeline.find(',', close), pipeline.size());
    }
    const PassInfo* pass = nullptr;
    std::vector<std::string> names;
    for (const PassInfo& p : pass_table()) {
      names.emplace_back(p.name);
      if (p.name == name) pass = &p;
    }
    if (!pass) {
      std::string known;
      for (const std::string& n : names) known += (known.empty() ? "" : ", ") + n;
      return error("pass-unknown", "no pass is called \"" + std::string(name) + "\"", {}, "known: " + known);
    }
    const auto start = std::chrono::steady_clock::now();
    if (Status status = pass->run(module, options); !status) return status;
    if (times) times->push_back({std::string(name), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()});
#ifdef ROOFCAST_VERIFY_PASSES
    if (Status status = verify(module); !status) return status;
#endif
    pipeline.remove_prefix(std::min(end + 1, pipeline.size()));
  }
  return Ok{};
}

}  // namespace roofcast
