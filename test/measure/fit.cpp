// Constants that made the times are found again.
#include "time/fit.h"

#include <catch2/catch.hpp>

namespace roofcast {
namespace {

Hardware cpu() {
  Hardware h;
  h.family = "cpu";
  h.matrix_peak["fp32"] = h.vector_peak["fp32"] = {1e11, "test", {}};
  h.memory["hbm"].bandwidth = Figure{4e10, "test", {}};
  return h;
}
Problem problem(Kind kind, double matrix, double vector, double bytes) {
  Problem p;
  p.kind = kind, p.math = MathType::fp32;
  p.matrix_flops = matrix, p.vector_flops = vector, p.bytes_read = bytes;
  return p;
}

}  // namespace

TEST_CASE("the fit finds the constants behind the times", "[time]") {
  Hardware truth = cpu();
  truth.kernel["contraction_efficiency"] = {0.7, "test", {}};
  truth.kernel["softmax_efficiency"] = {0.02, "test", {}};
  truth.kernel["launch_overhead"] = {2e-6, "test", {}};
  truth.kernel["memory_overlap"] = {0.5, "test", {}};
  std::vector<TimedProblem> timed;
  for (double size : {1e3, 1e4, 1e5, 1e6, 1e7}) {
    for (const Problem& p : {problem(Kind::contraction, 400 * size, 0, 8 * size), problem(Kind::softmax, 0, 5 * size, 8 * size),
                             problem(Kind::pointwise, 0, size, 8 * size)})
      timed.push_back({p, *predict(p, truth, TimeModel::kernel).predicted});
  }
  Hardware fitted = cpu();
  CHECK(fit_cpu_constants(fitted, timed, "test") < 0.02);
  CHECK(fitted.kernel["contraction_efficiency"].value == Approx(0.7).epsilon(0.05));
  CHECK(fitted.kernel["softmax_efficiency"].value == Approx(0.02).epsilon(0.05));
  CHECK(fitted.kernel["launch_overhead"].value == Approx(2e-6).epsilon(0.05));
}

TEST_CASE("an op on a CPU pays overhead, padding of channels and what does not overlap", "[time]") {
  Hardware h = cpu();
  Problem p = problem(Kind::contraction, 1e8, 0, 4e7);  // 1 ms each of math and memory
  CHECK(*predict(p, h, TimeModel::kernel).predicted == Approx(1e-3));
  h.kernel["memory_overlap"] = {0.25, "test", {}};
  CHECK(*predict(p, h, TimeModel::kernel).predicted == Approx(1e-3 + 0.75e-3));
  h.kernel["launch_overhead"] = {1e-2, "test", {}};
  const Time t = predict(p, h, TimeModel::kernel);
  CHECK(*t.predicted == Approx(1e-2 + 1.75e-3));
  CHECK(t.bound == Bound::overhead);
  CHECK(*t.ideal == Approx(1e-3));

  h = cpu();
  h.memory["llc"] = {{}, Figure{4e11, "test", {}}, Figure{3e7, "test", {}}};
  p = problem(Kind::pointwise, 0, 0, 4e7);
  p.cached_bytes = 2e7;  // half from a cache ten times as fast
  CHECK(*predict(p, h, TimeModel::kernel).predicted == Approx(0.5e-3 + 0.05e-3));
}

}  // namespace roofcast
