// A group takes as long as the op that runtimes replace it with: what ONNX Runtime's optimizer fuses, as it
// is exported and as it is after that.
#include "search/fusion_support.h"

#include <fmt/format.h>

namespace roofcast {
namespace {

struct Fusion {
  const char* op;        // that the optimizer makes
  const char* inputs;
  const char* stored;
  const char* exported;  // nodes; the last value is %out
  const char* fused;
};

constexpr const char* hidden = "%x: f16[16, 384, 1024], %r: f16[16, 384, 1024]";
constexpr const char* vectors = "weight %w: f16[1024] bytes 2048\n weight %b: f16[1024] bytes 2048\n weight %p: f16[1024] bytes 2048\n"
                                " const %k0: f16[] bytes 2 = [0.5]\n const %k1: f16[] bytes 2 = [3]\n const %k2: f16[] bytes 2 = [0.0447]\n"
                                " const %k3: f16[] bytes 2 = [0.797]\n const %k4: f16[] bytes 2 = [1.0]\n const %axis: i64[1] bytes 8 = [-1]";

const Fusion fusions[] = {
    {"SkipLayerNormalization", hidden, vectors, "%a = Add(%x, %p) : ?\n %c = Add(%a, %r) : ?\n %out = LayerNormalization(%c, %w, %b) : ?",
     "%out = com.microsoft::SkipLayerNormalization(%x, %r, %w, %b, %p) : ?"},
    {"SkipSimplifiedLayerNormalization", hidden, vectors,
     "%c = Add(%x, %r) : ?\n %q = Pow(%c, %k1) : ?\n %m = ReduceMean(%q, %axis) : ?\n %e = Add(%m, %k2) : ?\n %s = Sqrt(%e) : ?\n"
     " %d = Div(%c, %s) : ?\n %out = Mul(%d, %w) : ?",
     "%out = com.microsoft::SkipSimplifiedLayerNormalization(%x, %r, %w) : ?"},
    {"LayerNormalization", hidden, vectors,
     "%m = ReduceMean(%x, %axis) : ?\n %s = Sub(%x, %m) : ?\n %q = Pow(%s, %k1) : ?\n %v = ReduceMean(%q, %axis) : ?\n %e = Add(%v, %k2) : ?\n"
     " %t = Sqrt(%e) : ?\n %d = Div(%s, %t) : ?\n %n = Mul(%d, %w) : ?\n %out = Add(%n, %b) : ?",
     "%out = LayerNormalization(%x, %w, %b) : ?"},
    {"BiasGelu", hidden, vectors,
     "%a = Add(%x, %b) : ?\n %d = Div(%a, %k3) : ?\n %e = Erf(%d) : ?\n %f = Add(%e, %k4) : ?\n %g = Mul(%a, %f) : ?\n %out = Mul(%g, %k0) : ?",
     "%out = com.microsoft::BiasGelu(%x, %b) : ?"},
    {"FastGelu", hidden, vectors,
     "%y = Add(%x, %b) : ?\n %a = Mul(%y, %k0) : ?\n %c = Pow(%y, %k1) : ?\n %d = Mul(%c, %k2) : ?\n %e = Add(%y, %d) : ?\n %f = Mul(%e, %k3) : ?\n"
     " %g = Tanh(%f) : ?\n %h = Add(%g, %k4) : ?\n %out = Mul(%a, %h) : ?",
     "%out = com.microsoft::FastGelu(%x, %b) : ?"},
    {"QuickGelu", hidden, vectors, "%a = Mul(%x, %k3) : ?\n %c = Sigmoid(%a) : ?\n %out = Mul(%x, %c) : ?", "%out = com.microsoft::QuickGelu(%x) : ?"},
    {"Gemm", "%x: f16[6144, 1024]", "weight %m: f16[1024, 4096] bytes 8388608\n weight %b: f16[4096] bytes 8192", "%a = MatMul(%x, %m) : ?\n %out = Add(%a, %b) : ?",
     "%out = Gemm(%x, %m, %b) : ?"},
    {"Attention", "%q: f16[16, 16, 384, 64], %k: f16[16, 16, 384, 64], %v: f16[16, 16, 384, 64], %mask: f16[16, 1, 384, 384]", "const %s: f16[] bytes 2 = [0.125]",
     "%t = Transpose(%k) {perm = ints [0, 1, 3, 2]} : ?\n %a = MatMul(%q, %t) : ?\n %b = Mul(%a, %s) : ?\n %m = Add(%b, %mask) : ?\n %p = Softmax(%m) : ?\n"
     " %out = MatMul(%p, %v) : ?",
     "%out = Attention(%q, %k, %v, %mask) : ?"},
    {"FusedConv", "%x: f32[8, 256, 28, 28]", "weight %m: f32[256, 256, 3, 3] bytes 2359296\n weight %b: f32[256] bytes 1024",
     "%a = Conv(%x, %m, %b) {pads = ints [1, 1, 1, 1]} : ?\n %out = Relu(%a) : ?",
     "%out = com.microsoft::FusedConv(%x, %m, %b) {pads = ints [1, 1, 1, 1], activation = \"Relu\"} : ?"},
};

}  // namespace

TEST_CASE("a group takes as long as the op that ONNX Runtime fuses it to", "[fusion]") {
  for (const Fusion& f : fusions)
    for (const TimeModel model : {TimeModel::ideal, TimeModel::kernel})
      for (const char* device : {"a100-sxm-80", "h100-sxm"}) {
        INFO(f.op << " on " << device << ", " << name(model));
        auto read = [&](const char* nodes) {
          return FusionCase(fmt::format("opset \"\" 23\nopset \"com.microsoft\" 1\ngraph @\"g\"({}) -> (%out) {{\n {}\n {}\n}}\n", f.inputs, f.stored, nodes), model, device);
        };
        const FusionCase exported = read(f.exported), fused = read(f.fused);
        const auto groups = exported.planner->plan();
        REQUIRE(groups.size() == 1);
        REQUIRE(groups[0].size() == exported.graph.ops.size());
        CHECK(exported.cost(groups) == Approx(fused.cost({})).epsilon(0.1));
      }
}

}  // namespace roofcast
