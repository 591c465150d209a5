#include "measure/workload.h"

#include <fmt/format.h>

#include <initializer_list>
#include <vector>

namespace roofcast {
namespace {

// Collects inputs and nodes.
struct Writer {
  std::string inputs, nodes;
  int count = 0;

  std::string input(const std::vector<int>& dims, const char* type = "f32") {
    const std::string name = fmt::format("%x{}", count++);
    inputs += fmt::format("{}{}: {}[{}]", inputs.empty() ? "" : ", ", name, type, fmt::join(dims, ", "));
    return name;
  }
  void node(const char* op, const std::string& operands, const std::string& attributes = {}) {
    nodes += fmt::format("  %y{} = {}({}){} : ? @\"{}_{}\"\n", count, op, operands, attributes.empty() ? "" : " {" + attributes + "}", op, count);
    ++count;
  }

  void product(const std::vector<int>& a, const std::vector<int>& b) { node("MatMul", input(a) + ", " + input(b)); }
  void convolution(int channels, int size, int out, int kernel, int stride, int groups = 1) {
    const int pad = kernel / 2;
    node("Conv", input({1, channels, size, size}) + ", " + input({out, channels / groups, kernel, kernel}) + ", " + input({out}),
         fmt::format("group = {}, kernel_shape = ints [{}, {}], pads = ints [{}, {}, {}, {}], strides = ints [{}, {}]", groups, kernel, kernel, pad, pad, pad, pad, stride, stride));
  }
  void depthwise(int channels, int size, int kernel, int stride) { convolution(channels, size, channels, kernel, stride, channels); }
  void pool(int channels, int size, int kernel, int stride) {
    const int pad = kernel / 2;
    node("MaxPool", input({1, channels, size, size}),
         fmt::format("kernel_shape = ints [{}, {}], pads = ints [{}, {}, {}, {}], strides = ints [{}, {}]", kernel, kernel, pad, pad, pad, pad, stride, stride));
  }
  void unary(const char* op, const std::vector<int>& dims, const std::string& attributes = {}) { node(op, input(dims), attributes); }
  void binary(const char* op, const std::vector<int>& a, const std::vector<int>& b) { node(op, input(a) + ", " + input(b)); }
};

}  // namespace

std::string calibration_workload() {
  Writer w;
  for (auto [m, k, n] : std::initializer_list<std::tuple<int, int, int>>{
           {192, 512, 640}, {384, 1024, 1024}, {96, 640, 2560}, {160, 2560, 640}, {1, 1024, 1536}, {1, 640, 640}, {33, 300, 500}, {1024, 1024, 1024}})
    w.product({m, k}, {k, n});
  w.product({8, 160, 64}, {8, 64, 160}), w.product({16, 96, 96}, {16, 96, 64}), w.product({20, 112, 80}, {20, 80, 112});

  w.convolution(96, 28, 96, 3, 1), w.convolution(192, 14, 192, 3, 1), w.convolution(48, 56, 48, 3, 1), w.convolution(384, 7, 384, 3, 1), w.convolution(96, 56, 96, 3, 2);
  w.convolution(96, 28, 384, 1, 1), w.convolution(384, 14, 96, 1, 1), w.convolution(320, 14, 1280, 1, 1), w.convolution(640, 7, 320, 1, 1);
  w.convolution(160, 56, 80, 1, 1), w.convolution(384, 28, 768, 1, 2), w.convolution(32, 80, 32, 1, 1), w.convolution(24, 40, 72, 1, 1), w.convolution(144, 20, 48, 1, 1);
  w.convolution(3, 160, 24, 3, 2), w.convolution(3, 192, 48, 7, 2), w.convolution(200, 1, 800, 1, 1), w.convolution(800, 1, 200, 1, 1);

  w.depthwise(96, 56, 3, 1), w.depthwise(48, 80, 3, 2), w.depthwise(160, 28, 5, 1), w.depthwise(320, 14, 3, 1), w.depthwise(448, 14, 5, 2), w.depthwise(640, 7, 5, 1);

  w.pool(48, 96, 3, 2), w.pool(96, 56, 2, 2), w.pool(160, 28, 3, 2);
  for (auto [channels, size] : std::initializer_list<std::pair<int, int>>{{320, 14}, {96, 56}, {640, 7}}) w.unary("GlobalAveragePool", {1, channels, size, size});

  for (int n : {100, 300, 1500, 24000, 150000, 600000, 2500000}) w.unary("Relu", {n});
  for (int n : {500, 10000, 90000, 700000, 2000000}) w.binary("Add", {n}, {n});
  w.binary("Mul", {1, 96, 28, 28}, {1, 96, 1, 1}), w.binary("Mul", {1, 400, 14, 14}, {1, 400, 1, 1}), w.binary("Add", {200, 640}, {640}), w.binary("Div", {300, 1000}, {1});
  for (int n : {250, 800, 5000, 60000, 300000}) w.unary("HardSigmoid", {n});
  w.unary("Erf", {150000}), w.unary("Tanh", {1000}), w.unary("Tanh", {150000}), w.unary("Sigmoid", {200000}), w.unary("Exp", {100000});
  w.node("Where", w.input({10, 100, 100}, "i1") + ", " + w.input({1}) + ", " + w.input({10, 100, 100}));
  w.unary("IsNaN", {120000});

  w.unary("ReduceMean", {1, 1024, 8, 8}, "axes = ints [2, 3]"), w.unary("ReduceMean", {300, 500}, "axes = ints [1]"), w.unary("ReduceMean", {1, 640, 7, 7}, "axes = ints [2, 3]");
  w.unary("Softmax", {1200, 96}, "axis = 1"), w.unary("Softmax", {512, 500}, "axis = 1"), w.unary("Softmax", {48, 1000}, "axis = 1");
  for (auto [rows, line] : std::initializer_list<std::pair<int, int>>{{96, 640}, {256, 1024}, {50, 512}})
    w.node("LayerNormalization", w.input({rows, line}) + ", " + w.input({line}) + ", " + w.input({line}));

  w.unary("Transpose", {1, 160, 10, 64}, "perm = ints [0, 2, 1, 3]"), w.unary("Transpose", {1, 8, 200, 64}, "perm = ints [0, 2, 1, 3]"), w.unary("Transpose", {10, 160, 64}, "perm = ints [0, 2, 1]");
  w.unary("Transpose", {400, 500}, "perm = ints [1, 0]");
  for (auto [rows, line, taken] : std::initializer_list<std::tuple<int, int, int>>{{20000, 640, 100}, {500, 512, 200}, {4, 640, 150}})
    w.node("Gather", w.input({rows, line}) + ", " + w.input({1, taken}, "i64"));

  return "opset \"\" 17\ngraph @\"calibration\"(" + w.inputs + ") -> () {\n" + w.nodes + "}\n";
}

}  // namespace roofcast
