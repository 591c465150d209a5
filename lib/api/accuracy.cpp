#include "roofcast/accuracy.h"

#include "api/fit_tables.h"
#include "api/model_rows.h"
#include "hw/hardware.h"
#include "measure/statistics.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace roofcast {
namespace {

// Families that a row counts in; some bars hold for the large ones alone.
std::vector<std::string> families_of(const MeasuredRow& row, const Hardware& hardware) {
  const std::string family(row.family);
  if (family == "gemm_bf16") return row.seconds >= 20e-6 ? std::vector<std::string>{"gemm_bf16_all", "gemm_bf16_20us"} : std::vector<std::string>{"gemm_bf16_all"};
  if (family == "collectives") return row.collective.bytes >= 1 << 20 ? std::vector<std::string>{"collectives_all", "collectives_1mib"} : std::vector<std::string>{"collectives_all"};
  if (family == "pointwise") {
    const double bytes = row.problems[0].bytes_read + row.problems[0].bytes_written;
    return bytes > 4 * cache_capacity(hardware).value_or(0) ? std::vector<std::string>{"pointwise_all", "pointwise_large"} : std::vector<std::string>{"pointwise_all"};
  }
  if (family == "rdma_all_reduce" && row.collective.bytes < 64 << 20) return {"rdma_all_reduce_small"};
  return {family};
}

struct Sample {
  double measured, predicted;
};

AccuracyGroup summarise(const std::vector<Sample>& samples) {
  AccuracyGroup g;
  g.rows = static_cast<int64_t>(samples.size());
  if (samples.empty()) return g;
  std::vector<double> absolute, relative;
  std::vector<std::pair<double, double>> pairs;
  double sum = 0;
  for (const Sample& s : samples) {
    const double error = s.predicted / s.measured - 1;
    relative.push_back(error), absolute.push_back(std::abs(error)), sum += std::abs(error);
    pairs.push_back({s.measured, s.predicted});
  }
  g.median_abs_error = median(absolute), g.p90 = percentile(absolute, 0.9), g.bias = median(std::move(relative));
  g.mape = sum / static_cast<double>(samples.size());
  g.kendall_tau = kendall_tau(pairs);
  return g;
}

// How often the ideal bound of a product is the one that its time shows: as one side of a product grows,
// the time of a compute-bound one grows as the FLOPs do, of a memory-bound one as the bytes do. Of pairs
// that lie on the same side of the knee, twice away from it, and whose FLOPs and bytes grow unlike.
class BoundStudy {
public:
  void add(const MeasuredRow& row, const RowDevice& device) {
    if (row.family != "gemm_bf16" || row.seconds < least_seconds) return;
    const Problem& p = row.problems.back();
    const Time t = roofline(p, device.hardware);
    if (!t.math || !t.hbm) return;
    const GemmShape s = gemm_shape(p);
    const double away = *t.math / *t.hbm;
    if (away < 2 && away > 0.5) return;
    lines_[{std::string(row.gpu), std::string(row.source), std::string(row.stack) + "|" + std::string(row.dtype), s.n, s.k}].push_back(
        {s.m, row.seconds, p.bytes_read + p.bytes_written, away > 1});
  }

  std::optional<double> agreement(const std::string& gpu, const std::string& source) const {
    int64_t pairs = 0, agree = 0;
    for (const auto& [key, points] : lines_) {
      if (std::get<0>(key) != gpu || std::get<1>(key) != source) continue;
      std::vector<Point> sorted = points;
      std::sort(sorted.begin(), sorted.end(), [](const Point& a, const Point& b) { return a.m < b.m; });
      for (size_t i = 0, j = 1; j < sorted.size(); ++j) {
        const Point &a = sorted[i], &b = sorted[j];
        if (b.m < least_growth * a.m) continue;
        i = j;
        const double growth = std::log(b.m / a.m), by_bytes = std::log(b.bytes / a.bytes) / growth;
        if (a.compute != b.compute || 1 - by_bytes < least_difference) continue;
        const double slope = std::log(b.seconds / a.seconds) / growth;
        ++pairs, agree += (std::abs(slope - 1) < std::abs(slope - by_bytes)) == a.compute;
      }
    }
    return pairs >= 20 ? std::optional(static_cast<double>(agree) / static_cast<double>(pairs)) : std::nullopt;
  }

private:
  static constexpr double least_seconds = 20e-6, least_growth = 4, least_difference = 0.3;
  struct Point {
    double m, seconds, bytes;
    bool compute;
  };
  std::map<std::tuple<std::string, std::string, std::string, double, double>, std::vector<Point>> lines_;
};

class Study {
public:
  Study(const MeasuredTables& tables, const AccuracyOptions& options) : t_(tables), options_(options) {}

