#include "measure/device.h"

#include "measure/statistics.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>
#include <utility>

namespace roofcast {

DeviceBuffer::DeviceBuffer(const DeviceTable& device, size_t bytes) : device_(&device), size_(bytes) {
  data_ = device.allocate(std::max<size_t>(bytes, 16));
  if (!data_) throw std::bad_alloc();
}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(device_, other.device_), std::swap(data_, other.data_), std::swap(size_, other.size_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (data_) device_->release(data_);
}

std::vector<double> time_on_device(const DeviceTable& device, const std::function<void()>& launch, const RunOptions& options) {
  constexpr int warm_up = 3;
  constexpr double least_interval = 200e-6;  // a thousand times the resolution of device clocks
  constexpr int most_launches = 1000;
  for (int i = 0; i < warm_up; ++i) launch();
  const double once = device.elapsed(launch);

  DeviceBuffer sweep;
  double nothing = 0;
  int launches = 1;
  if (options.cold) {
    // Twice the cache: nothing of the operands stays.
    sweep = DeviceBuffer(device, static_cast<size_t>(2 * device.cache_bytes));
    std::vector<double> empty;
    for (int i = 0; i < 9; ++i) empty.push_back(device.elapsed([] {}));
    nothing = median(empty);
  } else {
    launches = std::clamp(static_cast<int>(std::ceil(least_interval / std::max(once, 1e-7))), 1, most_launches);
  }

  std::vector<double> samples;
  double total = 0;
  const auto begin = std::chrono::steady_clock::now();
  while (!(options.stop && *options.stop)) {
    if (options.cold) device.fill(sweep.data(), static_cast<int>(samples.size()), sweep.size());
    const double interval = device.elapsed([&] {
      for (int i = 0; i < launches; ++i) launch();
    });
    samples.push_back(std::max((interval - nothing) / launches, 1e-9));
    total += interval;
    const double past = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const bool enough = static_cast<int>(samples.size()) >= options.runs && total >= std::min(options.least_s, options.most_s);
    if (enough || (past > options.most_s && samples.size() >= 5) || past > 5 * options.most_s) break;
  }
  return samples;
}

}  // namespace roofcast
