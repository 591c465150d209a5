// Fusion by theory: which sets of ops can run as one kernel, and the set of sets that is quickest.
//
// A set can run as one kernel if
//   it is convex           no path leaves it and comes back
//   its tiles agree        ops without a reduction work on the same grid; reductions on the same lines,
//                          which fit a tile or have an online form (softmax, mean and variance); one
//                          product takes pointwise prologues and epilogues; two products fuse through
//                          lines of scores that are never whole (attention); products that read the
//                          same operand run as one (Q, K and V)
// Its traffic is what comes in (times reloads) and what others read. S. Williams et al., CACM 52(4),
// 2009; online softmax: M. Milakov, N. Gimelshein, arXiv 1805.02867; T. Dao et al., NeurIPS 2022.
#pragma once

#include "search/sharding.h"

#include <span>
#include <string>
#include <vector>

namespace roofcast {

// The ops of a module as fusion sees them: only those that do work; views have no node of their own.
struct FusionGraph {
  struct Edge {
    uint32_t node = 0;          // at the other end
    uint32_t value = 0;         // root of the views between them
  };
  // Elements that run together: `length` of them, each `inner` apart in memory. 1: none; inner < 0: not
  // one run. Views keep it, whatever shape they show.
  struct Block {
    double length = 1, inner = 1;
  };
  struct Op {
    NodeId node;
    uint32_t position = 0;      // in the main region
    int64_t times = 1;          // nodes that it stands for
    Kind kind = Kind::opaque;
    const Work* work = nullptr;
    Problem problem;
    double seconds = 0;
    Time time;
    double elements = 0;        // of the first output
    double lines = 0;               // of a reduction: how many
    Block reduced;                  // and what a line is made of
    bool permutes = false;          // its output's elements come in another order than its input's
    double k = 0, n = 0, m = 0;     // of a product: summed size; what operand B alone gives; the rest
    double rows = 0;                // of m: what operand A alone gives
    double head = 0;                // of a product of activations: its output's last dim
    bool weighted = false;          // a product with a weight
    bool scales = false;            // by weights alone, channel by channel: folds into the weights of a product before it
    bool alone = false;             // cannot be fused at all
    Collective exchange;            // of a collective between ops of a layout, which has no node of its own
    std::vector<uint32_t> inputs;   // values (roots)
    std::vector<double> input_bytes;
    std::vector<Block> spread;      // by input: over what it is broadcast
    std::vector<uint32_t> outputs;
    std::vector<double> output_bytes;
  };
  std::vector<Op> ops;                          // in order
  std::vector<std::vector<Edge>> consumers, producers;  // by op
  std::vector<uint32_t> maker;                  // by value: op; UINT32_MAX: none
  std::vector<uint32_t> uses;                   // by value: ops that read it, graph outputs counted
  std::vector<bool> is_output;                  // by value
};
// Under a layout: what one rank does, with the collectives between.
FusionGraph fusion_graph(Costing& costing, const Fold& fold, const Sharding* sharding = nullptr,
                         std::span<const Communication> communications = {});

inline bool is_product(Kind k) { return k == Kind::contraction || k == Kind::convolution; }
inline bool reduces(const FusionGraph::Op& op) { return op.reduced.length > 1; }

// A set of ops as one kernel.
struct FusedKernel {
  bool valid = false;
  std::string_view limit;       // why it is not: "reduction order", "tile too large", …
  double seconds = 0;
  double cost = 0;              // what the planner minimises: seconds, and of equals what is hidden too
  Time time;
  double bytes = 0;             // traffic
  double on_chip = 0;           // bytes of a tile
  Problem problem;
  std::vector<uint32_t> folded; // members that go into the weights before the model runs
};

// Places by number, all forgotten at once: a map whose clearing costs nothing.
class Places {
public:
  static constexpr uint32_t none = UINT32_MAX;
  void forget(size_t numbers) { at_.resize(numbers), ++round_; }
  uint32_t of(uint32_t number) const { return at_[number].round == round_ ? at_[number].place : none; }
  void set(uint32_t number, size_t place) { at_[number] = {round_, static_cast<uint32_t>(place)}; }

private:
  struct At {
    uint32_t round = 0, place = 0;
  };
  std::vector<At> at_;
  uint32_t round_ = 0;
};

class FusionPlanner {
public:
  FusionPlanner(const FusionGraph& graph, const Hardware& hardware, TimeModel model);

  static constexpr size_t most_ops = 64;  // of one kernel

  // Members in ascending order; `convex`: known to be so.
  FusedKernel kernel(const std::vector<uint32_t>& members, bool convex = false) const;
  bool is_convex(const std::vector<uint32_t>& members) const;

  // Groups of two ops or more; every other op runs alone. Connected parts of up to so many ops exactly,
  // larger ones by merging the pair of neighbours that saves most, beginning with whole attentions.
  static constexpr size_t exact_ops = 14;
  std::vector<std::vector<uint32_t>> plan(size_t exact = exact_ops) const;

  // Why a group does not take in more of its neighbours.
  std::string limits_of(const std::vector<uint32_t>& members) const;

private:
  double hidden(const Problem& p) const;
  std::vector<std::vector<uint32_t>> every_order(const std::vector<uint32_t>& component) const;
  std::vector<std::vector<uint32_t>> greedy(const std::vector<uint32_t>& component) const;
  std::vector<uint32_t> attention_of(uint32_t second) const;

  const FusionGraph& g_;
  const Hardware& hardware_;
  TimeModel model_;
  Predictor predictor_;
  double scratch_ = 0;          // bytes of a core's own memory
  double byte_time_ = 0;        // s per byte of memory
  mutable Places ops_, values_;         // among the members of the set at hand
  mutable std::vector<uint32_t> seen_;  // by op: the search that met it last
  mutable uint32_t search_ = 0;
};

// All-gather with a product, or a product with a reduce-scatter, in n steps: while one part computes,
// the next is on its way. Seconds of both apart; latency of a step.
double decomposed_overlap(double compute, double communication, int64_t parts, double latency);

// The known name of a group ("flash attention", "bias + GELU epilogue"); empty: none. And who has such a
// kernel, with where that is written.
using Implementations = std::vector<std::pair<std::string_view, std::string_view>>;  // runtime, source
struct FusionLabel {
  std::string name;
  Implementations implemented_by;
};
FusionLabel label_of(const FusionGraph& graph, const std::vector<uint32_t>& members, const Module& module);
Implementations overlap_implementations();  // of products with the collectives beside them

// The groups of the folded graph, at every place where they stand: nodes, ascending.
std::vector<std::vector<NodeId>> places_of(const FusionGraph& graph, const std::vector<uint32_t>& members, const Fold& fold,
                                           const Module& module);

}  // namespace roofcast
