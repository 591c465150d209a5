#include "api/row_prediction.h"

namespace roofcast {

RowDevice::RowDevice(std::string spec_name, Hardware h) : spec(std::move(spec_name)), hardware(std::move(h)), kernel(hardware), collectives(hardware, TimeModel::kernel) {}

const RowDevice* RowDevices::load(std::string_view name) {
  if (const auto at = devices_.find(name); at != devices_.end()) return at->second.get();
  std::unique_ptr<RowDevice>& device = devices_[std::string(name)];
  if (Result<Hardware> loaded = load_hardware(std::string(name))) device = std::make_unique<RowDevice>(std::string(name), std::move(*loaded));
  return device.get();
}

const RowDevice* RowDevices::find(const MeasuredRow& row) {
  const auto [at, is_new] = by_row_.try_emplace({row.gpu, row.stack}, nullptr);
  if (is_new) {
    const std::string_view stack = row.stack.substr(0, row.stack.find(' '));
    if (!stack.empty()) at->second = load("stacks/" + std::string(row.gpu) + "-" + std::string(stack));
    if (!at->second) at->second = load(row.gpu);
  }
  return at->second;
}

std::optional<double> ideal_row_time(const MeasuredRow& row, const RowDevice& device) {
  double seconds = 0;
  if (row.collective.kind != CollectiveKind::none) {
    const auto time = device.collectives.time(row.collective, nullptr).seconds;
    if (!time) return std::nullopt;
    seconds = *time;
  }
  for (const Problem& p : row.problems) {
    const Time time = roofline(p, device.hardware);
    if (!time.ideal) return std::nullopt;
    seconds += *time.ideal;
  }
  return seconds;
}

std::optional<double> kernel_row_time(const MeasuredRow& row, const RowDevice& device, const KernelDevice& kernel, Explanation* explanation) {
  const bool collective = row.collective.kind != CollectiveKind::none;
  if (!kernel.known && !collective) return ideal_row_time(row, device);
  double seconds = 0;
  if (collective) {
    const auto time = device.collectives.time(row.collective, &kernel.c, explanation).seconds;
    if (!time) return std::nullopt;
    seconds = *time;
  }
  for (const Problem& p : row.problems) seconds += kernel_time(p, kernel, explanation).seconds;
  // The host is done before a long collective is, but not with what runs the moment it is called.
  if (collective) return row.timing == Timing::eager ? std::max(seconds, kernel.c.all_reduce.eager) : seconds;
  const double host = row.timing == Timing::host ? kernel.c.host_overhead : row.timing == Timing::eager ? kernel.c.eager_overhead : 0;
  if (explanation && host > 0) explanation->push_back({"host", host, "its part of one timed call"});
  return seconds + host;
}

}  // namespace roofcast
