// Chains as torch's exporters write them are one group each, under their known name; what only looks as
// if it could be one kernel is not.
#include "search/fusion_support.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace roofcast {
namespace {

struct Chain {
  const char* name;
  const char* label;
  const char* inputs;   // of the graph
  const char* stored;   // weights and constants
  const char* nodes;    // the last value is %out
};

constexpr const char* hidden = "%x: f16[4, 128, 1024]";

const Chain chains[] = {
    {"RMSNorm, dynamo", "RMSNorm", hidden,
     "weight %w: f16[1024] bytes 2048\n const %two: f32[] bytes 4 = [2]\n const %axis: i64[1] bytes 8 = [-1]\n const %eps: f32[] bytes 4 = [0.00001]",
     "%a = Cast(%x) {to = 1} : ?\n %b = Pow(%a, %two) : ?\n %c = ReduceMean(%b, %axis) {keepdims = 1} : ?\n %d = Add(%c, %eps) : ?\n"
     "%e = Sqrt(%d) : ?\n %f = Reciprocal(%e) : ?\n %g = Mul(%a, %f) : ?\n %h = Cast(%g) {to = 10} : ?\n %out = Mul(%w, %h) : ?"},
    {"RMSNorm, TorchScript", "RMSNorm", hidden,
     "weight %w: f16[1024] bytes 2048\n const %two: f32[] bytes 4 = [2]\n const %one: f32[] bytes 4 = [1]\n const %eps: f32[] bytes 4 = [0.00001]",
     "%a = Cast(%x) {to = 1} : ?\n %b = Pow(%a, %two) : ?\n %c = ReduceMean(%b) {axes = ints [-1], keepdims = 1} : ?\n %d = Add(%c, %eps) : ?\n"
     "%e = Sqrt(%d) : ?\n %f = Div(%one, %e) : ?\n %g = Mul(%a, %f) : ?\n %h = Cast(%g) {to = 10} : ?\n %out = Mul(%w, %h) : ?"},
    {"LayerNorm, TorchScript", "LayerNorm", hidden,
     "weight %w: f16[1024] bytes 2048\n weight %b: f16[1024] bytes 2048\n const %two: f16[] bytes 2 = [2]\n const %eps: f16[] bytes 2 = [0.00001]",
     "%m = ReduceMean(%x) {axes = ints [-1]} : ?\n %s = Sub(%x, %m) : ?\n %p = Pow(%s, %two) : ?\n %v = ReduceMean(%p) {axes = ints [-1]} : ?\n"
     "%e = Add(%v, %eps) : ?\n %r = Sqrt(%e) : ?\n %d = Div(%s, %r) : ?\n %n = Mul(%d, %w) : ?\n %out = Add(%n, %b) : ?"},
    {"LayerNorm, dynamo without its op", "LayerNorm", hidden,
     "weight %w: f16[1024] bytes 2048\n weight %b: f16[1024] bytes 2048\n const %axis: i64[1] bytes 8 = [-1]\n const %eps: f16[] bytes 2 = [0.00001]",
     "%m = ReduceMean(%x, %axis) {keepdims = 1} : ?\n %s = Sub(%x, %m) : ?\n %p = Mul(%s, %s) : ?\n %v = ReduceMean(%p, %axis) {keepdims = 1} : ?\n"
     "%e = Add(%v, %eps) : ?\n %q = Sqrt(%e) : ?\n %r = Reciprocal(%q) : ?\n %d = Mul(%s, %r) : ?\n %n = Mul(%d, %w) : ?\n %out = Add(%n, %b) : ?"},
    {"GELU erf, TorchScript", "GELU", hidden,
     "const %root: f16[] bytes 2 = [1.4142]\n const %one: f16[] bytes 2 = [1.0]\n const %half: f16[] bytes 2 = [0.5]",
     "%a = Div(%x, %root) : ?\n %b = Erf(%a) : ?\n %c = Add(%b, %one) : ?\n %d = Mul(%x, %c) : ?\n %out = Mul(%d, %half) : ?"},
    {"GELU erf, dynamo", "GELU", hidden,
     "const %root: f16[] bytes 2 = [0.7071]\n const %one: f16[] bytes 2 = [1.0]\n const %half: f16[] bytes 2 = [0.5]",
     "%h = Mul(%x, %half) : ?\n %a = Mul(%x, %root) : ?\n %b = Erf(%a) : ?\n %c = Add(%b, %one) : ?\n %out = Mul(%h, %c) : ?"},
    {"GELU tanh, dynamo", "GELU", hidden,
     "const %k0: f16[] bytes 2 = [0.5]\n const %k1: f16[] bytes 2 = [3]\n const %k2: f16[] bytes 2 = [0.0447]\n const %k3: f16[] bytes 2 = [0.797]\n const %k4: f16[] bytes 2 = [1.0]",
     "%a = Mul(%x, %k0) : ?\n %b = Pow(%x, %k1) : ?\n %c = Mul(%b, %k2) : ?\n %d = Add(%x, %c) : ?\n %e = Mul(%d, %k3) : ?\n %f = Tanh(%e) : ?\n"
     "%g = Add(%f, %k4) : ?\n %out = Mul(%a, %g) : ?"},
    {"GELU tanh, TorchScript", "GELU", hidden,
     "const %k1: f16[] bytes 2 = [0.5]\n const %k2: f16[] bytes 2 = [0.0447]\n const %k3: f16[] bytes 2 = [0.797]\n const %k4: f16[] bytes 2 = [1.0]",
     "%a = Mul(%x, %x) : ?\n %b = Mul(%a, %x) : ?\n %c = Mul(%b, %k2) : ?\n %d = Add(%x, %c) : ?\n %e = Mul(%d, %k3) : ?\n %f = Tanh(%e) : ?\n"
     "%g = Add(%f, %k4) : ?\n %h = Mul(%x, %g) : ?\n %out = Mul(%h, %k1) : ?"},
    {"SiLU", "SiLU", hidden, "", "%a = Sigmoid(%x) : ?\n %out = Mul(%x, %a) : ?"},
    {"SiLU gate", "SiLU gate", "%x: f16[4, 128, 1024], %y: f16[4, 128, 1024]", "", "%a = Sigmoid(%x) : ?\n %b = Mul(%x, %a) : ?\n %out = Mul(%b, %y) : ?"},
    {"rotary, dynamo", "rotary", "%x: f16[4, 32, 128, 128], %cos: f16[4, 1, 128, 128], %sin: f16[4, 1, 128, 128]",
     "const %z: i64[1] bytes 8 = [0]\n const %m: i64[1] bytes 8 = [64]\n const %e: i64[1] bytes 8 = [4611686018427387903]\n const %ax: i64[1] bytes 8 = [3]\n const %st: i64[1] bytes 8 = [1]",
     "%a = Mul(%x, %cos) : ?\n %l = Slice(%x, %z, %m, %ax, %st) : ?\n %h = Slice(%x, %m, %e, %ax, %st) : ?\n %n = Neg(%h) : ?\n"
     "%c = Concat(%n, %l) {axis = -1} : ?\n %s = Mul(%c, %sin) : ?\n %out = Add(%a, %s) : ?"},
    {"rotary, TorchScript", "rotary", "%x: f16[4, 32, 128, 128], %cos: f16[4, 128, 128], %sin: f16[4, 128, 128]",
     "const %z: i64[1] bytes 8 = [0]\n const %m: i64[1] bytes 8 = [64]\n const %e: i64[1] bytes 8 = [4611686018427387903]\n const %ax: i64[1] bytes 8 = [3]\n const %st: i64[1] bytes 8 = [1]\n const %one: i64[1] bytes 8 = [1]",
     "%uc = Unsqueeze(%cos, %one) : ?\n %us = Unsqueeze(%sin, %one) : ?\n %a = Mul(%x, %uc) : ?\n %l = Slice(%x, %z, %m, %ax, %st) : ?\n"
     "%h = Slice(%x, %m, %e, %ax, %st) : ?\n %n = Neg(%h) : ?\n %c = Concat(%n, %l) {axis = -1} : ?\n %s = Mul(%c, %us) : ?\n %out = Add(%a, %s) : ?"},
    {"softmax in float32", "softmax", "%x: f16[4, 32, 128, 128], %mask: f16[4, 1, 128, 128]", "",
     "%a = Add(%x, %mask) : ?\n %b = Cast(%a) {to = 1} : ?\n %c = Softmax(%b) {axis = -1} : ?\n %out = Cast(%c) {to = 10} : ?"},
    {"softmax with a guard", "softmax", "%x: f16[4, 32, 128, 128], %mask: f16[4, 1, 128, 128]", "const %zero: f16[] bytes 2 = [0.0]",
     "%a = Add(%x, %mask) : ?\n %b = Softmax(%a) {axis = -1} : ?\n %c = IsNaN(%b) : ?\n %out = Where(%c, %zero, %b) : ?"},
    {"softmax by parts", "softmax", "%x: f16[4, 32, 128, 128]", "const %axis: i64[1] bytes 8 = [-1]",
     "%m = ReduceMax(%x) {axes = ints [-1], keepdims = 1} : ?\n %s = Sub(%x, %m) : ?\n %e = Exp(%s) : ?\n %t = ReduceSum(%e, %axis) {keepdims = 1} : ?\n %out = Div(%e, %t) : ?"},
};

std::string graph(const char* inputs, const std::string& stored, const std::string& nodes) {
  return fmt::format("opset \"\" 17\ngraph @\"g\"({}) -> (%out) {{\n {}\n {}\n}}\n", inputs, stored, nodes);
}

// ReduceMean takes its axes as an input from opset 18 on.
std::string of_opset(std::string text) {
  if (text.find("ReduceMean(%x, ") != text.npos || text.find("ReduceMean(%b, ") != text.npos) text.replace(text.find("\" 17"), 4, "\" 18");
  return text;
}

size_t working(const FusionCase& c) {
  return static_cast<size_t>(std::count_if(c.graph.ops.begin(), c.graph.ops.end(), [](const FusionGraph::Op& op) { return op.seconds > 0; }));
}

bool together(const FusionCase& c, const std::string& nodes) {
  std::vector<uint32_t> all;
  for (uint32_t i = 0; i < c.graph.ops.size(); ++i) all.push_back(i);
  INFO(nodes);
  return c.planner->kernel(all).valid;
}

}  // namespace

