// Costs of layouts of one model on one cluster, and the search through them.
//
//   LayoutModel model(module, cluster, {.training = true, .global_batch = 512});
//   Result<Step> s = model.step(*parse_layout("dp=8,tp=8"), false);
//
// Pieces depend on the tensor, context and expert axes and on the microbatch alone, and are computed
// once for each; all else of a layout is arithmetic on them.
#pragma once

#include "search/step.h"

#include <memory>

namespace roofcast {

struct LayoutModelOptions {
  StepOptions step;
  TimeModel model = TimeModel::ideal;
  bool causal = false;
  int64_t global_batch = 0;              // 0: as the model's batch symbol is set, or 1
  std::vector<ShardPin> pins;
  int64_t dispatch_bits = 0;
  MathType product_math = MathType::none;  // see ShardingOptions
  bool fused_chains = false;
};

class LayoutModel {
public:
  LayoutModel(Module& module, const Hardware& hardware, const LayoutModelOptions& options);
  ~LayoutModel();

  // Codes: layout-batch (the batch is a constant of the file), layout-experts (nothing to spread over
  // ep), layout-link (no link reaches that far), layout-pin.
  Result<Step> step(const Layout& layout, bool details);
  // The same layout with sp=auto decided.
  Result<Layout> decide(const Layout& layout);

  // What `step` is made of, for rows of an analysis. Valid until the next call.
  Sharding& sharding(const Layout& layout);
  const Pieces& pieces(const Layout& layout);
  Costing& costing() { return costing_; }

  int64_t global_batch() const { return global_batch_; }
  void set_global_batch(int64_t batch);
  bool has_batch_symbol() const { return batch_.has_value(); }
  bool has_experts() const { return experts_ > 0; }
  int64_t experts() const { return experts_; }
  size_t blocks() const { return blocks_; }
  // Tokens of one step, all devices together; absent if the model takes none.
  std::optional<double> tokens() const {
    return tokens_ ? std::optional(*tokens_ * static_cast<double>(batch_ ? global_batch_ : 1)) : tokens_;
  }

private:
  struct Key {
    int64_t tp, cp, ep, batch;
    bool sp, gathered;
    auto operator<=>(const Key&) const = default;
  };
  struct Entry {
    Pieces pieces;
    std::optional<Diagnostic> fault;
  };
  Key key_of(const Layout& layout) const;
  const Entry& entry(const Layout& layout);
  void build(const Key& key);

  Module& m_;
  const Hardware& hardware_;
  LayoutModelOptions options_;
  std::optional<SymbolId> batch_;
  int64_t global_batch_ = 1, experts_ = 0;
  size_t blocks_ = 1;
  std::optional<double> tokens_;         // of one sample
  Bindings bound_;                       // as the user left them
  Costing costing_;
  StepModel steps_;
  std::map<Key, Entry> entries_;
  std::unique_ptr<Sharding> sharding_;   // of the key built last
  std::optional<Key> built_;
};

// What may be searched.
struct SearchSpace {
  int64_t devices = 1;
  bool training = false;
  int64_t longest_pipeline = 1;          // blocks there are
  int64_t widest_tensor = 64;
  int64_t widest_context = 1;
};
// Every layout of the space; `take` is called for each.
template <class F> void for_each_layout(const SearchSpace& space, int64_t global_batch, int64_t experts, F&& take) {
  auto divisors = [](int64_t n) {
    std::vector<int64_t> all;
    for (int64_t d = 1; d <= n; ++d)
      if (n % d == 0) all.push_back(d);
    return all;
  };
  for (int64_t tp : divisors(space.devices)) {
    if (tp > space.widest_tensor) break;
    for (int64_t cp : divisors(space.devices / tp)) {
      if (cp > space.widest_context) break;
      for (int64_t pp : divisors(space.devices / tp / cp)) {
        if (pp > space.longest_pipeline) break;
        Layout l;
        l.tp = tp, l.cp = cp, l.pp = pp, l.dp = space.devices / tp / cp / pp;
        if (global_batch % l.dp != 0) continue;
        for (int64_t ep : divisors(l.dp * l.tp)) {
          if (ep > std::max<int64_t>(1, experts) || (ep > 1 && experts % ep != 0)) break;
          l.ep = ep;
          for (int64_t mb : divisors(global_batch / l.dp)) {
            if (!space.training && mb > 1 && pp == 1) break;
            l.microbatches = mb;
            for (int sp = 0; sp < (tp > 1 ? 2 : 1); ++sp) {
              l.sp = sp;
              if (!space.training) {
                take(l);
                continue;
              }
              for (const char* recompute : {"none", "selective", "full"})
                for (int64_t zero = 0; zero <= (l.dp * l.cp > 1 ? 3 : 0); ++zero)
                  for (int64_t vpp = 1; vpp <= (pp > 1 && mb % pp == 0 ? std::min<int64_t>(8, space.longest_pipeline / pp) : 1); vpp *= 2)
                    for (const char* schedule : {"1f1b", "zero-bubble"}) {
                      if (pp == 1 && schedule[0] == 'z') continue;
                      l.recompute = recompute, l.zero = zero, l.interleave = vpp, l.schedule = schedule;
                      take(l);
                    }
              l.recompute = "none", l.zero = 0, l.interleave = 1, l.schedule = "1f1b";
            }
          }
        }
      }
    }
  }
}

}  // namespace roofcast
