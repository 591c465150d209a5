// ai.onnx.ml: trees, linear and support vector models, encoders. Products of linear models and of SVM
// kernels are matrix FLOPs. A tree takes one comparison a level (its deepest path) and one addition;
// tables in attributes are taken as cached.
#include "ops/op_table.h"
#include "ops/rules.h"

#include <algorithm>
#include <map>

namespace roofcast {
namespace {

size_t length(const OpView& v, const char* name) {
  const Attribute* a = v.attribute(name);
  if (!a) return 0;
  return std::max({a->ints.size(), a->floats.size(), a->strings.size(),
                   a->tensor.type && a->tensor.type->elements().is_constant() ? static_cast<size_t>(a->tensor.type->elements().constant()) : size_t{0}});
}

// [n, features] or [features] (one row).
Expr rows(const OpView& v) { return !v.ranked(0) ? Expr() : v.rank(0) >= 2 ? v.dim(0, 0) : Expr(1); }
Expr features(const OpView& v) { return !v.ranked(0) || v.rank(0) == 0 ? Expr() : v.dim(0, v.rank(0) - 1); }

// Labels are strings or int64, as the attribute that is given.
DType label_type(const OpView& v) { return length(v, "classlabels_strings") > 0 ? DType::string : DType::int64; }
size_t class_count(const OpView& v) {
  for (const char* name : {"classlabels_ints", "classlabels_int64s", "classlabels_strings"})
    if (const size_t n = length(v, name)) return n;
  return 0;
}

void infer_classifier(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const size_t classes = class_count(c);
  size_t scores = classes;
  // A linear binary classifier with one row of coefficients still gives two scores.
  if (c.op_name() == "SVMClassifier" && length(c, "vectors_per_class") > 0 && length(c, "prob_a") == 0 && classes > 2)
    scores = classes * (classes - 1) / 2;
  c.output(0, label_type(c), {rows(c)});
  c.output(1, DType::float32, {rows(c), scores ? Expr(static_cast<int64_t>(scores)) : Expr()});
}

void infer_regressor(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const int64_t targets = c.integer(c.op_name() == "LinearRegressor" ? "targets" : "n_targets", 1);
  const DType d = c.op_name() == "TreeEnsemble" ? c.dtype(0) : DType::float32;
  c.output(0, d, {rows(c), c.op_name() == "SVMRegressor" ? Expr(1) : Expr(targets)});
}

void linear_work(const OpView& v, Work& w) {
  const Expr products = rows(v) * static_cast<int64_t>(length(v, "coefficients"));
  w.matrix_flops = products * 2;
  w.vector_flops = v.out(v.output_count() > 1 ? 1 : 0) ? v.out(v.output_count() > 1 ? 1 : 0)->elements() * 2 : Expr(0);
}

void svm_work(const OpView& v, Work& w) {
  Expr vectors = v.integer("n_supports", 0);
  if (const auto per_class = v.integers("vectors_per_class")) {
    vectors = 0;
    for (int64_t n : *per_class) vectors += Expr(n);
  }
  if (vectors == Expr(0)) vectors = static_cast<int64_t>(length(v, "coefficients"));
  w.matrix_flops = rows(v) * vectors * features(v) * 2;
  w.vector_flops = rows(v) * vectors * 4;  // kernel function, weight, sum
}

// Depths of all trees, added up: comparisons that one row takes at most.
int64_t total_depth(const std::vector<int64_t>& trees, const std::vector<int64_t>& ids, const std::vector<int64_t>& left, const std::vector<int64_t>& right) {
  const size_t n = std::min({trees.size(), ids.size(), left.size(), right.size()});
  std::map<std::pair<int64_t, int64_t>, size_t> at;
  for (size_t i = 0; i < n; ++i) at.emplace(std::pair(trees[i], ids[i]), i);
  std::vector<int64_t> depth(n, 0);
  std::map<int64_t, int64_t> deepest;
  // Children stand behind their parents in every exporter's order; others count as roots.
  for (size_t i = 0; i < n; ++i) {
    deepest[trees[i]] = std::max(deepest[trees[i]], depth[i]);
    for (int64_t child : {left[i], right[i]}) {
      const auto found = at.find({trees[i], child});
      if (found != at.end() && found->second > i) depth[found->second] = std::max(depth[found->second], depth[i] + 1);
    }
  }
  int64_t total = 0;
  for (const auto& [tree, d] : deepest) total += d;
  return total;
}

void tree_work(const OpView& v, Work& w) {
  const auto list = [&](const char* name) { return v.integers(name).value_or(std::vector<int64_t>{}); };
  const std::vector<int64_t> trees = list("nodes_treeids");
  const int64_t depth = total_depth(trees, list("nodes_nodeids"), list("nodes_truenodeids"), list("nodes_falsenodeids"));
  std::vector<int64_t> distinct = trees;
  std::sort(distinct.begin(), distinct.end());
  const auto count = std::unique(distinct.begin(), distinct.end()) - distinct.begin();
  w.vector_flops = rows(v) * (depth + static_cast<int64_t>(count));
}
// Version 5: nodes by index from each root; leaves in lists of their own.
void ensemble_work(const OpView& v, Work& w) {
  const auto roots = v.integers("tree_roots").value_or(std::vector<int64_t>{});
  const auto left = v.integers("nodes_truenodeids").value_or(std::vector<int64_t>{}), right = v.integers("nodes_falsenodeids").value_or(std::vector<int64_t>{});
  const auto left_leaf = v.integers("nodes_trueleafs").value_or(std::vector<int64_t>{}), right_leaf = v.integers("nodes_falseleafs").value_or(std::vector<int64_t>{});
  const size_t n = std::min({left.size(), right.size(), left_leaf.size(), right_leaf.size()});
  int64_t total = 0;
  std::vector<char> seen(n);
  for (int64_t root : roots) {
    std::vector<std::pair<int64_t, int64_t>> open{{root, 1}};
    int64_t deepest = 0;
    while (!open.empty()) {
      const auto [i, depth] = open.back();
      open.pop_back();
      if (i < 0 || i >= static_cast<int64_t>(n) || seen[static_cast<size_t>(i)]) continue;
      const size_t at = static_cast<size_t>(i);
      seen[at] = 1;
      deepest = std::max(deepest, depth);
      if (!left_leaf[at]) open.push_back({left[at], depth + 1});
      if (!right_leaf[at]) open.push_back({right[at], depth + 1});
    }
    total += deepest + 1;
  }
  w.vector_flops = rows(v) * total;
}

void infer_zip_map(InferContext& c) {
  const bool strings = length(c, "classlabels_strings") > 0;
  const Type value = c.module.tensor(DType::float32, {});
  const Type map = c.module.type({.kind = TypeKind::map, .dtype = strings ? DType::string : DType::int64, .element = value});
  c.output(0, c.module.type({.kind = TypeKind::sequence, .element = map}));
}

// Columns of the last dim, chosen by index.
void infer_extract(InferContext& c) {
  if (!c.need_inputs(2)) return;
  const Expr taken = c.in(1) && c.ranked(1) ? c.in(1)->elements() : Expr();
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  if (c.rank(0) < 2) return c.output(0, c.dtype(0), {1, taken});
  std::vector<Expr> dims = c.in(0)->dims;
  dims.back() = taken;
  c.output(0, c.dtype(0), std::move(dims));
}

void infer_as_float(InferContext& c) {
  if (!c.need_inputs(1)) return;
  if (c.ranked(0)) c.output(0, DType::float32, c.in(0)->dims);
  else c.output_unranked(0, DType::float32);
}

void infer_label_encoder(InferContext& c) {
  if (!c.need_inputs(1)) return;
  DType d = DType::undefined;
  if (const Attribute* t = c.attribute("values_tensor"); t && t->tensor.type) d = t->tensor.type->dtype;
  else if (c.attribute("values_strings")) d = DType::string;
  else if (c.attribute("values_int64s")) d = DType::int64;
  else if (c.attribute("values_floats")) d = DType::float32;
  else if (c.attribute("classes_strings")) d = c.dtype(0) == DType::string ? DType::int64 : DType::string;
  if (c.ranked(0)) c.output(0, d, c.in(0)->dims);
  else c.output_unranked(0, d);
}
void infer_category(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const DType d = c.dtype(0) == DType::string ? DType::int64 : DType::string;
  if (c.ranked(0)) c.output(0, d, c.in(0)->dims);
  else c.output_unranked(0, d);
}
void infer_one_hot(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const int64_t n = static_cast<int64_t>(std::max(length(c, "cats_int64s"), length(c, "cats_strings")));
  if (!c.ranked(0)) return c.output_unranked(0, DType::float32);
  std::vector<Expr> dims = c.in(0)->dims;
  dims.push_back(n);
  c.output(0, DType::float32, std::move(dims));
}
void infer_vectorizer(InferContext& c) {
  if (!c.need_inputs(1)) return;
  Expr total = 0;
  if (const auto dims = c.integers("inputdimensions"))
    for (int64_t d : *dims) total += Expr(d);
  else
    for (size_t i = 0; i < c.input_count(); ++i) total = c.ranked(i) && c.rank(i) > 0 && total.is_known() ? total + c.dim(i, c.rank(i) - 1) : Expr();
  c.output(0, DType::float32, {rows(c), total});
}
void infer_dictionary(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const int64_t n = static_cast<int64_t>(std::max(length(c, "int64_vocabulary"), length(c, "string_vocabulary")));
  const Type value = c.in(0) && c.in(0)->kind == TypeKind::map ? c.in(0)->element : nullptr;
  c.output(0, value && value->is_tensor() ? value->dtype : DType::undefined, {1, n});
}
void infer_cast_map(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const std::string_view to = c.string("cast_to", "TO_FLOAT");
  const DType d = to == "TO_STRING" ? DType::string : to == "TO_INT64" ? DType::int64 : DType::float32;
  const Expr width = c.string("map_form", "DENSE") == "SPARSE" ? Expr(c.integer("max_map", 1)) : c.fresh("entries", {});
  c.output(0, d, {1, width});
}

template <int PerElement> void per_element(const OpView& v, Work& w) {
  if (v.out(0) && v.out(0)->is_tensor()) w.vector_flops = v.out(0)->elements() * PerElement;
}
void extract_work(const OpView& v, Work& w) { w.reads[0] = v.output_bytes(0); }

#define ML(op_name, version) .domain = "ai.onnx.ml", .name = op_name, .since = version, .kind = Kind::classic_ml

constexpr OpInfo table[] = {
    {ML("ArrayFeatureExtractor", 1), .infer = infer_extract, .work = extract_work, .formula = "0; bytes columns taken + indices + outputs"},
    {ML("Binarizer", 1), .access = "b.. -> b..", .cost = {.vector_per_point = 1}},
    {ML("CastMap", 1), .infer = infer_cast_map},
    {ML("CategoryMapper", 1), .infer = infer_category, .work = per_element<1>, .formula = "1 per element"},
    {ML("DictVectorizer", 1), .infer = infer_dictionary},
    {ML("FeatureVectorizer", 1), .infer = infer_vectorizer},
    {ML("Imputer", 1), .access = "b.. -> b..", .cost = {.vector_per_point = 2}},
    {ML("LabelEncoder", 1), .infer = infer_label_encoder, .work = per_element<1>, .formula = "1 per element"},
    {ML("LinearClassifier", 1), .infer = infer_classifier, .work = linear_work, .formula = "matrix 2*rows*coefficients; vector 2 per score"},
    {ML("LinearRegressor", 1), .infer = infer_regressor, .work = linear_work, .formula = "matrix 2*rows*coefficients; vector 2 per target"},
    {ML("Normalizer", 1), .infer = infer_as_float, .work = per_element<3>, .formula = "3*n"},
    {ML("OneHotEncoder", 1), .infer = infer_one_hot, .work = per_element<1>, .formula = "1 per output"},
    {ML("SVMClassifier", 1), .infer = infer_classifier, .work = svm_work, .formula = "matrix 2*rows*vectors*features; vector 4 per row and vector"},
    {ML("SVMRegressor", 1), .infer = infer_regressor, .work = svm_work, .formula = "matrix 2*rows*vectors*features; vector 4 per row and vector"},
    {ML("Scaler", 1), .infer = infer_as_float, .work = per_element<2>, .formula = "2*n"},
    {ML("TreeEnsemble", 5), .infer = infer_regressor, .work = ensemble_work, .formula = "rows*(deepest path + 1) summed over trees"},
    {ML("TreeEnsembleClassifier", 1), .infer = infer_classifier, .work = tree_work, .formula = "rows*(deepest path + 1) summed over trees"},
    {ML("TreeEnsembleRegressor", 1), .infer = infer_regressor, .work = tree_work, .formula = "rows*(deepest path + 1) summed over trees"},
    {ML("ZipMap", 1), .infer = infer_zip_map, .formula = "0"},
};

}  // namespace

OpFamily classic_ml_ops() { return table; }

}  // namespace roofcast