TEST_CASE("decomposed functions of both exporters are one group each", "[fusion]") {
  for (const Chain& chain : chains)
    for (const TimeModel model : {TimeModel::ideal, TimeModel::kernel}) {
      INFO(chain.name);
      const FusionCase c(of_opset(graph(chain.inputs, chain.stored, chain.nodes)), model);
      for (const size_t exact : {FusionPlanner::exact_ops, size_t{0}}) {
        const auto groups = c.planner->plan(exact);
        REQUIRE(groups.size() == 1);
        CHECK(groups[0].size() == working(c));
        CHECK(label_of(c.graph, groups[0], *c.module).name == chain.label);
      }
    }
}

TEST_CASE("attention is one group with its scale, mask, casts and guard", "[fusion]") {
  const FusionCase c(graph("%q: f16[2, 16, 512, 64], %k: f16[2, 16, 512, 64], %v: f16[2, 16, 512, 64], %mask: f16[2, 1, 512, 512]",
                           "const %s: f16[] bytes 2 = [0.125]\n const %zero: f16[] bytes 2 = [0.0]",
                           "%kt = Transpose(%k) {perm = ints [0, 1, 3, 2]} : ?\n %a = MatMul(%q, %kt) : ?\n %b = Mul(%a, %s) : ?\n %m = Add(%b, %mask) : ?\n"
                           "%f = Cast(%m) {to = 1} : ?\n %p = Softmax(%f) {axis = -1} : ?\n %h = Cast(%p) {to = 10} : ?\n %n = IsNaN(%h) : ?\n"
                           "%g = Where(%n, %zero, %h) : ?\n %out = MatMul(%g, %v) : ?"),
                     TimeModel::ideal);
  const auto groups = c.planner->plan();
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].size() == c.graph.ops.size());
  CHECK(label_of(c.graph, groups[0], *c.module).name == "flash attention");
  // What moves is Q, K, V, the mask and the result.
  CHECK(c.planner->kernel(groups[0]).bytes == Approx(4 * 2 * 16 * 512 * 64 * 2 + 2 * 512 * 512 * 2.0));
}

