// Kinds of faults that users reported of other tools, one small case each.
#include "ops/op_info.h"
#include "support/one_op.h"

#include "ir/print.h"
#include "passes/pass.h"
#include "roofcast/analyze.h"

#include <catch2/catch.hpp>

#include <fstream>

using namespace roofcast;

namespace {

// A graph in textual IR, inferred; its matrix FLOPs with every region's trips, symbols at `set`.
struct Graph {
  std::unique_ptr<Module> module;
  Bindings values;

  explicit Graph(const std::string& text, const std::map<std::string, int64_t>& set = {}) {
    Result<std::unique_ptr<Module>> parsed = parse("opset \"\" 20\nopset \"com.microsoft\" 1\ngraph @\"g\"" + text, "test");
    INFO((parsed ? std::string() : to_string(parsed.error())));
    REQUIRE(parsed);
    module = std::move(*parsed);
    const Status status = infer_types(*module);
    INFO((status ? std::string() : to_string(status.error())));
    REQUIRE(status);
    for (const auto& [name, value] : set) module->bound.set(*module->exprs.find_symbol(name), value);
    values = resolve_symbols(module->exprs, module->bound).values;
  }
  std::vector<int64_t> dims(const std::string& name) const {
    const auto id = module->names.find(name);
    REQUIRE(id);
    for (const Value& v : module->values)
      if (v.name == *id && v.type) {
        std::vector<int64_t> out;
        for (Expr d : v.type->dims) out.push_back(evaluate(d, values).value_or(-1));
        return out;
      }
    return {-99};
  }
  double total(double (*amount)(const Problem&)) const {
    double sum = 0;
    for (uint32_t i = 0; i < module->nodes.size(); ++i) {
      const Node& node = module->nodes[i];
      const Instance& instance = module->instances[node.instance.index];
      if (!instance.op || instance.op->kind == Kind::view || instance.op->kind == Kind::control) continue;
      const auto problem = bind(count_work(*module, instance), instance, values);
      if (!problem) continue;
      double trips = 1;
      for (RegionId r = node.region; r.valid() && r.index != 0; r = (*module)[module->regions[r.index].owner].region)
        trips *= evaluate_real(module->regions[r.index].trips, values).value_or(1);
      sum += trips * amount(*problem);
    }
    return sum;
  }
  double matrix() const { return total([](const Problem& p) { return p.matrix_flops; }); }
};

}  // namespace

TEST_CASE("DynamicQuantizeLinear: three outputs, seven operations an element", "[ops]") {
  OneOp op("DynamicQuantizeLinear");
  const auto r = op.input({4, 8}).outputs(3).run();
  CHECK(r.outputs[0]->dtype == DType::uint8);
  CHECK(r.dims(1).empty());
  CHECK(r.vector() == 4 * 8 * 7);
}

TEST_CASE("grouped and dilated transposed convolution", "[ops]") {
  OneOp op("ConvTranspose");
  const auto r = op.input({1, 8, 5, 5}).input({8, 3, 3, 3}).set("group", 4).set("dilations", {2, 2}).set("strides", {2, 2}).set("output_padding", {1, 1}).run();
  CHECK(r.dims(0) == OneOp::Dims{1, 12, 14, 14});
  CHECK(r.matrix() == 2.0 * 5 * 5 * 8 * 3 * 9);
}

TEST_CASE("DeformConv convolves what it samples", "[ops]") {
  OneOp op("DeformConv");
  const auto r = op.input({1, 4, 9, 9}).input({6, 4, 3, 3}).input({1, 18, 7, 7}).run();
  CHECK(r.dims(0) == OneOp::Dims{1, 6, 7, 7});
  CHECK(r.matrix() == 2.0 * 6 * 7 * 7 * 4 * 9);
}

TEST_CASE("auto_pad and ceil_mode", "[ops]") {
  OneOp same("Conv");
  CHECK(same.input({1, 1, 7, 8}).input({1, 1, 3, 3}).set("strides", {2, 2}).set("auto_pad", "SAME_UPPER").run().dims(0) == OneOp::Dims{1, 1, 4, 4});
  OneOp ceiled("MaxPool");
  CHECK(ceiled.input({1, 1, 6, 6}).set("kernel_shape", {3, 3}).set("strides", {2, 2}).set("ceil_mode", 1).run().dims(0) == OneOp::Dims{1, 1, 3, 3});
}

