// How far predictions are from published measurements, by source, device and family of ops.
//
//   Result<Accuracy> a = accuracy({"gemm.csv", "attention.csv"}, {});
//   a->groups[0].median_abs_error                       0.051
//
// Rows of which the CRC-32 of the comma-joined shape columns is even may have been fitted on; the
// others are reported. The structs are the JSON document roofcast/accuracy/1, field by field.
#pragma once

#include "roofcast/fields.h"
#include "roofcast/result.h"

#include <optional>
#include <string>
#include <vector>

namespace roofcast {

struct AccuracyOptions {
  size_t worst = 0;                  // rows to list with the terms of their prediction
  bool all_rows = false;             // report fitted rows too
  std::string leave_out;             // report this device alone, with constants that were fitted without it
  bool new_generation = false;       // and without its family
};

struct AccuracyGroup {
  std::string source, gpu, family, model;   // model: ideal | kernel
  std::string fitted;                // constants: device | family | none
  bool bound = true;                 // bars hold for it; else it is reported only
  int64_t rows = 0;
  std::optional<double> median_abs_error, mape, p90, bias, kendall_tau;
  std::optional<double> bound_agreement;  // of products: how often the bound is the one that the times' slope shows
  // Of layouts: which set of cases; order over it; of groups that differ in layout alone, how often the
  // predicted best is the measured one, and how much slower it is on average.
  std::optional<std::string> set;
  std::optional<int64_t> of_rows;
  std::optional<double> spearman, top1, mean_regret;
};

struct UnpredictedRows {
  std::string reason;
  int64_t rows = 0;
};

struct PredictionTerm {
  std::string name;
  double seconds = 0;
  std::string why;
};

struct WorstRow {
  std::string file, gpu, family, text;
  int64_t line = 0;
  double measured = 0, predicted = 0, error = 0;
  std::vector<PredictionTerm> terms;
};

struct Accuracy {
  std::vector<AccuracyGroup> groups;
  std::vector<UnpredictedRows> unpredicted;
  std::vector<WorstRow> worst;
  std::vector<Diagnostic> warnings;
};

// What one constant of the kernel model buys: errors with it, and with "no such effect" in its place, all
// others left as they are.
struct AblationRow {
  std::string use, constant, meaning;
  int64_t rows = 0;
  double median_with = 0, median_without = 0, p90_with = 0, p90_without = 0;
};
struct Ablation {
  std::vector<AblationRow> rows;
  std::vector<Diagnostic> warnings;
};
Result<Ablation> ablation(const std::vector<std::string>& files);

// Published cases of layouts (columns of layouts/published.csv) against predicted steps.
Result<Accuracy> layout_accuracy(const std::vector<std::string>& files, const AccuracyOptions& options);

// Codes: file-missing, file-kind, hw-key.
Result<Accuracy> accuracy(const std::vector<std::string>& files, const AccuracyOptions& options);

template <class F> void fields(F&& field, const AccuracyGroup& g) {
  field("source", g.source, Unit::none, "who measured");
  field("gpu", g.gpu, Unit::none, "device, as --hw takes it");
  field("family", g.family, Unit::none, "kind of op");
  field("fitted", g.fitted, Unit::none, "where constants are from: device, family or none");
  field("model", g.model, Unit::none, "ideal or kernel");
  field("bound", g.bound, Unit::none, "bars hold for it");
  field("rows", g.rows, Unit::count, "rows that were not fitted on");
  field("median_abs_error", g.median_abs_error, Unit::share, "of |predicted − measured| / measured");
  field("mape", g.mape, Unit::share, "mean of the same");
  field("p90", g.p90, Unit::share, "nine tenths of the errors are smaller");
  field("bias", g.bias, Unit::share, "median of (predicted − measured) / measured");
  field("kendall_tau", g.kendall_tau, Unit::none, "order of predictions against order of times");
  field("bound_agreement", g.bound_agreement, Unit::share, "products whose bound the slope of the times confirms");
  field("set", g.set, Unit::none, "of layouts: where the cases come from");
  field("of_rows", g.of_rows, Unit::count, "cases of the set");
  field("spearman", g.spearman, Unit::none, "rank correlation");
  field("top1", g.top1, Unit::share, "groups whose predicted best layout is the measured best");
  field("mean_regret", g.mean_regret, Unit::share, "how much slower the predicted best is");
}
template <class F> void fields(F&& field, const UnpredictedRows& u) {
  field("reason", u.reason, Unit::none, "why there is no prediction");
  field("rows", u.rows, Unit::count, "rows");
}
template <class F> void fields(F&& field, const PredictionTerm& t) {
  field("name", t.name, Unit::none, "term");
  field("seconds", t.seconds, Unit::second, "its time");
  field("why", t.why, Unit::none, "how it came about");
}
template <class F> void fields(F&& field, const WorstRow& w) {
  field("file", w.file, Unit::none, "table");
  field("line", w.line, Unit::count, "line of it");
  field("gpu", w.gpu, Unit::none, "device");
  field("family", w.family, Unit::none, "kind of op");
  field("text", w.text, Unit::none, "the row");
  field("measured", w.measured, Unit::second, "time in the table");
  field("predicted", w.predicted, Unit::second, "by the kernel model");
  field("error", w.error, Unit::share, "(predicted − measured) / measured");
  field("terms", w.terms, Unit::none, "of the prediction");
}
template <class F> void fields(F&& field, const AblationRow& r) {
  field("use", r.use, Unit::none, "sort of kernel");
  field("constant", r.constant, Unit::none, "of the kernel model");
  field("meaning", r.meaning, Unit::none, "what it stands for");
  field("rows", r.rows, Unit::count, "rows that were not fitted on");
  field("median_with", r.median_with, Unit::share, "median absolute error");
  field("median_without", r.median_without, Unit::share, "the same without the effect");
  field("p90_with", r.p90_with, Unit::share, "nine tenths of the errors are smaller");
  field("p90_without", r.p90_without, Unit::share, "the same without the effect");
}
template <class F> void fields(F&& field, const Ablation& a) {
  field("rows", a.rows, Unit::none, "by sort of kernel and constant");
  field("warnings", a.warnings, Unit::none, "faults that do not end the command");
}
template <class F> void fields(F&& field, const Accuracy& a) {
  field("groups", a.groups, Unit::none, "errors by source, device, family and model");
  field("unpredicted", a.unpredicted, Unit::none, "rows without a prediction");
  field("worst", a.worst, Unit::none, "rows with the largest errors");
  field("warnings", a.warnings, Unit::none, "faults that do not end the command");
}

}  // namespace roofcast
