// Predicted times of rows of measured tables.
#pragma once

#include "measure/tables.h"
#include "time/kernel/kernel.h"

#include <map>
#include <memory>
#include <optional>
#include <string_view>

namespace roofcast {

// A device with what predictions of many rows share.
struct RowDevice {
  RowDevice(std::string spec_name, Hardware h);
  RowDevice(const RowDevice&) = delete;

  std::string spec;    // file below hwspecs, without its ending
  Hardware hardware;
  KernelDevice kernel;
  CollectiveModel collectives;
};

// Devices of the tables, each loaded once; absent: no spec. A device under a software stack may have a
// spec of its own over the device's: stacks/h100-sxm-trtllm.
class RowDevices {
public:
  const RowDevice* find(const MeasuredRow& row);
  const RowDevice* load(std::string_view name);

private:
  std::map<std::string, std::unique_ptr<RowDevice>, std::less<>> devices_;
  std::map<std::pair<std::string_view, std::string_view>, const RowDevice*> by_row_;
};

// Seconds; absent: the hardware lacks a figure.
std::optional<double> ideal_row_time(const MeasuredRow& row, const RowDevice& device);
std::optional<double> kernel_row_time(const MeasuredRow& row, const RowDevice& device, const KernelDevice& kernel,
                                      Explanation* explanation = nullptr);

}  // namespace roofcast
