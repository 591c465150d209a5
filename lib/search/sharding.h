// Which op splits which loop on each mesh axis, found by cost, and the collectives that follow.
//
//   Sharding s(costing, training);
//   s.solve({"tp", MeshAxis::Use::tensor, 8});
//   s.communications()     two all-reduces a transformer layer, found from the access notation alone
//
// One axis at a time: a walk over the nodes in order, keeping the cheapest ways to reach each state of
// the values that are still needed (a beam over placements). Blocks that repeat are solved once. With
// gradients, what backward will cost counts too: a value that every rank reads for a part of its work
// has partial gradients. M. Shoeybi et al., "Megatron-LM", arXiv 1909.08053; V. Korthikanti et al.,
// "Reducing Activation Recomputation in Large Transformer Models", arXiv 2205.05198.
#pragma once

#include "ops/gradient.h"
#include "search/blocks.h"
#include "search/placement.h"
#include "time/collectives.h"
#include "time/costing.h"

#include <map>
#include <string>
#include <vector>

namespace roofcast {

struct MeshAxis {
  std::string name;
  // tensor: weights are split where they can be. context: the sequence is, weights never.
  enum class Use : uint8_t { tensor, context } use = Use::tensor;
  int64_t ranks = 1, stride = 1;
  bool scatter = false;        // partial sums become shards (sequence parallelism)
  bool keep_gathered = false;  // what forward gathered is kept whole for backward
};

// A collective that some node needs, once a run of its block.
struct Communication {
  Collective what;
  uint32_t position = 0;   // of the node that needs it, among the main region's
  NodeId producer;         // of the value; invalid: an input or a weight
  uint8_t axis = 0;        // index of the mesh axis
  Phase phase = Phase::forward;
  std::string_view reason; // "partial sums"
  int64_t steps = 1;       // more: messages from neighbour to neighbour, beside the node's own work (ring attention)
  double exposed = 0;      // seconds of each that compute waits; set when the pieces are costed
};

// What must be split how, as users say it: a node's or tensor's name (a pattern), an axis, a dim.
struct ShardPin {
  std::string pattern, axis;
  int64_t dim = 0;
};

struct ShardingOptions {
  bool training = false;
  MathType product_math = MathType::none;  // type in which products with weights run; none: as the graph says
  bool fused_chains = false;               // pointwise ops run in the kernel of what feeds them
};

class Sharding {
public:
  Sharding(Costing& costing, const ShardingOptions& options);

  // Chooses for one more axis. Codes: layout-pin (nothing is called so, or the op cannot run so).
  Status solve(const MeshAxis& axis, const std::vector<ShardPin>& pins = {});

  // One node of those that stand for all; others repeat it.
  struct Site {
    NodeId node;
    uint32_t position = 0;
    int64_t times = 1;                       // how many nodes it stands for
    const Work* work = nullptr;              // null: nothing to do
    Problem local;                           // what one rank does
    std::vector<uint8_t> reads;              // by input: some element of it matters
    uint32_t needs = 0;                      // inputs whose gradient is wanted
    uint32_t kept = 0;                       // operands that backward reads
    Gradient gradient = Gradient::none;
    uint32_t passed_on = 0;                  // inputs whose gradient stays in a fused kernel
    bool taken_over = false;                 // the output's gradient comes from one
    bool has_work = false, is_product = false, by_columns = false;
    std::vector<std::vector<Choice::Split>> splits;  // by axis
    std::vector<std::vector<Placement>> outputs;     // by axis
  };
  const std::vector<Site>& sites() const { return sites_; }
  // The site that stands for the node at a position.
  const Site& site_at(uint32_t position) const { return sites_[site_of_[position]]; }
  const std::vector<Repeat>& repeats() const { return repeats_; }
  const std::vector<MeshAxis>& axes() const { return axes_; }
  const std::vector<Communication>& communications() const { return communications_; }

  // Bytes of a value on one rank, and of what backward keeps of it (0: nothing).
  double local_bytes(ValueId v) const { return bytes_[canonical(v)]; }
  double kept_bytes(ValueId v) const {
    const uint32_t c = canonical(v);
    return kept_ways_[c] ? full_bytes_[c] / static_cast<double>(kept_ways_[c]) : 0;
  }
  // How many pieces a weight is in, and whether its gradient is a sum over an axis that does not split it.
  int64_t pieces(ValueId weight) const { return pieces_[canonical(weight)]; }
  bool partial_gradient(ValueId weight, size_t axis) const { return partial_[canonical(weight)] >> axis & 1; }
  bool trained(ValueId weight) const { return trained_[canonical(weight)]; }
  Placement placement(ValueId v, size_t axis) const;
  bool is_weight(ValueId v) const;
  // Backward's problems of a site, `local` being its forward one.
  static std::vector<BackwardProblem> backward(const Site& site, const Problem& local);
  // Predicted time of a problem, each once.
  double seconds(const Problem& problem);

private:
  struct Live;
  struct Hypothesis;
  struct Option;
  class Walk;

  void fold();
  void describe_sites();
  void fuse_chains();
  uint32_t canonical(ValueId v) const { return canonical_[v.index]; }

  Costing& costing_;
  const Module& m_;
  ShardingOptions options_;
  bool training_;
  std::vector<Repeat> repeats_;
  std::vector<Site> sites_;                 // in order
  std::vector<uint32_t> site_of_;           // by position
  std::vector<uint32_t> canonical_;         // by value
  std::vector<double> bytes_, full_bytes_;  // by value: of one rank, of all
  std::vector<int64_t> kept_ways_;          // 0: not kept
  std::vector<uint32_t> root_;              // of a chain of views
  std::vector<int64_t> pieces_;
  std::vector<uint8_t> partial_, trained_, stateful_, shared_;
  std::vector<MeshAxis> axes_;
  std::vector<std::map<uint32_t, Placement>> placements_;  // by axis: of values and weights
  std::vector<Communication> communications_;
  struct ProblemHash {
    size_t operator()(const Problem& p) const { return hash_value(p); }
  };
  std::unordered_map<Problem, double, ProblemHash> prices_;
  double largest_weight_ = 0;               // of a product, bytes
};

}  // namespace roofcast
