// A model in textual IR, costed and ready for the fusion planner.
#pragma once

#include "ir/print.h"
#include "passes/pass.h"
#include "roofcast/hardware.h"
#include "search/fusion.h"

#include <catch2/catch.hpp>

#include <memory>
#include <string>

namespace roofcast {

struct FusionCase {
  std::unique_ptr<Module> module;
  Hardware hardware;
  std::unique_ptr<Costing> costing;
  Fold fold;
  FusionGraph graph;
  std::unique_ptr<FusionPlanner> planner;

  FusionCase(const std::string& text, TimeModel model, const std::string& device = "h100-sxm") {
    Result<std::unique_ptr<Module>> parsed = parse(text, "test");
    INFO(text);
    INFO((parsed ? std::string() : parsed.error().message));
    REQUIRE(parsed);
    module = std::move(*parsed);
    REQUIRE(infer_types(*module));
    Result<Hardware> loaded = load_hardware(device);
    REQUIRE(loaded);
    hardware = std::move(*loaded);
    // Launches and the main memory, so that no fit of a device moves these tests.
    hardware.kernel.clear();
    for (const char* launch : {"launch_overhead", "gemm16_call", "gemm32_call", "batched32_call", "prefill_call"}) hardware.kernel[launch] = {2e-6, "test", {}};
    hardware.kernel["stream_kept_from"] = {0, "test", {}}, hardware.kernel["stream_kept_to"] = {1e-3, "test", {}};
    costing = std::make_unique<Costing>(*module, hardware, model, false);
    costing->resolve();
    fold = fold_blocks(*module, 3);
    graph = fusion_graph(*costing, fold);
    planner = std::make_unique<FusionPlanner>(graph, hardware, model);
  }

  double cost(const std::vector<std::vector<uint32_t>>& groups) const {
    std::vector<char> in(graph.ops.size());
    double sum = 0;
    for (const auto& group : groups) {
      sum += planner->kernel(group).cost;
      for (uint32_t op : group) in[op] = 1;
    }
    for (uint32_t op = 0; op < graph.ops.size(); ++op)
      if (!in[op]) sum += planner->kernel({op}).cost;
    return sum;
  }
};

}  // namespace roofcast
