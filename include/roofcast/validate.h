// How far the predictions are off: a model's ops are timed one by one, or read from a recorded profile.
//
//   Result<Validation> v = validate(model, hardware, {.on = "cpu", .threads = 1});
//   v->summary.median_abs_error                         0.062
//
// The structs are the JSON document roofcast/validation/1, field by field.
#pragma once

#include "roofcast/fields.h"
#include "roofcast/hardware.h"
#include "roofcast/model.h"

#include <atomic>
#include <optional>
#include <string>
#include <vector>

namespace roofcast {

struct ValidateOptions {
  std::string on = "cpu";                   // cpu | cuda
  std::vector<std::string> select = {"top:20"};  // top:N by predicted time, all, or names of nodes or ops
  int runs = 15;                            // at least
  bool cold = true;                         // operands in no cache before each run
  int threads = 1;                          // of the CPU; 0: all
  bool causal = false;
  std::string profile;                      // of ONNX Runtime: read instead of running
  const std::atomic<bool>* stop = nullptr;  // set: end early and keep what there is
};

struct ValidatedOp {
  std::string name, op, dtype;
  std::vector<int64_t> shape;               // of output 0
  std::string size;                         // all operands, for text
  int64_t count = 1;                        // nodes that are the same
  double measured = 0, measured_min = 0;    // seconds of one run: median, least
  double spread = 0;                        // half the distance between the quartiles, of the median
  int64_t runs = 0;
  std::optional<double> predicted, predicted_ideal, error;
  std::optional<std::string> bound;
  bool noisy = false;
};

struct ValidationSummary {
  std::optional<double> median_abs_error, mape, p90, kendall_tau;
  double total_measured = 0;                // Σ count × measured of ops that have a prediction
  std::optional<double> total_predicted, total_error;
};

struct SkippedOp {
  std::string name, reason;
  int64_t count = 1;
};

struct Validation {
  std::string file, device, hardware, cache, source;  // source: measured | profile
  std::vector<ValidatedOp> ops;
  ValidationSummary summary;
  std::vector<SkippedOp> skipped;
  bool interrupted = false;
  std::vector<Diagnostic> warnings;
};

// Codes: device-missing, usage (nothing selected), file-missing, trace-kind.
Result<Validation> validate(const Model& model, const Hardware& hardware, const ValidateOptions& options);

template <class F> void fields(F&& field, const ValidatedOp& o) {
  field("name", o.name, Unit::none, "first node");
  field("op", o.op, Unit::none, "operator");
  field("shape", o.shape, Unit::none, "of output 0");
  field("dtype", o.dtype, Unit::none, "of output 0");
  field("size", o.size, Unit::none, "of all operands");
  field("count", o.count, Unit::count, "nodes that are the same");
  field("measured", o.measured, Unit::second, "median of one run");
  field("measured_min", o.measured_min, Unit::second, "least of one run");
  field("spread", o.spread, Unit::share, "half the distance between the quartiles");
  field("runs", o.runs, Unit::count, "runs timed");
  field("predicted", o.predicted, Unit::second, "by the kernel model");
  field("predicted_ideal", o.predicted_ideal, Unit::second, "by the roofline");
  field("error", o.error, Unit::share, "(predicted − measured) / measured");
  field("bound", o.bound, Unit::none, "compute, memory or overhead");
  field("noisy", o.noisy, Unit::none, "spread above 5 %");
}
template <class F> void fields(F&& field, const ValidationSummary& s) {
  field("median_abs_error", s.median_abs_error, Unit::share, "of distinct ops");
  field("mape", s.mape, Unit::share, "mean absolute error");
  field("p90", s.p90, Unit::share, "nine tenths of the errors are smaller");
  field("kendall_tau", s.kendall_tau, Unit::none, "order of predictions against order of times");
  field("total_measured", s.total_measured, Unit::second, "all nodes that have both");
  field("total_predicted", s.total_predicted, Unit::second, "of the same nodes");
  field("total_error", s.total_error, Unit::share, "of the totals");
}
template <class F> void fields(F&& field, const SkippedOp& s) {
  field("name", s.name, Unit::none, "first node");
  field("reason", s.reason, Unit::none, "why it was not timed");
  field("count", s.count, Unit::count, "nodes");
}
template <class F> void fields(F&& field, const Validation& v) {
  field("model", v.file, Unit::none, "file");
  field("device", v.device, Unit::none, "what ran the ops");
  field("hardware", v.hardware, Unit::none, "spec of the predictions");
  field("source", v.source, Unit::none, "measured, or profile");
  field("cache", v.cache, Unit::none, "cold or warm before each run");
  field("ops", v.ops, Unit::none, "one row a distinct op");
  field("summary", v.summary, Unit::none, "errors of all rows");
  field("skipped", v.skipped, Unit::none, "what was not timed");
  field("interrupted", v.interrupted, Unit::none, "ended before all were timed");
  field("warnings", v.warnings, Unit::none, "faults that do not end the command");
}

}  // namespace roofcast
