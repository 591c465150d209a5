#include "roofcast/calibrate.h"
#include "roofcast/validate.h"

#include "ir/print.h"
#include "measure/workload.h"
#include "passes/pass.h"

#include <catch2/catch.hpp>

namespace roofcast {
namespace {

Model model(const std::string& text) {
  Result<std::unique_ptr<Module>> module = parse(text, "test");
  REQUIRE(module);
  REQUIRE(infer_types(**module));
  return Model{std::shared_ptr<Module>(std::move(*module))};
}

Hardware cpu() {
  Hardware h;
  h.name = "test-cpu", h.family = "cpu";
  h.matrix_peak["fp32"] = h.vector_peak["fp32"] = {1e11, "test", {}};
  h.memory["hbm"].bandwidth = Figure{4e10, "test", {}};
  return h;
}

constexpr const char* mlp = R"(opset "" 17
graph @"g"(%x: f32[8, 64], %w: f32[64, 32]) -> (%c) {
  %a = MatMul(%x, %w) : ? @"fc"
  %b = Relu(%a) : ? @"act"
  %b2 = Relu(%a) : ? @"act2"
  %c = CumSum(%b, %x) : ? @"sum"
}
)";

}  // namespace

TEST_CASE("the calibration workload is valid and no node of it lacks a cost", "[measure]") {
  const Model m = model(calibration_workload());
  CHECK(m.module().nodes.size() > 60);
}

#ifdef ROOFCAST_CPU
TEST_CASE("alike nodes are timed once, what cannot be run is listed with the reason", "[validate]") {
  const Model m = model(mlp);
  const Result<Validation> v = validate(m, cpu(), {.select = {"all"}, .runs = 3});
  REQUIRE(v);
  REQUIRE(v->ops.size() == 2);
  for (const ValidatedOp& row : v->ops) {
    CHECK(row.measured > 0);
    CHECK(row.measured_min <= row.measured);
    CHECK(row.count == (row.op == "Relu" ? 2 : 1));
    CHECK(*row.error == Approx((*row.predicted - row.measured) / row.measured));
  }
  REQUIRE(v->skipped.size() == 1);
  CHECK(v->skipped[0].reason == "no backend runs this op");
  CHECK(v->summary.total_measured > 0);
}

TEST_CASE("selection by name, by op, and what is not there", "[validate]") {
  const Model m = model(mlp);
  CHECK(validate(m, cpu(), {.select = {"fc"}, .runs = 1})->ops.size() == 1);
  CHECK(validate(m, cpu(), {.select = {"Relu"}, .runs = 1})->ops.size() == 1);
  const auto missing = validate(m, cpu(), {.select = {"fd"}});
  REQUIRE(!missing);
  CHECK(missing.error().code == "usage");
  CHECK(missing.error().message.find("near: fc") != std::string::npos);
  CHECK(validate(m, cpu(), {.select = {"top:x"}}).error().code == "usage");
  CHECK(validate(m, cpu(), {.on = "tpu"}).error().code == "usage");
}

TEST_CASE("a run that is stopped keeps what it has and says so", "[validate]") {
  const Model m = model(mlp);
  const std::atomic<bool> stop = true;
  const Result<Validation> v = validate(m, cpu(), {.select = {"all"}, .stop = &stop});
  REQUIRE(v);
  CHECK(v->interrupted);
  CHECK(v->ops.empty());
  REQUIRE(!v->warnings.empty());
  CHECK(v->warnings[0].code == "interrupted");
  CHECK(calibrate({.stop = &stop}).error().code == "interrupted");
}
#endif

#ifndef ROOFCAST_CUDA
TEST_CASE("a missing device is exit 3", "[validate]") {
  const auto v = validate(model(mlp), cpu(), {.on = "cuda"});
  REQUIRE(!v);
  CHECK(v.error().code == "device-missing");
  CHECK(v.error().exit_code() == 3);
}
#endif

}  // namespace roofcast