TEST_CASE("batched, two-sided broadcast and vector MatMul", "[ops]") {
  OneOp both("MatMul");
  const auto r = both.input({3, 1, 4, 5}).input({1, 7, 5, 6}).run();
  CHECK(r.dims(0) == OneOp::Dims{3, 7, 4, 6});
  CHECK(r.matrix() == 2.0 * 3 * 7 * 4 * 5 * 6);
  OneOp vectors("MatMul");
  const auto dot = vectors.input({9}).input({9}).run();
  CHECK(dot.dims(0).empty());
  CHECK(dot.matrix() == 18);
  OneOp half("MatMul");
  CHECK(half.input({2, 3, 4}).input({4}).run().dims(0) == OneOp::Dims{2, 3});
}

TEST_CASE("Einsum with three operands, pair by pair", "[ops]") {
  OneOp op("Einsum");
  const auto r = op.input({2, 3}).input({3, 4}).input({4, 5}).set("equation", "ab,bc,cd->ad").run();
  CHECK(r.dims(0) == OneOp::Dims{2, 5});
  CHECK(r.matrix() == 2.0 * (2 * 3 * 4 + 2 * 4 * 5));
}

TEST_CASE("QLinearAdd, QLinearSoftmax and QLinearConv keep their types", "[ops]") {
  OneOp add("QLinearAdd", 1, "com.microsoft");
  const auto r = add.input({2, 3}, DType::uint8).input({}).input({}, DType::uint8).input({1, 3}, DType::uint8).input({}).input({}, DType::uint8).input({}).input({}, DType::uint8).run();
  CHECK(r.outputs[0]->dtype == DType::uint8);
  CHECK(r.dims(0) == OneOp::Dims{2, 3});
  OneOp conv("QLinearConv");
  const auto c = conv.input({1, 4, 8, 8}, DType::uint8).input({}).input({}, DType::uint8).input({6, 4, 3, 3}, DType::int8).input({}).input({}, DType::int8).input({}).input({}, DType::uint8).run();
  CHECK(c.outputs[0]->dtype == DType::uint8);
  CHECK(c.matrix() == 2.0 * 6 * 6 * 6 * 4 * 9);
  CHECK(c.work.math == MathType::int8);
}

TEST_CASE("Split uneven", "[ops]") {
  OneOp op("Split");
  const auto r = op.input({10}).outputs(3).set("num_outputs", 3).run();
  CHECK(r.dims(0) == OneOp::Dims{4});
  CHECK(r.dims(2) == OneOp::Dims{2});
}

TEST_CASE("Reduce axes as input", "[ops]") {
  OneOp op("ReduceMean");
  CHECK(op.input({2, 3, 4}).values({-1, 0}).set("keepdims", 0).run().dims(0) == OneOp::Dims{3});
}

TEST_CASE("STFT frames, one-sided and not", "[ops]") {
  for (const auto& [onesided, bins] : {std::pair(1, 9), std::pair(0, 16)}) {
    OneOp op("STFT");
    const auto r = op.input({2, 128, 1}).values({8}).absent().values({16}).set("onesided", onesided).run();
    CHECK(r.dims(0) == OneOp::Dims{2, 15, bins, 2});
  }
}

TEST_CASE("Shape start and end into ConstantOfShape", "[ops]") {
  const Graph g("(%x: f32[2, n, 5, 7]) -> (%y) {\n  %s = Shape(%x) {start = 1, end = -1} :\n ?\n  %y = ConstantOfShape(%s) : ?\n}", {{"n", 3}});
  CHECK(g.dims("y") == std::vector<int64_t>{3, 5});
}

TEST_CASE("sequences through a Loop", "[ops]") {
  const Graph g(R"((%x: f32[6, 4], %n: i64[]) -> (%y) {
    %c = Constant() {value_int = 3} : ?
    %t = Constant() {value_int = 1} : ?
    %e = SequenceEmpty() : ?
    %s = Loop(%c, _, %e) {body = graph [0]} : ?
      body "body"(%i: i64[], %cond: i1[], %in: seq(f32[*])) -> (%cond, %out) {
        %out = SequenceInsert(%in, %x) : ?
      }
    %y = SequenceAt(%s, %t) : ?
  })");
  CHECK(g.dims("y") == std::vector<int64_t>{6, 4});
}

