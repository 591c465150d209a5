#include "api/fit_stages.h"
#include "measure/statistics.h"
#include "roofcast/accuracy.h"

#include <cmath>

namespace roofcast {
namespace {

struct Errors {
  double median = 0, p90 = 0;
};

// A device's rows that judge one sort of kernel.
struct Sample {
  const RowDevice* device = nullptr;
  std::vector<const MeasuredRow*> rows;
};

Errors errors_of(const std::vector<Sample>& samples, const KernelConstant* without) {
  static const KernelConstants none;
  std::vector<double> all;
  for (const Sample& s : samples) {
    KernelDevice device = s.device->kernel;
    if (without) without->of(device.c) = without->of(none);
    for (const MeasuredRow* row : s.rows)
      if (const auto predicted = kernel_row_time(*row, *s.device, device)) all.push_back(std::abs(*predicted / row->seconds - 1));
  }
  return all.empty() ? Errors() : Errors{roofcast::median(all), percentile(all, 0.9)};
}

}  // namespace

Result<Ablation> ablation(const std::vector<std::string>& files) {
  const Result<MeasuredTables> tables = read_measured_tables(files);
  if (!tables) return tables.error();
  constexpr size_t most_rows = 500;  // of a device: each constant is tried on all of them
  RowDevices devices;
  Ablation out;
  for (const FitStage& stage : fit_stages()) {
    std::map<const RowDevice*, std::vector<const MeasuredRow*>> by_device;
    for (const MeasuredRow& row : tables->rows) {
      const RowDevice* device = row.fitted || row.run ? nullptr : devices.find(row);
      if (device && stage.takes(row, device->kernel)) by_device[device].push_back(&row);
    }
    std::vector<Sample> samples;
    int64_t rows = 0;
    for (auto& [device, all] : by_device) {
      Sample s{device, {}};
      const size_t count = std::min(all.size(), most_rows);
      for (size_t i = 0; i < count; ++i) s.rows.push_back(all[i * all.size() / count]);
      rows += static_cast<int64_t>(count);
      samples.push_back(std::move(s));
    }
    if (samples.empty()) continue;
    const Errors with = errors_of(samples, nullptr);
    for (const KernelConstant& c : kernel_constant_table()) {
      if (c.use != stage.use) continue;
      const Errors without = errors_of(samples, &c);
      out.rows.push_back({std::string(stage.name), std::string(c.name), std::string(c.meaning), rows, with.median, without.median, with.p90, without.p90});
    }
  }
  return out;
}

}  // namespace roofcast
