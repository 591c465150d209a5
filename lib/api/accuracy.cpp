#include "roofcast/accuracy.h"

#include "api/row_prediction.h"
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

class Study {
public:
  Study(const MeasuredTables& tables, const AccuracyOptions& options) : t_(tables), options_(options) {}

  Accuracy run() {
    for (const SkippedRows& s : t_.skipped) a_.unpredicted.push_back({s.reason, s.rows});
    for (const MeasuredRow& row : t_.rows) {
      if (row.fitted && !options_.all_rows) continue;
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

  void unpredicted(const std::string& reason) {
    for (UnpredictedRows& u : a_.unpredicted)
      if (u.reason == reason) return void(++u.rows);
    a_.unpredicted.push_back({reason, 1});
  }

  void add(const MeasuredRow& row, const RowDevice& device) {
    const auto ideal = ideal_row_time(row, device), kernel = kernel_row_time(row, device, device.kernel);
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
    if (options_.worst && row.bound) ranked_.push_back({std::abs(std::log(predicted[1] / row.seconds)), &row});
  }

  void finish() {
    for (const auto& [key, entry] : groups_)
      for (int model = 0; model < 2; ++model) {
        AccuracyGroup g = summarise(entry.samples[model]);
        std::tie(g.family, g.gpu, g.source) = key;
        g.bound = entry.bound, g.model = name(static_cast<TimeModel>(model));
        a_.groups.push_back(std::move(g));
      }
    const size_t shown = std::min(options_.worst, ranked_.size());
    std::partial_sort(ranked_.begin(), ranked_.begin() + static_cast<long>(shown), ranked_.end(),
                      [](const auto& a, const auto& b) { return a.first > b.first; });
    for (size_t i = 0; i < shown; ++i) {
      const MeasuredRow& row = *ranked_[i].second;
      WorstRow w{t_.paths[row.file], std::string(row.gpu), std::string(row.family), std::string(row.text), row.line, row.seconds};
      Explanation explanation;
      const RowDevice& device = *devices_.find(row);
      w.predicted = kernel_row_time(row, device, device.kernel, &explanation).value_or(0);
      w.error = w.predicted / w.measured - 1;
      for (Term& t : explanation) w.terms.push_back({std::move(t.name), t.seconds, std::move(t.why)});
      a_.worst.push_back(std::move(w));
    }
  }

  const MeasuredTables& t_;
  const AccuracyOptions& options_;
  Accuracy a_;
  RowDevices devices_;
  std::map<Key, Entry> groups_;
  std::vector<std::pair<double, const MeasuredRow*>> ranked_;
};

}  // namespace

Result<Accuracy> accuracy(const std::vector<std::string>& files, const AccuracyOptions& options) {
  const Result<MeasuredTables> tables = read_measured_tables(files);
  if (!tables) return tables.error();
  return Study(*tables, options).run();
}

}  // namespace roofcast
