// Ranks parallel layouts of a model on a cluster.
//
//   Result<LayoutSearch> s = layouts(model, cluster, {.devices = {64}, .global_batch = 512, .train = true});
//   s->best->layout.text()       "dp=8,tp=8,mb=8,sp"
//
// The model must be loaded with `keep_symbols`. The structs are the JSON document roofcast/layouts/1.
#pragma once

#include "roofcast/analyze.h"

#include <optional>
#include <string>
#include <vector>

namespace roofcast {

// What a layout search and an analysis under a layout share.
struct ParallelOptions {
  std::optional<Layout> layout;       // the user's own
  int64_t global_batch = 0;           // 0: as the batch symbol is set
  bool train = false;
  std::string optimizer = "adam";     // adam | sgd
  int64_t gradient_bytes = 0;         // of an element as it is reduced; 0: by ZeRO stage
  bool overlap = true;
  int64_t dispatch_bits = 0;          // of an element sent to an expert; 0: as computed
  std::vector<std::string> shard;     // pins, "pattern=axis:dim"
};

struct LayoutsOptions {
  ParallelOptions parallel;
  std::vector<int64_t> devices{8};    // several: how the best layout scales
  std::string model = "ideal";        // time model
  bool causal = false;
  size_t top = 10;
};

struct LayoutMemory {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0, kv_cache = 0, workspace = 0, total = 0;
  int64_t worst_stage = 0;
};

struct LayoutCandidate {
  Layout layout;
  std::string text;                   // "dp=8,tp=8"
  int64_t devices = 1;
  double time = 0;
  std::optional<double> tokens_per_s, tokens_per_s_per_device, mfu, hfu;
  bool fits = true;
  std::optional<std::string> why_not; // why it does not fit, and what would make it
  LayoutMemory memory;
  double t_math = 0, t_hbm = 0, t_net = 0, t_net_exposed = 0, bubble = 0;
  std::vector<CollectiveRow> collectives;
  std::optional<std::string> why;     // against the runner-up, or the best
  bool pareto = false;                // no other is quicker in less memory
};

struct ScalingPoint {
  int64_t devices = 0;
  std::string layout;
  double time = 0;
  std::optional<double> tokens_per_s, mfu, hfu, efficiency;  // tokens/s a device, against the first point
  double t_net_exposed = 0;
  bool fits = true;
};

struct LayoutSearch {
  std::string file, hardware;
  std::string phase = "inference";
  std::string time_model = "ideal";
  int64_t global_batch = 1;
  int64_t searched = 0, feasible = 0;
  double seconds = 0;
  std::optional<LayoutCandidate> best;
  std::optional<LayoutCandidate> guess;               // the user's own layout
  std::vector<LayoutCandidate> candidates;            // quickest that fit; if none fits, those that lack least
  std::vector<LayoutCandidate> pareto;                // by time and memory
  std::vector<ScalingPoint> scaling;
  std::optional<int64_t> communication_from;          // devices from which exposed communication takes most time
  std::vector<Diagnostic> warnings;
};

// Codes: layout-batch, layout-experts, layout-stages, layout-pin, layout-devices.
Result<LayoutSearch> layouts(const Model& model, const Hardware& hardware, const LayoutsOptions& options);

// Rows and totals of one device under a layout, with its collectives; backward and optimizer in training.
Result<Analysis> analyze_parallel(const Model& model, const Hardware& hardware, const AnalyzeOptions& options,
                                  const ParallelOptions& parallel);

template <class F> void fields(F&& field, const LayoutMemory& m) {
  field("weights", m.weights, Unit::byte, "of one device");
  field("gradients", m.gradients, Unit::byte, "as they are kept");
  field("optimizer", m.optimizer, Unit::byte, "states and master weights");
  field("activations", m.activations, Unit::byte, "kept for backward, of all microbatches in flight");
  field("kv_cache", m.kv_cache, Unit::byte, "keys and values");
  field("workspace", m.workspace, Unit::byte, "largest buffers, gathered weights");
  field("total", m.total, Unit::byte, "of the worst stage");
  field("worst_stage", m.worst_stage, Unit::count, "pipeline stage that needs most");
}
template <class F> void fields(F&& field, const LayoutCandidate& c) {
  field("layout", c.layout, Unit::none, "axes");
  field("text", c.text, Unit::none, "as --layout takes it");
  field("devices", c.devices, Unit::count, "that it takes");
  field("time", c.time, Unit::second, "of a step");
  field("tokens_per_s", c.tokens_per_s, Unit::per_second, "of the whole job");
  field("tokens_per_s_per_device", c.tokens_per_s_per_device, Unit::per_second, "of one device");
  field("mfu", c.mfu, Unit::share, "model FLOPs utilisation");
  field("hfu", c.hfu, Unit::share, "with what is computed again");
  field("fits", c.fits, Unit::none, "into the memory of a device");
  field("why_not", c.why_not, Unit::none, "what is too large, and what would help");
  field("memory", c.memory, Unit::byte, "of the worst stage");
  field("t_math", c.t_math, Unit::second, "FLOPs / peak of a device");
  field("t_hbm", c.t_hbm, Unit::second, "bytes / memory bandwidth");
  field("t_net", c.t_net, Unit::second, "all collectives");
  field("t_net_exposed", c.t_net_exposed, Unit::second, "of those, what compute waits for");
  field("bubble", c.bubble, Unit::second, "a stage waits for others");
  field("collectives", c.collectives, Unit::none, "communication of the layout");
  field("why", c.why, Unit::none, "what decides");
  field("pareto", c.pareto, Unit::none, "no other is quicker in less memory");
}
template <class F> void fields(F&& field, const ScalingPoint& p) {
  field("devices", p.devices, Unit::count, "of the cluster");
  field("layout", p.layout, Unit::none, "the best one");
  field("time", p.time, Unit::second, "of a step");
  field("tokens_per_s", p.tokens_per_s, Unit::per_second, "of the whole job");
  field("mfu", p.mfu, Unit::share, "model FLOPs utilisation");
  field("hfu", p.hfu, Unit::share, "with what is computed again");
  field("efficiency", p.efficiency, Unit::share, "throughput a device, against the first point");
  field("t_net_exposed", p.t_net_exposed, Unit::second, "communication that compute waits for");
  field("fits", p.fits, Unit::none, "into memory");
}
template <class F> void fields(F&& field, const LayoutSearch& s) {
  field("file", s.file, Unit::none, "the model");
  field("hardware", s.hardware, Unit::none, "the cluster");
  field("phase", s.phase, Unit::none, "inference or training");
  field("time_model", s.time_model, Unit::none, "ideal or kernel");
  field("global_batch", s.global_batch, Unit::count, "of all devices");
  field("searched", s.searched, Unit::count, "layouts");
  field("feasible", s.feasible, Unit::count, "that fit into memory");
  field("seconds", s.seconds, Unit::second, "that the search took");
  field("best", s.best, Unit::none, "the quickest that fits");
  field("guess", s.guess, Unit::none, "the user's own");
  field("candidates", s.candidates, Unit::none, "quickest first");
  field("pareto", s.pareto, Unit::none, "quickest for their memory");
  field("scaling", s.scaling, Unit::none, "the best by number of devices");
  field("communication_from", s.communication_from, Unit::count, "devices from which exposed communication leads");
  field("warnings", s.warnings, Unit::none, "faults that do not end the command");
}

}  // namespace roofcast
