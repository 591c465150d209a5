// Sequences, optionals and strings. A sequence passes references; only Split and Concat move bytes.
#include "ops/op_table.h"
#include "ops/rules.h"

namespace roofcast {
namespace {

Type sequence_of(Module& m, Type element) { return m.type({.kind = TypeKind::sequence, .element = element}); }
Type optional_of(Module& m, Type element) { return m.type({.kind = TypeKind::optional, .element = element}); }

Type element_of(Type t) { return t && (t->kind == TypeKind::sequence || t->kind == TypeKind::optional) ? t->element : nullptr; }

// A type that holds for both: dims that differ become unknown.
Type common(Module& m, Type a, Type b) {
  if (!a || !b || a == b) return a ? a : b;
  if (!a->is_tensor() || !b->is_tensor() || a->dtype != b->dtype) return nullptr;
  if (!a->ranked || !b->ranked || a->dims.size() != b->dims.size()) return m.unranked(a->dtype);
  std::vector<Expr> dims = a->dims;
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] != b->dims[d]) dims[d] = {};
  return m.tensor(a->dtype, std::move(dims));
}

void infer_construct(InferContext& c) {
  if (!c.need_inputs(1)) return;
  Type element = c.in(0);
  for (size_t i = 1; i < c.input_count(); ++i) element = common(c.module, element, c.in(i));
  c.output(0, sequence_of(c.module, element));
}

void infer_empty(InferContext& c) {
  const int64_t d = c.integer("dtype", 1);
  c.output(0, sequence_of(c.module, d > 0 && d < dtype_count ? c.module.unranked(static_cast<DType>(d)) : nullptr));
}

void infer_insert(InferContext& c) {
  if (!c.need_inputs(2)) return;
  const Type own = element_of(c.in(0));
  // What was empty so far says nothing of its dims.
  const bool open = !own || (own->is_tensor() && !own->ranked);
  c.output(0, sequence_of(c.module, open ? c.in(1) : common(c.module, own, c.in(1))));
}

void infer_at(InferContext& c) {
  if (c.need_inputs(2)) c.output(0, element_of(c.in(0)));
}

void infer_scalar(InferContext& c) {
  if (c.need_inputs(1)) c.output(0, c.instance.op->result, {});
}

// Parts of one size, or of sizes given as a vector; with keepdims = 0 each is one slice without the axis.
void infer_split(InferContext& c) {
  if (!c.need_inputs(1)) return;
  if (!c.ranked(0)) return c.output(0, sequence_of(c.module, c.module.unranked(c.dtype(0))));
  const auto axis = c.axis(c.integer("axis", 0), c.rank(0));
  if (!axis) return;
  std::vector<Expr> dims = c.in(0)->dims;
  const auto sizes = c.has(1) ? c.exprs(1) : std::nullopt;
  if (!c.has(1)) {
    dims[*axis] = 1;
    if (!c.integer("keepdims", 1)) dims.erase(dims.begin() + static_cast<ptrdiff_t>(*axis));
  } else if (!sizes || sizes->empty()) {
    dims[*axis] = {};
  } else if (c.ranked(1) && c.rank(1) == 0) {
    const Expr part = (*sizes)[0], whole = dims[*axis];
    // The last part is smaller if the size does not divide.
    const bool even = part.is_known() && whole.is_known() && part != Expr(0) && mod(whole, part) == Expr(0);
    dims[*axis] = even ? part : Expr();
  } else {
    Expr same = (*sizes)[0];
    for (Expr s : *sizes)
      if (s != same) same = {};
    dims[*axis] = same;
  }
  c.output(0, sequence_of(c.module, c.module.tensor(c.dtype(0), std::move(dims))));
}

void infer_concat(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const Type e = element_of(c.in(0));
  if (!e || !e->is_tensor()) return;
  if (!e->ranked) return c.output_unranked(0, e->dtype);
  const bool stack = c.integer("new_axis", 0) != 0;
  const size_t rank = e->dims.size() + (stack ? 1 : 0);
  const auto axis = c.axis(c.integer("axis", 0), rank);
  if (!axis) return;
  std::vector<Expr> dims = e->dims;
  // How many elements there are is known only when the model runs.
  const Expr count = c.fresh("length", {});
  if (stack) dims.insert(dims.begin() + static_cast<ptrdiff_t>(*axis), count);
  else dims[*axis] = dims[*axis].is_known() ? dims[*axis] * count : count;
  c.output(0, e->dtype, std::move(dims));
}

void infer_optional(InferContext& c) {
  const Attribute* type = c.attribute("type");
  c.output(0, optional_of(c.module, c.has(0) ? c.in(0) : type ? type->type : nullptr));
}
void infer_get(InferContext& c) {
  if (!c.need_inputs(1)) return;
  c.output(0, c.in(0) && c.in(0)->kind == TypeKind::optional ? element_of(c.in(0)) : c.in(0));
}

// ---- Strings

