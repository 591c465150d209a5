// Timelines with closed-form answers: verdicts, and shares exact to 1e-9.
#include "support.h"

#include <catch2/catch.hpp>

using namespace roofcast;
using namespace roofcast::test;

namespace {

Diagnosis of(const std::vector<std::string>& events) {
  Result<Diagnosis> d = diagnose_text(trace(events));
  REQUIRE(d);
  return *d;
}

}  // namespace

TEST_CASE("loader-bound: the next launch comes late") {
  std::vector<std::string> events;
  for (int i = 0; i < 20; ++i) {
    const double start = i * 1000.0;
    events.push_back(launch(start - 10, 5, i + 1));
    events.push_back(kernel("ampere_sgemm_128x64", start, 600, i + 1));
  }
  const Diagnosis d = of(events);
  CHECK(d.verdict == "cpu_io");
  // 19 gaps of 400 µs in a span of 19.6 ms.
  CHECK(d.shares->host_wait == Approx(19 * 400.0 / 19600.0).epsilon(1e-9));
  CHECK(d.shares->compute == Approx(20 * 600.0 / 19600.0).epsilon(1e-9));
}

TEST_CASE("launch-bound: many short gaps") {
  std::vector<std::string> events;
  for (int i = 0; i < 1000; ++i) {
    events.push_back(launch(i * 10.0 - 500, 4, i + 1));
    events.push_back(kernel("elementwise_kernel", i * 10.0, 6, i + 1));
  }
  const Diagnosis d = of(events);
  CHECK(d.verdict == "cpu_io");
  CHECK(d.shares->kernel_wait == Approx(999 * 4.0 / 9996.0).epsilon(1e-9));
  CHECK(d.ranks[0].devices[0].idle.kernel_wait_gaps == 999);
}

TEST_CASE("an all-reduce of 84 % of the step, and faster links") {
  // Compute 160 µs, all-reduce 840 µs over the link; 4, 8, 12 times faster links shorten only that.
  const std::pair<double, double> cases[] = {{1, 840.0 / 1000.0}, {4, 210.0 / 370.0}, {8, 105.0 / 265.0}, {12, 70.0 / 230.0}};
  for (const auto& [faster, share] : cases) {
    std::vector<std::string> events;
    double now = 0;
    for (int i = 0; i < 10; ++i) {
      events.push_back(kernel("ampere_bf16_gemm", now, 160));
      events.push_back(kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", now + 160, 840 / faster, 0, 20));
      now += 160 + 840 / faster;
    }
    const Diagnosis d = of(events);
    INFO("links " << faster << " times faster");
    CHECK(d.shares->exposed_comm == Approx(share).epsilon(1e-9));
    CHECK(d.verdict == "communication");
    CHECK(d.where == "network");
  }
}

TEST_CASE("a busy device with pointwise kernels on top") {
  std::vector<std::string> events;
  for (int i = 0; i < 100; ++i) events.push_back(kernel(i % 4 ? "vectorized_elementwise_kernel" : "ampere_sgemm_128x64", i * 100.0, 100));
  const Diagnosis d = of(events);
  CHECK(d.verdict == "memory");
  CHECK(d.shares->compute == Approx(1).epsilon(1e-9));
}

TEST_CASE("a busy device with matrix kernels on top") {
  std::vector<std::string> events;
  for (int i = 0; i < 100; ++i) events.push_back(kernel(i % 10 ? "sm90_xmma_gemm_bf16" : "layer_norm_kernel", i * 100.0, 100));
  CHECK(of(events).verdict == "compute");
}

TEST_CASE("copies over the host link fill a busy device") {
  std::vector<std::string> events;
  for (int i = 0; i < 50; ++i) {
    events.push_back(event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", i * 100.0, 80, "\"device\": 0, \"stream\": 7, \"bytes\": 2000000"));
    events.push_back(kernel("sm90_xmma_gemm", i * 100.0 + 80, 20));
  }
  const Diagnosis d = of(events);
  CHECK(d.verdict == "communication");
  CHECK(d.where == "host_link");
  CHECK(d.shares->host_copies == Approx(0.8).epsilon(1e-9));
  CHECK(*d.ranks[0].devices[0].copies.kinds[0].bandwidth == Approx(2000000 / 80e-6));
}

TEST_CASE("overlapped collectives are not exposed") {
  const Diagnosis d = of({kernel("sm90_gemm", 0, 100), kernel("ncclDevKernel_AllReduce", 20, 60, 0, 20), kernel("sm90_gemm", 100, 100)});
  const DeviceFigures& device = d.ranks[0].devices[0];
  CHECK(device.comm.total.count() == 60'000);
  CHECK(device.comm.exposed.count() == 0);
  CHECK(device.busy.count() == 200'000);
}

TEST_CASE("parts of the span add up to it") {
  const Diagnosis d = of({kernel("sm90_gemm", 0, 10), kernel("ncclDevKernel_AllReduce", 5, 20, 0, 20), event("gpu_memcpy", "Memcpy DtoH", 22, 9, "\"device\": 0, \"stream\": 9"),
                          kernel("softmax", 50, 3), kernel("add", 60.5, 1)});
  const TimeShares& s = *d.shares;
  CHECK(s.compute + s.exposed_comm + s.host_copies + s.device_copies + s.host_wait + s.kernel_wait + s.other_idle == Approx(1).epsilon(1e-12));
}
