// Each form and function that a backend runs gives what its definition gives: what is timed is the op.
#include "measure/backend.h"
#include "measure/workload.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace roofcast {
namespace {

using Dims = std::vector<int64_t>;
Operand f32(Dims dims) { return {DType::float32, std::move(dims)}; }
Operand of(DType type, Dims dims) { return {type, std::move(dims)}; }

[[maybe_unused]] std::vector<Task> tasks() {
  using namespace form;
  std::vector<Task> all = {
      {Product{}, {f32({5, 7}), f32({7, 9})}, {f32({5, 9})}},
      {Product{}, {f32({2, 5, 7}), f32({7, 9})}, {f32({2, 5, 9})}},
      {Product{}, {f32({2, 3, 5, 7}), f32({2, 3, 7, 4})}, {f32({2, 3, 5, 4})}},
      {Product{}, {f32({1, 3, 5, 7}), f32({2, 1, 7, 4})}, {f32({2, 3, 5, 4})}},
      {Product{true, true, 0.5, 1}, {f32({7, 5}), f32({9, 7}), f32({9})}, {f32({5, 9})}},
      {Product{false, true, 1, 1}, {f32({5, 7}), f32({9, 7}), f32({5, 9})}, {f32({5, 9})}},
      {Convolution{1, {1, 1}, {1, 1}, {1, 1}}, {f32({2, 8, 9, 9}), f32({16, 8, 3, 3}), f32({16})}, {f32({2, 16, 9, 9})}},
      {Convolution{1, {2, 1}, {1, 2}, {0, 2}}, {f32({1, 3, 11, 9}), f32({20, 3, 3, 3})}, {f32({1, 20, 5, 9})}},
      {Convolution{16, {1, 1}, {1, 1}, {1, 1}}, {f32({1, 16, 8, 8}), f32({16, 1, 3, 3})}, {f32({1, 16, 8, 8})}},
      {Convolution{2, {1, 1}, {1, 1}, {0, 0}}, {f32({1, 8, 5, 5}), f32({12, 4, 1, 1})}, {f32({1, 12, 5, 5})}},
      {Convolution{1, {1}, {1}, {1}}, {f32({2, 4, 20}), f32({8, 4, 3})}, {f32({2, 8, 20})}},
      {Pooling{false, false, {3, 3}, {2, 2}, {1, 1}, {1, 1}}, {f32({1, 16, 12, 12})}, {f32({1, 16, 6, 6})}},
      {Pooling{true, false, {3, 3}, {2, 2}, {1, 1}, {1, 1}}, {f32({1, 5, 12, 12})}, {f32({1, 5, 6, 6})}},
      {Pooling{true, true, {3, 3}, {1, 1}, {1, 1}, {1, 1}}, {f32({1, 16, 6, 6})}, {f32({1, 16, 6, 6})}},
      {Pooling{true, false, {7, 7}, {1, 1}, {1, 1}, {0, 0}}, {f32({1, 32, 7, 7})}, {f32({1, 32, 1, 1})}},
      {Reduction{Reducer::mean, {2, 3}}, {f32({2, 16, 7, 7})}, {f32({2, 16, 1, 1})}},
      {Reduction{Reducer::sum, {1}}, {f32({3, 40})}, {f32({3})}},
      {Reduction{Reducer::max, {0}}, {f32({30, 20})}, {f32({20})}},
      {Reduction{Reducer::min, {1}}, {f32({3, 8, 5})}, {f32({3, 1, 5})}},
      {form::Softmax{1, false}, {f32({6, 50})}, {f32({6, 50})}},
      {form::Softmax{1, true}, {f32({3, 20})}, {f32({3, 20})}},
      {Normalization{Normalizer::layer, 2, 1e-5}, {f32({2, 5, 48}), f32({48}), f32({48})}, {f32({2, 5, 48})}},
      {Normalization{Normalizer::rms, 1, 1e-6}, {f32({5, 48}), f32({48})}, {f32({5, 48})}},
      {Normalization{Normalizer::batch, 0, 1e-5}, {f32({2, 16, 5, 5}), f32({16}), f32({16}), f32({16}), f32({16})}, {f32({2, 16, 5, 5})}},
      {Permutation{{0, 2, 1, 3}}, {f32({2, 5, 3, 8})}, {f32({2, 3, 5, 8})}},
      {Permutation{{1, 0}}, {f32({20, 33})}, {f32({33, 20})}},
      {Permutation{{1, 2, 0}}, {of(DType::int64, {4, 5, 6})}, {of(DType::int64, {5, 6, 4})}},
      {Concatenation{1}, {f32({2, 3, 4}), f32({2, 5, 4})}, {f32({2, 8, 4})}},
      {Concatenation{0}, {of(DType::int64, {3}), of(DType::int64, {2})}, {of(DType::int64, {5})}},
      {Lookup{0}, {f32({50, 16}), of(DType::int64, {2, 7})}, {f32({2, 7, 16})}},
      {Lookup{1}, {f32({3, 9, 4}), of(DType::int32, {5})}, {f32({3, 5, 4})}},
  };
  for (Function f : {Function::abs, Function::ceil, Function::cos, Function::erf, Function::exp, Function::floor, Function::gelu, Function::gelu_tanh,
                     Function::hard_swish, Function::log, Function::negate, Function::relu, Function::round, Function::sigmoid,
                     Function::sign, Function::silu, Function::sin, Function::softplus, Function::sqrt, Function::tanh})
    all.push_back({Pointwise{f}, {f32({3, 500})}, {f32({3, 500})}});
  for (auto [f, alpha, beta] : {std::tuple(Function::clip, -0.3, 0.4), std::tuple(Function::elu, 0.7, 0.0), std::tuple(Function::hard_sigmoid, 0.2, 0.5),
                                std::tuple(Function::leaky_relu, 0.1, 0.0)})
    all.push_back({Pointwise{f, alpha, beta}, {f32({1000})}, {f32({1000})}});
  for (Function f : {Function::add, Function::subtract, Function::multiply, Function::divide, Function::max, Function::min, Function::power}) {
    all.push_back({Pointwise{f}, {f32({3, 4, 5}), f32({3, 4, 5})}, {f32({3, 4, 5})}});
    all.push_back({Pointwise{f}, {f32({2, 16, 6, 6}), f32({16, 1, 1})}, {f32({2, 16, 6, 6})}});
    all.push_back({Pointwise{f}, {f32({24}), f32({10, 24})}, {f32({10, 24})}});
    all.push_back({Pointwise{f}, {f32({4, 1}), f32({1, 5})}, {f32({4, 5})}});
    all.push_back({Pointwise{f}, {f32({30, 40}), f32({})}, {f32({30, 40})}});
  }
  for (Function f : {Function::equal, Function::less, Function::less_equal, Function::greater, Function::greater_equal})
    all.push_back({Pointwise{f}, {of(DType::int64, {6, 1}), of(DType::int64, {6})}, {of(DType::boolean, {6, 6})}});
  for (Function f : {Function::logical_and, Function::logical_or})
    all.push_back({Pointwise{f}, {of(DType::boolean, {6, 1}), of(DType::boolean, {5})}, {of(DType::boolean, {6, 5})}});
  all.push_back({Pointwise{Function::where}, {of(DType::boolean, {2, 1, 7}), f32({}), f32({2, 3, 7})}, {f32({2, 3, 7})}});
  all.push_back({Pointwise{Function::where}, {of(DType::boolean, {3, 7}), f32({3, 7}), f32({7})}, {f32({3, 7})}});
  all.push_back({Pointwise{Function::is_nan}, {f32({50})}, {of(DType::boolean, {50})}});
  all.push_back({Pointwise{Function::convert}, {of(DType::int64, {50})}, {f32({50})}});
  all.push_back({Pointwise{Function::convert}, {f32({50})}, {of(DType::int64, {50})}});
  return all;
}

// Largest difference, relative to values around one.
[[maybe_unused]] double difference(const std::vector<HostTensor>& got, const std::vector<HostTensor>& want) {
  if (got.size() < want.size() || got[0].operand != want[0].operand) return 1e30;
  double most = 0;
  for (int64_t i = 0; i < want[0].operand.elements(); ++i) {
    const double w = want[0].at(i), d = std::abs(got[0].at(i) - w) / std::max(1.0, std::abs(w));
    most = std::isnan(d) ? 1e30 : std::max(most, d);
  }
  return most;
}

[[maybe_unused]] void check(Backend& backend, const Task& task, double tolerance) {
  INFO("form " << task.form.index() << ", " << task.size_text());
  if (const auto* p = std::get_if<form::Pointwise>(&task.form)) UNSCOPED_INFO("function " << static_cast<int>(p->function));
  const std::vector<HostTensor> inputs = random_inputs(task);
  Result<std::unique_ptr<PreparedOp>> op = backend.prepare(task, inputs);
  CHECK(op);
  if (op) CHECK(difference((*op)->outputs(), reference(task, inputs)) < tolerance);
}

}  // namespace

