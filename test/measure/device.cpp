// Host logic of accelerators on a device made up here: its clock moves as the test says.
#include "measure/device.h"

#include <catch2/catch.hpp>

#include <map>

namespace roofcast {
namespace {

struct FakeDevice {
  DeviceTable table;
  std::map<void*, std::vector<std::byte>> memory;
  double clock = 0;
  size_t capacity = 1 << 20, used = 0;
  size_t swept = 0;
  int launches = 0;

  FakeDevice() {
    table.name = "fake", table.cache_bytes = 1000;
    table.free_memory = [this] { return static_cast<double>(capacity - used); };
    table.allocate = [this](size_t bytes) -> void* {
      if (used + bytes > capacity) return nullptr;
      std::vector<std::byte> block(bytes);
      void* const at = block.data();
      memory[at] = std::move(block);
      used += bytes;
      return at;
    };
    table.release = [this](void* p) { used -= memory.at(p).size(), memory.erase(p); };
    table.fill = [this](void*, int, size_t bytes) { swept += bytes; };
    table.elapsed = [this](const std::function<void()>& run) {
      const double before = clock;
      run();
      return clock - before + 2e-6;  // what two events cost
    };
  }
  std::function<void()> op(double seconds) {
    return [this, seconds] { clock += seconds, ++launches; };
  }
};

}  // namespace

TEST_CASE("cold runs sweep the cache each time and leave out what events cost", "[measure]") {
  FakeDevice device;
  const std::vector<double> samples = time_on_device(device.table, device.op(5e-6), {.runs = 10, .cold = true, .least_s = 0});
  REQUIRE(samples.size() == 10);
  for (double s : samples) CHECK(s == Approx(5e-6));
  CHECK(device.swept == 10 * 2000);
  CHECK(device.used == 0);
}

TEST_CASE("warm runs of a short op go back to back", "[measure]") {
  FakeDevice device;
  const std::vector<double> samples = time_on_device(device.table, device.op(1e-6), {.runs = 4, .cold = false, .least_s = 0});
  REQUIRE(samples.size() == 4);
  CHECK(samples[0] == Approx(1e-6).epsilon(0.05));  // the events' cost is spread over many
  CHECK(device.launches > 4 * 50);
  CHECK(device.swept == 0);
}

TEST_CASE("a stopped timing ends at once", "[measure]") {
  FakeDevice device;
  const std::atomic<bool> stop = true;
  CHECK(time_on_device(device.table, device.op(1e-6), {.runs = 4, .stop = &stop}).empty());
}

TEST_CASE("device memory is given back, and its end is bad_alloc", "[measure]") {
  FakeDevice device;
  {
    DeviceBuffer a(device.table, 1000);
    DeviceBuffer b = std::move(a);
    CHECK(a.data() == nullptr);
    CHECK(b.data() != nullptr);
    CHECK(device.used == 1000);
    CHECK_THROWS_AS(DeviceBuffer(device.table, size_t{1} << 30), std::bad_alloc);
  }
  CHECK(device.used == 0);
}

}  // namespace roofcast