TEST_CASE("lines along different axes are not one kernel", "[fusion]") {
  auto valid = [](const std::string& nodes) {
    const std::string stored = "const %first: i64[1] bytes 8 = [0]\n const %last: i64[1] bytes 8 = [-1]\n weight %w: f16[512, 512] bytes 524288";
    const FusionCase c(graph("%x: f16[512, 512]", stored, nodes), TimeModel::ideal);
    return together(c, nodes);
  };
  CHECK(valid("%a = Softmax(%x) {axis = -1} : ?\n %out = Softmax(%a) {axis = -1} : ?"));
  CHECK_FALSE(valid("%a = Softmax(%x) {axis = -1} : ?\n %out = Softmax(%a) {axis = 0} : ?"));
  CHECK_FALSE(valid("%a = Softmax(%x) {axis = -1} : ?\n %b = Transpose(%a) {perm = ints [1, 0]} : ?\n %out = Softmax(%b) {axis = -1} : ?"));
  CHECK(valid("%a = Transpose(%x) {perm = ints [1, 0]} : ?\n %out = Softmax(%a) {axis = -1} : ?"));
  // The mean of a row, subtracted from rows or from columns.
  CHECK(valid("%a = ReduceSum(%x, %last) {keepdims = 1} : ?\n %out = Sub(%x, %a) : ?"));
  CHECK_FALSE(valid("%a = ReduceSum(%x, %last) {keepdims = 0} : ?\n %out = Sub(%x, %a) : ?"));
  CHECK(valid("%a = ReduceSum(%x, %first) {keepdims = 0} : ?\n %out = Sub(%x, %a) : ?"));
  // A product's tile holds rows of its result, not columns.
  CHECK(valid("%a = MatMul(%x, %w) : ?\n %out = Softmax(%a) {axis = -1} : ?"));
  CHECK_FALSE(valid("%a = MatMul(%x, %w) : ?\n %out = Softmax(%a) {axis = 0} : ?"));
}