TEST_CASE("Loop and Scan times their trips", "[ops]") {
  const Graph loop(R"((%x: f32[2, 8], %w: f32[8, 8]) -> (%y) {
    %c = Constant() {value_int = 5} : ?
    %y = Loop(%c, _, %x) {body = graph [0]} : ?
      body "body"(%i: i64[], %cond: i1[], %h: f32[2, 8]) -> (%cond, %o) {
        %o = MatMul(%h, %w) : ?
      }
  })");
  CHECK(loop.matrix() == 5.0 * 2 * 2 * 8 * 8);
  const Graph scan(R"((%x: f32[time, 2, 8], %h: f32[2, 8], %w: f32[8, 8]) -> (%last, %all) {
    %last, %all = Scan(%h, %x) {body = graph [0], num_scan_inputs = 1} : ?, ?
      body "body"(%s: f32[2, 8], %e: f32[2, 8]) -> (%o, %o) {
        %m = MatMul(%s, %w) : ?
        %o = Add(%m, %e) : ?
      }
  })", {{"time", 7}});
  CHECK(scan.matrix() == 7.0 * 2 * 2 * 8 * 8);
  CHECK(scan.dims("all") == std::vector<int64_t>{7, 2, 8});
}

TEST_CASE("a Loop whose trips nobody knows runs once, and that is said", "[ops]") {
  const Graph g(R"((%x: f32[2, 8], %n: i64[], %w: f32[8, 8]) -> (%y) {
    %y = Loop(%n, _, %x) {body = graph [0]} : ? @"decode"
      body "body"(%i: i64[], %cond: i1[], %h: f32[2, 8]) -> (%cond, %o) {
        %o = MatMul(%h, %w) : ?
      }
  })");
  CHECK(g.matrix() == 2.0 * 2 * 8 * 8);
  const auto id = g.module->exprs.find_symbol("decode");
  REQUIRE(id);
  CHECK(g.module->exprs.info(*id).origin == SymbolOrigin::trip_count);
  CHECK_FALSE(g.module->exprs.info(*id).bound.is_known());
}

TEST_CASE("an If takes one branch, not both", "[ops]") {
  const std::string text = R"((%x: f32[4, 8], %c: i1[], %w: f32[8, 8], %v: f32[8, 100]) -> (%y) {
    %y = If(%c) {then_branch = graph [0], else_branch = graph [1]} : ? @"choice"
      body "then_branch"() -> (%a) {
        %a = MatMul(%x, %w) : ?
      }
      body "else_branch"() -> (%b) {
        %b = MatMul(%x, %v) : ?
      }
  })";
  CHECK(Graph(text, {{"choice", 1}}).matrix() == 2.0 * 4 * 8 * 8);
  CHECK(Graph(text, {{"choice", 0}}).matrix() == 2.0 * 4 * 8 * 100);
  CHECK(Graph(text, {{"choice", 0}}).dims("y") == std::vector<int64_t>{4, 100});
}

TEST_CASE("an embedding reads rows, not its table", "[ops]") {
  OneOp op("Gather");
  const auto r = op.input({50000, 64}).input({2, 10}, DType::int64).run();
  CHECK(r.read() == 2 * 10 * 64 * 4 + 2 * 10 * 8);
}

TEST_CASE("shared weights count once in parameters, and in bytes at each use", "[ops]") {
  const Graph g(R"((%x: f32[2, 8]) -> (%b) {
    weight %w: f32[8, 8] bytes 256
    %a = MatMul(%x, %w) : ?
    %b = MatMul(%a, %w) : ?
  })");
  CHECK(g.total([](const Problem& p) { return p.bytes_read; }) == 2 * (8 * 8 * 4 + 2 * 8 * 4));
  size_t weights = 0;
  for (const Value& v : g.module->values) weights += v.storage == Storage::weight;
  CHECK(weights == 1);
}