void infer_split_strings(InferContext& c) {
  if (!c.need_inputs(1)) return;
  if (!c.ranked(0)) return c.output_unranked(0, DType::string);
  std::vector<Expr> dims = c.in(0)->dims;
  c.output(1, DType::int64, dims);
  dims.push_back(c.fresh("pieces", {}));
  c.output(0, DType::string, std::move(dims));
}
void infer_normalizer(InferContext& c) {
  if (!c.need_inputs(1)) return;
  if (!c.ranked(0) || c.rank(0) == 0) return c.output_unranked(0, DType::string);
  std::vector<Expr> dims = c.in(0)->dims;
  // Stop words are dropped; an emptied list becomes one empty string.
  if (const Attribute* words = c.attribute("stopwords"); words && !words->strings.empty()) dims.back() = c.fresh("", dims.back(), 1);
  c.output(0, DType::string, std::move(dims));
}
void infer_tfidf(InferContext& c) {
  if (!c.need_inputs(1)) return;
  int64_t longest = -1;
  if (const auto columns = c.integers("ngram_indexes"))
    for (int64_t i : *columns) longest = std::max(longest, i);
  if (!c.ranked(0)) return c.output_unranked(0, DType::float32);
  std::vector<Expr> dims;
  if (c.rank(0) == 2) dims.push_back(c.dim(0, 0));
  dims.push_back(longest + 1);
  c.output(0, DType::float32, std::move(dims));
}
void infer_tokenizer(InferContext& c) {
  if (!c.need_inputs(1)) return;
  if (!c.ranked(0)) return c.output_unranked(0, DType::string);
  std::vector<Expr> dims = c.in(0)->dims;
  dims.push_back(c.fresh("tokens", {}));
  c.output(0, DType::string, std::move(dims));
}

void no_bytes(const OpView&, Work& w) {
  for (Expr& r : w.reads) r = 0;
  for (Expr& r : w.writes) r = 0;
}
void per_element(const OpView& v, Work& w) {
  if (v.in(0) && v.in(0)->is_tensor()) w.vector_flops = v.in(0)->elements();
}
void split_work(const OpView& v, Work& w) {
  if (w.reads.size() > 1) w.reads[1] = 0;
  w.writes[0] = v.bytes(0);
}
void concat_work(const OpView& v, Work& w) { w.reads[0] = v.output_bytes(0); }

constexpr OpInfo table[] = {
    {.name = "SequenceConstruct", .since = 11, .kind = Kind::sequence, .infer = infer_construct, .work = no_bytes},
    {.name = "SequenceEmpty", .since = 11, .kind = Kind::sequence, .infer = infer_empty, .work = no_bytes},
    {.name = "SequenceInsert", .since = 11, .kind = Kind::sequence, .infer = infer_insert, .work = no_bytes},
    {.name = "SequenceErase", .since = 11, .kind = Kind::sequence, .infer = [](InferContext& c) { if (c.need_inputs(1)) c.output(0, c.in(0)); }, .work = no_bytes},
    {.name = "SequenceAt", .since = 11, .kind = Kind::sequence, .infer = infer_at, .work = no_bytes},
    {.name = "SequenceLength", .since = 11, .kind = Kind::sequence, .infer = infer_scalar, .work = no_bytes, .result = DType::int64},
    {.name = "SplitToSequence", .since = 11, .kind = Kind::movement, .infer = infer_split, .work = split_work, .formula = "0; bytes the input, then its parts"},
    {.name = "ConcatFromSequence", .since = 11, .kind = Kind::movement, .infer = infer_concat, .work = concat_work, .formula = "0; bytes elements, then their concatenation"},
    {.name = "Optional", .since = 15, .kind = Kind::sequence, .infer = infer_optional, .work = no_bytes},
    {.name = "OptionalHasElement", .since = 15, .kind = Kind::sequence, .infer = [](InferContext& c) { c.output(0, DType::boolean, {}); }, .work = no_bytes},
    {.name = "OptionalGetElement", .since = 15, .kind = Kind::sequence, .infer = infer_get, .work = no_bytes},

    {.name = "StringConcat", .since = 20, .kind = Kind::pointwise, .access = "b.., b.. -> b..", .access_rule = broadcast_all, .formula = "0; bytes 8 per string"},
    {.name = "StringSplit", .since = 20, .kind = Kind::pointwise, .infer = infer_split_strings, .formula = "0; bytes 8 per string"},
    {.name = "StringNormalizer", .since = 10, .kind = Kind::pointwise, .infer = infer_normalizer, .formula = "0; bytes 8 per string"},
    {.name = "RegexFullMatch", .since = 20, .kind = Kind::pointwise, .access = "b.. -> b..", .result = DType::boolean, .cost = {.vector_per_point = 1}},
    {.name = "TfIdfVectorizer", .since = 9, .kind = Kind::lookup, .infer = infer_tfidf, .work = per_element, .formula = "1 per input element"},
    {.domain = "com.microsoft", .name = "Tokenizer", .since = 1, .kind = Kind::pointwise, .infer = infer_tokenizer, .work = per_element, .formula = "1 per string"},
    {.domain = "com.microsoft", .name = "MurmurHash3", .since = 1, .kind = Kind::pointwise,
     .infer = [](InferContext& c) {
       if (!c.need_inputs(1)) return;
       const DType d = c.integer("positive", 1) ? DType::uint32 : DType::int32;
       if (c.ranked(0)) c.output(0, d, c.in(0)->dims);
       else c.output_unranked(0, d);
     }, .work = per_element, .formula = "1 per element"},
};

}  // namespace

OpFamily sequence_ops() { return table; }

}  // namespace roofcast
