// Groups of ops whose intermediates need never leave the chip, and what fusing each would save.
//
//   Result<FusionPlan> p = fuse(model, hardware, {});
//   p->candidates[0].label        "flash attention"
//
// The structs are the JSON document roofcast/fusion/1.
#pragma once

#include "roofcast/layouts.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace roofcast {

struct FuseOptions {
  std::string model = "ideal";      // time model
  bool causal = false;
  bool apply = false;               // fill `applied`: an analysis with the groups as ops
  ParallelOptions parallel;         // `layout`: of one rank, and its collectives with the products beside
};

// Who runs such a group as one kernel, and where that is written.
struct Implementation {
  std::string runtime, source;
};

struct FusionCandidate {
  int64_t id = 0;
  std::vector<std::string> ops;                 // "MatMul", …, in order
  std::vector<std::string> nodes;               // names, of the first such group
  std::optional<std::string> label;             // "flash attention"; absent: known under no name
  int64_t count = 1;                            // equal groups
  double bytes_saved = 0;                       // all below are of one group
  int64_t launches_saved = 0;
  double time_before = 0, time_after = 0, speedup = 1;
  std::string bound_before, bound_after;
  double on_chip_bytes = 0;                     // tile that must stay there
  std::vector<Implementation> implemented_by;
  std::string why;                              // what is saved, and what limits further growth
};

struct FusionPlan {
  std::string file, hardware, time_model = "ideal";
  std::optional<Layout> layout;                 // all of it is of one rank then
  std::vector<FusionCandidate> candidates;      // the chosen groups, most saved first
  std::optional<int64_t> in_bodies;             // ops in bodies of Loop, If and Scan, which are not searched
  std::vector<std::string> already_fused;       // ops of the file that are fused ones: "FusedMatMul × 12"
  double model_time_before = 0, model_time_after = 0;
  std::optional<std::string> bound_before, bound_after;
  std::map<std::string, int64_t> group_of;      // node → id of its group
  std::optional<Analysis> applied;
  std::vector<Diagnostic> warnings;
};

// `options.model`: ideal or kernel. Never fails on a model that loaded; warning peak-missing if the
// hardware lacks a figure, and then no candidates.
Result<FusionPlan> fuse(const Model& model, const Hardware& hardware, const FuseOptions& options);

// Writes the plan into a copy of the model, as metadata_props of nodes: roofcast.fusion_group (its id) and
// roofcast.fusion (its label). The model must come from an ONNX file.
Status annotate(const Model& model, const FusionPlan& plan, const std::string& target);

template <class F> void fields(F&& field, const Implementation& i) {
  field("runtime", i.runtime, Unit::none, "that has such a kernel");
  field("source", i.source, Unit::none, "where that is written");
}
template <class F> void fields(F&& field, const FusionCandidate& c) {
  field("id", c.id, Unit::none, "of the group");
  field("ops", c.ops, Unit::none, "operators in order");
  field("nodes", c.nodes, Unit::none, "of the first such group");
  field("label", c.label, Unit::none, "known name");
  field("count", c.count, Unit::count, "equal groups");
  field("bytes_saved", c.bytes_saved, Unit::byte, "of memory traffic, a group");
  field("launches_saved", c.launches_saved, Unit::count, "kernels, a group");
  field("time_before", c.time_before, Unit::second, "of the ops apart, a group");
  field("time_after", c.time_after, Unit::second, "as one kernel, a group");
  field("speedup", c.speedup, Unit::none, "before / after");
  field("bound_before", c.bound_before, Unit::none, "of most of the time");
  field("bound_after", c.bound_after, Unit::none, "as one kernel");
  field("on_chip_bytes", c.on_chip_bytes, Unit::byte, "that a tile keeps on the chip");
  field("implemented_by", c.implemented_by, Unit::none, "runtimes that have it");
  field("why", c.why, Unit::none, "what is saved, what limits growth");
}
template <class F> void fields(F&& field, const FusionPlan& p) {
  field("file", p.file, Unit::none, "the model");
  field("hardware", p.hardware, Unit::none, "on what");
  field("time_model", p.time_model, Unit::none, "ideal or kernel");
  field("layout", p.layout, Unit::none, "of which one rank is planned");
  field("candidates", p.candidates, Unit::none, "chosen groups, most saved first");
  field("in_bodies", p.in_bodies, Unit::count, "ops in bodies of Loop, If and Scan, which are not searched");
  field("already_fused", p.already_fused, Unit::none, "fused ops of the file");
  field("model_time_before", p.model_time_before, Unit::second, "of the whole model");
  field("model_time_after", p.model_time_after, Unit::second, "with all groups fused");
  field("bound_before", p.bound_before, Unit::none, "of the model");
  field("bound_after", p.bound_after, Unit::none, "of the model");
  field("analysis", p.applied, Unit::none, "with the groups as ops");
  field("warnings", p.warnings, Unit::none, "faults that do not end the command");
}

}  // namespace roofcast
