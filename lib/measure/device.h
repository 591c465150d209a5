// What the host does with an accelerator, apart from which one it is: buffers, cold and warm timing.
//
// A backend fills the table of functions; tests fill it with a device of their own.
#pragma once

#include "measure/backend.h"

#include <functional>
#include <string>

namespace roofcast {

struct DeviceTable {
  std::string name;
  double cache_bytes = 0;                                       // last-level cache
  std::function<double()> free_memory;                          // bytes
  std::function<void*(size_t)> allocate;                        // null: out of memory
  std::function<void(void*)> release;
  std::function<void(void* to, const void* from, size_t)> upload, download;
  std::function<void(void*, int, size_t)> fill;
  // Device seconds from before the first to after the last of the launches.
  std::function<double(const std::function<void()>& launches)> elapsed;
};

// Memory on the device, given back at the end.
class DeviceBuffer {
public:
  DeviceBuffer() = default;
  DeviceBuffer(const DeviceTable& device, size_t bytes);        // throws std::bad_alloc
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  void* data() const { return data_; }
  size_t size() const { return size_; }

private:
  const DeviceTable* device_ = nullptr;
  void* data_ = nullptr;
  size_t size_ = 0;
};

// Seconds of each run. Cold: the cache is swept before every launch, and what timing nothing takes is
// taken off. Warm: launches back to back, so many that their time is far above the clock's resolution.
std::vector<double> time_on_device(const DeviceTable& device, const std::function<void()>& launch, const RunOptions& options);

}  // namespace roofcast