  Result<Accuracy> run() {
    if (!options_.leave_out.empty())
      if (Status status = refit(); !status) return std::move(status.error());
    for (const SkippedRows& s : t_.skipped) a_.unpredicted.push_back({s.reason, s.rows});
    for (const MeasuredRow& row : t_.rows) {
      if ((row.fitted && !options_.all_rows) || (!options_.leave_out.empty() && row.gpu != options_.leave_out)) continue;
      const RowDevice* device = devices_.find(row);
      if (!device) unpredicted("no spec of " + std::string(row.gpu));
      else add(row, *device);
    }
    finish();
    return std::move(a_);
  }

private:
  using Key = std::tuple<std::string, std::string, std::string>;  // family, gpu, source
  struct Entry {
    bool bound = true;
    std::vector<Sample> samples[2];
  };

  // Constants of the left-out device's relatives, and of all others where these have none.
  Status refit() {
    FitOptions fit;
    fit.families = true, fit.leave_out = options_.leave_out, fit.leave_out_family = options_.new_generation;
    Result<FittedConstants> fitted = fit_tables(t_, fit);
    if (!fitted) return std::move(fitted.error());
    const RowDevice* device = devices_.load(options_.leave_out);
    std::map<std::string, Figure> constants = (*fitted)["families/" + device->hardware.family];
    inherit_constants(constants, (*fitted)["families/gpu"]);
    Hardware bare = device->hardware;
    bare.kernel = std::move(constants);
    without_ = kernel_constants(bare);
    return Ok{};
  }

  std::optional<double> kernel_time_of(const MeasuredRow& row, const RowDevice& device, Explanation* explanation = nullptr) const {
    if (!without_) return kernel_row_time(row, device, device.kernel, explanation);
    KernelDevice kernel = device.kernel;
    kernel.c = *without_, kernel.known = true;
    return kernel_row_time(row, device, kernel, explanation);
  }

  void unpredicted(const std::string& reason) {
    for (UnpredictedRows& u : a_.unpredicted)
      if (u.reason == reason) return void(++u.rows);
    a_.unpredicted.push_back({reason, 1});
  }

  void add(const MeasuredRow& row, const RowDevice& device) {
    std::string reason;
    const auto ideal = row.run ? models_.find(row, device, TimeModel::ideal, reason) : ideal_row_time(row, device);
    const auto kernel = row.run ? models_.find(row, device, TimeModel::kernel, reason) : kernel_time_of(row, device);
    if (!reason.empty()) return unpredicted(reason);
    if (!row.run) bounds_.add(row, device);
    if (!ideal || !kernel) {
      unpredicted(std::string(row.gpu) + " has no figure for " + std::string(row.family) + " in " + std::string(row.dtype));
      return;
    }
    const double predicted[] = {*ideal, *kernel};
    for (const std::string& family : families_of(row, device.hardware)) {
      Entry& e = groups_[{family, std::string(row.gpu), std::string(row.source)}];
      e.bound = row.bound;
      for (int i = 0; i < 2; ++i) e.samples[i].push_back({row.seconds, predicted[i]});
    }
    if (options_.worst && row.bound) ranked_.push_back({std::abs(std::log(predicted[1] / row.seconds)), predicted[1], &row});
  }

  void finish() {
    for (const auto& [key, entry] : groups_)
      for (int model = 0; model < 2; ++model) {
        AccuracyGroup g = summarise(entry.samples[model]);
        std::tie(g.family, g.gpu, g.source) = key;
        g.fitted = !without_ ? "device" : options_.new_generation ? "none" : "family";
        if (model == 0 && g.family == "gemm_bf16_20us") g.bound_agreement = bounds_.agreement(g.gpu, g.source);
        g.bound = entry.bound, g.model = name(static_cast<TimeModel>(model));
        a_.groups.push_back(std::move(g));
      }
    const size_t shown = std::min(options_.worst, ranked_.size());
    std::partial_sort(ranked_.begin(), ranked_.begin() + static_cast<long>(shown), ranked_.end(),
                      [](const auto& a, const auto& b) { return std::get<0>(a) > std::get<0>(b); });
    for (size_t i = 0; i < shown; ++i) {
      const auto& [_, predicted, at] = ranked_[i];
      const MeasuredRow& row = *at;
      WorstRow w{t_.paths[row.file], std::string(row.gpu), std::string(row.family), std::string(row.text), row.line, row.seconds};
      Explanation explanation;
      const RowDevice& device = *devices_.find(row);
      w.predicted = predicted;
      if (!row.run) kernel_time_of(row, device, &explanation);
      w.error = w.predicted / w.measured - 1;
      for (Term& t : explanation) w.terms.push_back({std::move(t.name), t.seconds, std::move(t.why)});
      a_.worst.push_back(std::move(w));
    }
  }

  const MeasuredTables& t_;
  const AccuracyOptions& options_;
  Accuracy a_;
  RowDevices devices_;
  std::optional<KernelConstants> without_;  // of a left-out device
  std::map<Key, Entry> groups_;
  std::vector<std::tuple<double, double, const MeasuredRow*>> ranked_;  // |log error|, predicted
  ModelTimes models_;
  BoundStudy bounds_;
};

}  // namespace

Result<Accuracy> accuracy(const std::vector<std::string>& files, const AccuracyOptions& options) {
  const Result<MeasuredTables> tables = read_measured_tables(files);
  if (!tables) return tables.error();
  return Study(*tables, options).run();
}

}  // namespace roofcast