TEST_CASE("batch normalization after a convolution is a constant fold", "[fusion]") {
  const char* inputs = "%x: f16[8, 64, 56, 56]";
  const std::string stored = "weight %w: f16[64, 64, 3, 3] bytes 73728\n weight %s: f16[64] bytes 128\n weight %b: f16[64] bytes 128\n weight %m: f16[64] bytes 128\n"
                             " weight %v: f16[64] bytes 128\n weight %cs: f16[64, 1, 1] bytes 128\n weight %cb: f16[64, 1, 1] bytes 128";
  const std::string conv = "%a = Conv(%x, %w) {pads = ints [1, 1, 1, 1]} : ?\n ";
  const std::string normalize = "%n = BatchNormalization(%a, %s, %b, %m, %v) : ?\n ";
  for (const TimeModel model : {TimeModel::ideal, TimeModel::kernel}) {
    const FusionCase c(graph(inputs, stored, conv + normalize + "%out = Relu(%n) : ?"), model);
    const auto groups = c.planner->plan();
    REQUIRE(groups.size() == 1);
    REQUIRE(groups[0].size() == 3);
    CHECK(label_of(c.graph, groups[0], *c.module).name == "conv + BN + ReLU");
    // Its arithmetic and its operands are gone: what is left is a convolution with Relu.
    const FusionCase folded(graph(inputs, stored, conv + "%out = Relu(%a) : ?"), model);
    const FusedKernel with = c.planner->kernel(groups[0]), without = folded.planner->kernel({0, 1});
    CHECK(with.folded.size() == 1);
    CHECK(with.problem.vector_flops == without.problem.vector_flops);
    CHECK(with.bytes == without.bytes);
    CHECK(with.seconds == without.seconds);
  }
  // By its parts it keeps its arithmetic, and its name.
  const FusionCase parts(graph(inputs, stored, conv + "%b1 = Mul(%a, %cs) : ?\n %c1 = Add(%b1, %cb) : ?\n %out = Relu(%c1) : ?"), TimeModel::ideal);
  const auto groups = parts.planner->plan();
  REQUIRE(groups.size() == 1);
  CHECK(label_of(parts.graph, groups[0], *parts.module).name == "conv + BN + ReLU");
  // If something else reads the convolution, its weights stay as they are.
  const FusionCase read(graph(inputs, stored, conv + normalize + "%out = Add(%n, %a) : ?"), TimeModel::ideal);
  CHECK(read.planner->kernel({0, 1, 2}).folded.empty());
}

TEST_CASE("a collective in parts hides behind its product, but for one part and the steps", "[fusion]") {
  // max(8, 6) + 6 / 4 + 4 · 0.1 µs, whichever is the longer.
  CHECK(decomposed_overlap(8e-6, 6e-6, 4, 1e-7) == Approx(9.9e-6));
  CHECK(decomposed_overlap(6e-6, 8e-6, 4, 1e-7) == Approx(9.9e-6));
  CHECK(decomposed_overlap(8e-6, 6e-6, 1, 0) == Approx(14e-6));
}

TEST_CASE("what is broadcast is computed again for every tile", "[fusion]") {
  // A vector made of a vector costs its arithmetic once for each row that uses it.
  const FusionCase c(graph("%x: f16[4096, 512], %b: f16[512]", "", "%a = Exp(%b) : ?\n %out = Add(%x, %a) : ?"), TimeModel::ideal);
  const FusedKernel k = c.planner->kernel({0, 1});
  REQUIRE(k.valid);
  const double exp = c.graph.ops[0].problem.vector_flops, add = c.graph.ops[1].problem.vector_flops;
  CHECK(k.problem.vector_flops == Approx(exp * 4096 + add));
}

TEST_CASE("the kernel model charges what an epilogue reads", "[fusion]") {
  // Bound by memory: 32 additions a sum.
  auto seconds = [](const std::string& epilogue) {
    const FusionCase c(graph("%x: f16[4096, 32], %r: f16[4096, 4096]", "weight %w: f16[32, 4096] bytes 262144", "%a = MatMul(%x, %w) : ?\n" + epilogue), TimeModel::kernel);
    const FusedKernel k = c.planner->kernel({0, 1});
    REQUIRE(k.valid);
    return k.seconds;
  };
  const double bandwidth = 3350e9, residual = 4096 * 4096 * 2;
  const double added = seconds("%out = Add(%a, %r) : ?") - seconds("%out = Relu(%a) : ?");
  CHECK(added == Approx(residual / bandwidth).epsilon(0.1));
}

}  // namespace roofcast