#ifdef ROOFCAST_CPU
TEST_CASE("CPU backend: every form equals its definition", "[measure]") {
  for (int threads : {1, 2}) {
    Result<std::unique_ptr<Backend>> backend = make_cpu_backend(threads);
    if (!backend) continue;  // fewer processors
    for (const Task& task : tasks()) check(**backend, task, 2e-4);
  }
}

TEST_CASE("CPU backend: reduced types run where the processor has them", "[measure]") {
  Result<std::unique_ptr<Backend>> backend = make_cpu_backend(1);
  REQUIRE(backend);
  const Task bf16{form::Product{}, {of(DType::bfloat16, {8, 16}), of(DType::bfloat16, {16, 12})}, {of(DType::bfloat16, {8, 12})}};
  const Task int8{form::Product{}, {of(DType::uint8, {8, 16}), of(DType::int8, {16, 12})}, {of(DType::int32, {8, 12})}};
  for (const Task& task : {bf16, int8}) {
    const std::vector<HostTensor> inputs = random_inputs(task);
    Result<std::unique_ptr<PreparedOp>> op = (*backend)->prepare(task, inputs);
    if (!op) continue;
    CHECK(difference((*op)->outputs(), reference(task, inputs)) < 2e-2);
  }
}

TEST_CASE("CPU backend: times are positive and stop when they are told to", "[measure]") {
  Result<std::unique_ptr<Backend>> backend = make_cpu_backend(1);
  REQUIRE(backend);
  const Task task{form::Pointwise{form::Function::relu}, {f32({4096})}, {f32({4096})}};
  Result<std::unique_ptr<PreparedOp>> op = prepare(**backend, task);
  REQUIRE(op);
  const std::vector<double> samples = (*op)->time({.runs = 20, .least_s = 0});
  CHECK(samples.size() == 20);
  for (double s : samples) CHECK(s > 0);
  const std::atomic<bool> stop = true;
  CHECK((*op)->time({.runs = 20, .stop = &stop}).empty());
}

