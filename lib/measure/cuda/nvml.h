// Clocks, power and throttling, by NVML, loaded when it is there.
#pragma once

#include <optional>
#include <string>

namespace roofcast::cuda {

struct Sensors {
  unsigned sm_clock_mhz = 0, most_sm_clock_mhz = 0;
  double power_w = 0, power_limit_w = 0;
  unsigned long long throttle_reasons = 0;
};

// Absent without the library, or where it refuses. `bus_id` is "0000:3b:00.0".
std::optional<Sensors> read_sensors(const std::string& bus_id);

// One phrase on what may have disturbed the times; empty if nothing is known.
std::string describe(const Sensors& sensors);

}  // namespace roofcast::cuda
