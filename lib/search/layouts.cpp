#include "search/layouts.h"

#include "support/diagnostic.h"

namespace roofcast {

LayoutModel::LayoutModel(Module& module, const Hardware& hardware, const LayoutModelOptions& options)
    : m_(module), hardware_(hardware), options_(options), bound_(module.bound),
      costing_(module, hardware, options.model, options.causal), steps_(hardware, options.model, options.step) {
  // The batch is the first dim of the first input, by convention.
  for (ValueId v : m_.main().inputs) {
    const Type type = v.valid() ? m_[v].type : nullptr;
    if (!type || !type->is_tensor() || type->dims.empty()) continue;
    batch_ = type->dims[0].as_symbol();
    if (!batch_)
      if (const auto fixed = type->dims[0].as_constant()) global_batch_ = *fixed;
    break;
  }
  if (batch_) {
    global_batch_ = options.global_batch > 0 ? options.global_batch : m_.bound.get(*batch_).value_or(1);
    m_.bound.set(*batch_, global_batch_);
  }
  costing_.resolve();
  for (ValueId v : m_.main().inputs) {
    const Type type = v.valid() ? m_[v].type : nullptr;
    if (!type || !type->is_tensor() || !is_integer(type->dtype) || type->dims.size() != 2) continue;
    tokens_ = evaluate_real(type->elements(), costing_.values());
    if (tokens_ && batch_) *tokens_ /= static_cast<double>(global_batch_);
    break;
  }
  for (const Repeat& r : repeated_blocks(m_))
    if (r.period >= 4) blocks_ = std::max<size_t>(blocks_, r.count);
  for (const Node& node : m_.nodes) {
    const Work& work = costing_.work_of(node.instance);
    if (work.kind != Kind::moe) continue;
    for (Type t : m_.instances[node.instance.index].inputs)
      if (t && t->is_tensor() && t->dims.size() == 3 && t->dims[0].is_constant()) experts_ = std::max(experts_, t->dims[0].constant());
  }
}

LayoutModel::~LayoutModel() { m_.bound = bound_; }

void LayoutModel::set_global_batch(int64_t batch) {
  if (batch_) global_batch_ = batch;
}

LayoutModel::Key LayoutModel::key_of(const Layout& l) const {
  const int64_t share = l.dp * l.microbatches;
  return {l.tp, l.cp, l.ep, batch_ ? (global_batch_ + share - 1) / share : global_batch_, l.sp, l.keep_gathered};
}

void LayoutModel::build(const Key& key) {
  if (built_ == key) return;
  built_.reset();
  if (batch_) m_.bound.set(*batch_, key.batch);
  costing_.resolve_again();
  Entry& entry = entries_[key];
  sharding_ = std::make_unique<Sharding>(costing_, ShardingOptions{options_.step.training, options_.product_math, options_.fused_chains});
  Status status = sharding_->solve({"tp", MeshAxis::Use::tensor, key.tp, 1, key.sp, key.gathered}, options_.pins);
  if (status) status = sharding_->solve({"cp", MeshAxis::Use::context, key.cp, key.tp}, options_.pins);
  if (!status) {
    entry.fault = std::move(status.error());
    return;
  }
  // Experts lie on the ranks next to each other that share no tensor group.
  entry.pieces = pieces_of(costing_, *sharding_, options_.step.training, {key.ep, key.tp, options_.dispatch_bits});
  built_ = key;
}

const LayoutModel::Entry& LayoutModel::entry(const Layout& layout) {
  const Key key = key_of(layout);
  auto at = entries_.find(key);
  if (at == entries_.end()) build(key), at = entries_.find(key);
  return at->second;
}

Sharding& LayoutModel::sharding(const Layout& layout) {
  build(key_of(layout));
  return *sharding_;
}

const Pieces& LayoutModel::pieces(const Layout& layout) { return entry(layout).pieces; }

Result<Layout> LayoutModel::decide(const Layout& layout) {
  Layout l = layout;
  if (!l.sp_auto) return l;
  l.sp_auto = false;
  l.sp = false;
  const Result<Step> without = step(l, false);
  l.sp = l.tp > 1;
  const Result<Step> with = step(l, false);
  if (!without || !with) return without ? std::move(with.error()) : std::move(without.error());
  l.sp = l.tp > 1 && with->time < without->time;
  return l;
}

Result<Step> LayoutModel::step(const Layout& layout, bool details) {
  if (!batch_ && (layout.dp > 1 || layout.microbatches > 1))
    return error("layout-batch", "the batch is a constant of the file, " + std::to_string(global_batch_) + ", which dp and mb cannot divide",
                 {.file = m_.file}, "export the model with a symbolic batch dim");
  if (layout.ep > 1 && experts_ == 0)
    return error("layout-experts", "ep=" + std::to_string(layout.ep) + ": no op of the model holds experts to spread", {.file = m_.file},
                 "leave ep out; experts written out as separate nodes are split by tp");
  if (layout.ep > 1 && experts_ % layout.ep != 0)
    return error("layout-experts", "ep=" + std::to_string(layout.ep) + " does not divide " + std::to_string(experts_) + " experts", {.file = m_.file}, {});
  if (layout.pp > static_cast<int64_t>(std::max<size_t>(blocks_, 1)))
    return error("layout-stages", "pp=" + std::to_string(layout.pp) + ": the model has " + std::to_string(blocks_) + " repeated blocks to cut into stages", {.file = m_.file}, {});
  const Entry& e = entry(layout);
  if (e.fault) return *e.fault;
  return steps_.step(e.pieces, layout, details);
}

}  // namespace roofcast
