// Time and memory of one step (or one run) under a layout, from its pieces.
//
//   pipeline   m·max + (Σ − max)/v over the stages' forward and backward times: m microbatches, v chunks
//              a stage. D. Narayanan et al., "Efficient large-scale language model training on GPU
//              clusters using Megatron-LM", SC 2021; zero-bubble: P. Qi et al., arXiv 2401.10241.
//   gradients  reduced in buckets while backward still runs; ZeRO shards what they are reduced to.
//              S. Rajbhandari et al., "ZeRO", SC 2020.
//   memory     weights, gradients, optimizer states, and the activations of the microbatches that are
//              in flight on the worst stage.
#pragma once

#include "search/pieces.h"

namespace roofcast {

struct StepOptions {
  bool training = false;
  std::string optimizer = "adam";        // adam: fp32 moments and master weights; sgd: with momentum
  int64_t gradient_bytes = 0;            // of an element as it is reduced; 0: 4, with ZeRO 2 and 3 as the weights
  bool overlap = true;                   // collectives of gradients and of ZeRO 3 run beside compute
};

struct StepMemory {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0, kv_cache = 0, workspace = 0;
  int64_t worst_stage = 0;
  double total() const { return weights + gradients + optimizer + activations + kv_cache + workspace; }
};

// A collective with how often it runs in a step and what of it nothing hides.
struct StepCollective {
  Collective what;
  CollectiveTime time;
  std::string_view axis, reason;
  Phase phase = Phase::forward;
  int64_t count = 0;
  double exposed = 0;                    // seconds a call
  uint32_t position = UINT32_MAX;        // of the node that needs it; none: of the whole step
  NodeId producer;
};

struct Step {
  double time = 0;
  double compute = 0;                    // of the slowest stage, all microbatches, recomputation included
  double bubble = 0;                     // seconds that it waits for others
  double t_math = 0, t_hbm = 0, t_net = 0, t_net_exposed = 0;
  double optimizer = 0;
  double matrix_flops = 0, recomputed_flops = 0;  // of all devices together
  double matrix_peak = 0;                // of one device
  StepMemory memory;
  double first_activations = 0;          // bytes that stage 0 keeps for backward
  std::vector<StepCollective> collectives;
  std::vector<int64_t> stages;           // pieces of each
  std::vector<std::pair<uint32_t, int64_t>> slowest;  // pieces of the slowest stage: index, how many
};

// Costs steps of layouts that share their pieces. Not thread-safe.
class StepModel {
public:
  StepModel(const Hardware& hardware, TimeModel model, const StepOptions& options)
      : hardware_(hardware), collectives_(hardware, model), options_(options) {}
  // `details`: fill `collectives` and `stages`.
  Step step(const Pieces& pieces, const Layout& layout, bool details);

private:
  struct Stage {
    double forward = 0, backward = 0, matrix = 0, recomputed = 0;
    double kept = 0, working = 0, parameters = 0, expert_parameters = 0, weight_bytes = 0, expert_weight_bytes = 0;
    double t_math = 0, t_hbm = 0, t_net = 0, exposed = 0, boundary = 0, largest = 0;
    int64_t pieces = 0;
    std::vector<std::pair<uint32_t, int64_t>> of;  // index of a piece, how many
  };
  // Cuts the pieces into consecutive stages so that the slowest is as quick as can be.
  const std::vector<Stage>& stages_of(const Pieces& pieces, const Layout& layout);
  CollectiveTime wire(CollectiveKind kind, double bytes, int64_t ranks, int64_t stride);

  const Hardware& hardware_;
  CollectiveModel collectives_;
  StepOptions options_;
  std::map<std::tuple<const Pieces*, int64_t, std::string>, std::vector<Stage>> stages_;
  std::map<std::tuple<int, double, int64_t, int64_t>, CollectiveTime> wires_;
  std::vector<StepCollective> calls_;    // of data parallelism, of the step being costed
};

}  // namespace roofcast