TEST_CASE("what does not fit in memory is refused with the reason", "[measure]") {
  Result<std::unique_ptr<Backend>> backend = make_cpu_backend(1);
  REQUIRE(backend);
  const Task task{form::Pointwise{form::Function::relu}, {f32({int64_t{1} << 50})}, {f32({int64_t{1} << 50})}};
  const auto op = prepare(**backend, task);
  REQUIRE(!op);
  CHECK(op.error().code == "op-not-run");
  CHECK(op.error().message.find("are free") != std::string::npos);
  CHECK(make_cpu_backend(1 << 20).error().code == "device-missing");
}
#endif

#ifdef ROOFCAST_CUDA
TEST_CASE("CUDA backend: every form equals its definition", "[measure][cuda]") {
  Result<std::unique_ptr<Backend>> backend = make_cuda_backend();
  if (!backend) {
    WARN("no CUDA device: " << backend.error().message);
    return;
  }
  // Types and broadcasts that neither the libraries nor our kernels take are refused, and never wrong.
  int ran = 0;
  for (const Task& task : tasks()) {
    const std::vector<HostTensor> inputs = random_inputs(task);
    Result<std::unique_ptr<PreparedOp>> op = (*backend)->prepare(task, inputs);
    if (!op) continue;
    ++ran;
    INFO("form " << task.form.index() << ", " << task.size_text());
    CHECK(difference((*op)->outputs(), reference(task, inputs)) < 1e-3);
  }
  CHECK(ran > 60);
}
#endif

}  // namespace roofcast
