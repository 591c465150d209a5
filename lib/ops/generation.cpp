// Generation of text as one op, and the small ops around it. A search runs its decoder, a body,
// until data says stop: its shapes are known, its cost is not.
#include "ops/attention.h"
#include "ops/op_table.h"
#include "ops/rules.h"

namespace roofcast {
namespace {

bool has_rank(const OpView& v, size_t i, size_t rank) { return v.ranked(i) && v.rank(i) == rank; }

// Sequences [b, returned, max_length] (or [b, max_length]), their scores, scores a step.
template <bool Beams> void infer_search(InferContext& c) {
  if (!c.need_inputs(2)) return;
  const bool ranked = c.ranked(0) && c.rank(0) >= 1;
  const Expr batch = ranked ? c.dim(0, 0) : Expr(), length = scalar_expr(c, 1);
  if (!Beams) {
    c.output(0, DType::int32, {batch, length});
    c.output_unranked(1, DType::float32);
    return;
  }
  const Expr returned = c.has(4) ? scalar_expr(c, 4) : Expr(1), beams = scalar_expr(c, 3);
  const int64_t vocabulary = c.integer("vocab_size", -1);
  const Expr prompt = has_rank(c, 0, 2) ? c.dim(0, 1) : Expr();
  c.output(0, DType::int32, {batch, returned, length});
  c.output(1, DType::float32, {batch, returned});
  c.output(2, DType::float32, {length - prompt, batch, beams,
                               vocabulary > 0 ? Expr(vocabulary) : Expr()});
}

// Predicted tokens that agree with the source are appended to the current ones.
void infer_bifurcation(InferContext& c) {
  if (!c.need_inputs(3)) return;
  const Expr now = has_rank(c, 1, 1) ? c.dim(1, 0) : Expr();
  const Expr added = !c.has(3) ? Expr(0) : has_rank(c, 3, 1) ? c.dim(3, 0) : Expr();
  c.output(0, c.dtype(1), {c.has(3) ? c.fresh("tokens", now + added) : now});
  c.output(1, c.dtype(2), {});
}

// Ids [.., s] → hashes [.., s, (n − 1)·heads] and the last n − 1 ids, of all n-grams up to n.
template <bool Packed> void infer_hash(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const int64_t n = c.integer("max_ngram_size", 0), heads = c.integer("n_head_per_ngram", 0);
  if (n < 2 || heads < 1)
    return c.fail("onnx-attribute", "needs max_ngram_size and n_head_per_ngram");
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  std::vector<Expr> dims = c.in(0)->dims;
  const Expr batch = !Packed              ? (dims.empty() ? Expr() : dims[0])
                     : has_rank(c, 3, 1) ? c.dim(3, 0) - 1
                                         : Expr();
  dims.push_back(Expr(n - 1) * heads);
  c.output(0, c.dtype(0), std::move(dims));
  c.output(1, c.dtype(0), {batch, Expr(n - 1)});
  c.output(2, DType::int32, {batch, Expr(n - 1)});
  c.output(3, c.dtype(0), {batch, Expr(c.integer("state_update_capacity", 0)), Expr(n - 1)});
}
// A token: n products, n − 1 exclusive ors, a remainder (and an offset) a hash.
void hash_work(const OpView& v, Work& w) {
  const int64_t n = v.integer("max_ngram_size", 0), heads = v.integer("n_head_per_ngram", 0);
  const size_t offsets = v.op_name() == "NGramHashMapping" ? 4 : 5;
  if (!v.in(0) || !v.ranked(0)) return;
  w.vector_flops =
      v.in(0)->elements() * (Expr(n) * 2 - 1 + Expr(n - 1) * heads * (v.has(offsets) ? 2 : 1));
}

// Control words of each request, 16 to a batch item.
void infer_commit(InferContext& c) {
  if (!c.need_inputs(5)) return;
  c.output(0, DType::int32, {c.ranked(3) ? floor_div(c.in(3)->elements(), 16) : Expr()});
  c.output(1, c.in(3)), c.output(2, c.in(4));
}

// Which blocks of a cache a token may attend to: [.., chosen]; states keep their types.
void infer_indexer(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const Expr chosen = c.string("policy_mode", "qsa") == "csa"
                          ? Expr(c.integer("index_topk", 0))
                          : Expr(c.integer("token_budget", 0)) + c.integer("compress_ratio", 1) - 1;
  if (!c.ranked(0) || c.rank(0) < 1) return c.output_unranked(0, DType::int32);
  std::vector<Expr> dims = c.in(0)->dims;
  dims.back() = chosen;
  c.output(0, DType::int32, std::move(dims));
}
void infer_merge(InferContext& c) {
  if (!c.need_inputs(3)) return;
  const Expr queries = has_rank(c, 2, 1) ? c.dim(2, 0) : Expr();
  c.output(0, DType::int32, {queries, Expr(c.integer("max_output_entries", 0))});
  for (size_t i : {1, 2}) c.output(i, DType::int32, {queries});
}

#define MICROSOFT(op_name, op_kind) \
  .domain = "com.microsoft", .name = op_name, .since = 1, .kind = op_kind
#define SEARCH(op_name, beams) \
  {MICROSOFT(op_name, Kind::opaque), .infer = infer_search<beams>, \
   .uncounted = "generates tokens until data says stop; analyse its decoder graph instead"}

constexpr std::string_view by_state =
    "how many blocks a token scores is in its state, read when it runs";

constexpr OpInfo table[] = {
    SEARCH("BeamSearch", true), SEARCH("WhisperBeamSearch", true), SEARCH("GreedySearch", false),
    SEARCH("Sampling", false),
    {MICROSOFT("NGramRepeatBlock", Kind::lookup),
     .infer = [](InferContext& c) { if (c.need_inputs(2)) c.output(0, c.in(1)); }, .formula = "0"},
    {MICROSOFT("BifurcationDetector", Kind::lookup), .infer = infer_bifurcation, .formula = "0"},
    {MICROSOFT("SpeculativePrefixCommit", Kind::lookup), .infer = infer_commit, .formula = "0"},
    {MICROSOFT("NGramHashMapping", Kind::pointwise), .infer = infer_hash<false>, .work = hash_work,
     .formula = "per token 2*n - 1, 1 a hash, 1 more with offsets"},
    {MICROSOFT("VarlenNGramHashMapping", Kind::pointwise), .infer = infer_hash<true>,
     .work = hash_work, .formula = "per token 2*n - 1, 1 a hash, 1 more with offsets"},
    {MICROSOFT("SparseAttentionIndexer", Kind::attention), .infer = infer_indexer,
     .uncounted = by_state},
    {MICROSOFT("PackedSparseAttentionIndexer", Kind::attention), .infer = infer_indexer,
     .uncounted = by_state},
    {MICROSOFT("PackedSparseAttentionIndexerMerge", Kind::lookup), .infer = infer_merge,
     .formula = "0"},
};

}  // namespace

OpFamily generation_ops() { return table; }

}  // namespace roofcast
