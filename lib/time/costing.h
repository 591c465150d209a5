// Work, Problem and Time of every node of a module, each computed once for all nodes that are alike.
#pragma once

#include "ops/count.h"
#include "time/collectives.h"

#include <unordered_map>
#include <vector>

namespace roofcast {

class Costing {
public:
  Costing(Module& module, const Hardware& hardware, TimeModel model, bool causal)
      : m_(module), hardware_(hardware), model_(model), predict_(hardware, model), collectives_(hardware, model), causal_(causal) {}

  const Module& module() const { return m_; }
  const Hardware& hardware() const { return hardware_; }
  TimeModel model() const { return model_; }
  const Predictor& predictor() const { return predict_; }
  const CollectiveModel& collectives() const { return collectives_; }

  // Every symbol's value: set, or by the contract's rules; branches nobody set are the slower ones.
  void resolve();
  // The same again after `module.bound` has changed; the symbolic work stays.
  void resolve_again() {
    evaluate_again();
    resolve();
  }
  const Bindings& values() const { return values_; }
  const std::vector<SymbolId>& defaulted() const { return defaulted_; }

  // What a node does and how long it takes, once; all by the symbols' values.
  struct Cost {
    const Work* work = nullptr;
    int64_t group = -1;               // equal problems; −1: no work, or not known
    std::string_view uncounted;       // why the cost is not known; empty: it is
  };
  Cost cost(NodeId id);
  const Problem& problem(int64_t group) const { return problems_[static_cast<size_t>(group)]; }
  const Time& time(int64_t group) const { return times_[static_cast<size_t>(group)]; }
  size_t groups() const { return problems_.size(); }
  const Instance& instance_of(int64_t group) const { return m_.instances[samples_[static_cast<size_t>(group)].index]; }
  const Work& work_of(InstanceId id);

  // Reads nothing and writes nothing when the model runs: views, and what is known at compile time.
  bool free(NodeId id) const { return free_[id.index]; }

  // How often a region's nodes run in one run of the model.
  double trips(RegionId region) const;

private:
  struct Entry {
    bool done = false;
    int64_t group = -1;
    std::string_view uncounted;
  };
  struct ProblemHash {
    size_t operator()(const Problem& p) const { return hash_value(p); }
  };

  bool is_free(NodeId id) const;
  void find_free();
  double region_time(RegionId region, Bindings& set);
  void evaluate_again();

  Module& m_;
  const Hardware& hardware_;
  TimeModel model_;
  Predictor predict_;
  CollectiveModel collectives_;
  bool causal_;
  std::vector<char> free_;
  Bindings values_;
  std::vector<SymbolId> defaulted_;
  std::vector<std::optional<Work>> works_;   // by instance
  std::vector<Entry> entries_;               // by instance
  std::unordered_map<Problem, int64_t, ProblemHash> groups_;
  std::vector<Problem> problems_;
  std::vector<Time> times_;
  std::vector<InstanceId> samples_;
};

}  // namespace roofcast
