#include "measure/cuda/nvml.h"

#include "support/units.h"

#include <dlfcn.h>

namespace roofcast::cuda {
namespace {

// The few entry points that are needed, as nvml.h declares them; the library comes with the driver.
struct Nvml {
  using Device = void*;
  int (*init)() = nullptr;
  int (*device_by_bus)(const char*, Device*) = nullptr;
  int (*clock)(Device, int, unsigned*) = nullptr;
  int (*most_clock)(Device, int, unsigned*) = nullptr;
  int (*power)(Device, unsigned*) = nullptr;
  int (*power_limit)(Device, unsigned*) = nullptr;
  int (*reasons)(Device, unsigned long long*) = nullptr;
  bool good = false;

  Nvml() {
    void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) return;
    auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    good = find(init, "nvmlInit_v2") && find(device_by_bus, "nvmlDeviceGetHandleByPciBusId_v2") && find(clock, "nvmlDeviceGetClockInfo") &&
           find(most_clock, "nvmlDeviceGetMaxClockInfo") && find(power, "nvmlDeviceGetPowerUsage") && find(power_limit, "nvmlDeviceGetEnforcedPowerLimit") &&
           find(reasons, "nvmlDeviceGetCurrentClocksThrottleReasons") && init() == 0;
  }
};

}  // namespace

std::optional<Sensors> read_sensors(const std::string& bus_id) {
  static const Nvml nvml;
  Nvml::Device device = nullptr;
  if (!nvml.good || nvml.device_by_bus(bus_id.c_str(), &device) != 0) return std::nullopt;
  constexpr int sm = 1;  // NVML_CLOCK_SM
  Sensors s;
  unsigned milliwatts = 0, limit = 0;
  if (nvml.clock(device, sm, &s.sm_clock_mhz) != 0) return std::nullopt;
  nvml.most_clock(device, sm, &s.most_sm_clock_mhz);
  if (nvml.power(device, &milliwatts) == 0) s.power_w = milliwatts / 1e3;
  if (nvml.power_limit(device, &limit) == 0) s.power_limit_w = limit / 1e3;
  nvml.reasons(device, &s.throttle_reasons);
  return s;
}

std::string describe(const Sensors& s) {
  // Bits of nvmlClocksThrottleReasons: software power cap, hardware slowdown, software and hardware thermal.
  constexpr unsigned long long power = 0x4, slow = 0x8, warm = 0x20, hot = 0x40;
  const char* why = s.throttle_reasons & (warm | hot) ? "heat" : s.throttle_reasons & power ? "its power limit" : s.throttle_reasons & slow ? "a hardware limit" : nullptr;
  if (!why) return {};
  return std::string("clocks are held back by ") + why + ": " + std::to_string(s.sm_clock_mhz) + " of " + std::to_string(s.most_sm_clock_mhz) + " MHz, " +
         format_quantity(s.power_w, "W") + " of " + format_quantity(s.power_limit_w, "W");
}

}  // namespace roofcast::cuda
