// Recurrent layers: steps × directions, layouts, and where sizes come from.
#include "support/one_op.h"

#include <catch2/catch.hpp>

using namespace roofcast;

namespace {
using Dims = OneOp::Dims;
}

TEST_CASE("LSTM: products with input and state, for each step and direction", "[ops]") {
  OneOp op("LSTM");
  op.input({6, 2, 10}).input({2, 32, 10}).input({2, 32, 8}).input({2, 64});
  op.set("direction", "bidirectional").set("hidden_size", 8).outputs(3);
  const OneOp::Result r = op.run();
  REQUIRE(!r.fault);
  CHECK(r.dims(0) == Dims{6, 2, 2, 8});
  CHECK(r.dims(1) == Dims{2, 2, 8});
  CHECK(r.matrix() == 2. * 6 * 2 * 2 * 4 * 8 * (10 + 8));
  // Four sums and biases of two, three sigmoids (4), two tanh, the update (4).
  CHECK(r.vector() == 6 * 2 * 2 * 8 * (4 * 3 + 3 * 4 + 2 + 4));
}

TEST_CASE("GRU: hidden size by its weights, batch first", "[ops]") {
  OneOp op("GRU");
  op.input({2, 6, 10}).input({1, 24, 10}).input({1, 24, 8}).set("layout", 1).outputs(2);
  const OneOp::Result r = op.run();
  REQUIRE(!r.fault);
  CHECK(r.dims(0) == Dims{2, 6, 1, 8});
  CHECK(r.dims(1) == Dims{2, 1, 8});
  CHECK(r.matrix() == 2. * 6 * 2 * 3 * 8 * (10 + 8));
}

TEST_CASE("RNN: steps as a symbol", "[ops]") {
  OneOp op("RNN");
  const Expr t = op.symbol("time");
  op.input({t, 1, 10}).input({1, 8, 10}).input({1, 8, 8});
  const OneOp::Result r = op.run();
  REQUIRE(!r.fault);
  CHECK(r.dims(0) == Dims{t, 1, 1, 8});
  CHECK(r.work.matrix_flops == t * (2 * 8 * 18));
}

TEST_CASE("a quantized LSTM keeps its weights transposed", "[ops]") {
  OneOp op("DynamicQuantizeLSTM", 1, "com.microsoft");
  op.input({6, 2, 10}).input({1, 10, 32}, DType::int8).input({1, 8, 32}, DType::int8);
  const OneOp::Result r = op.run();
  REQUIRE(!r.fault);
  CHECK(r.dims(0) == Dims{6, 1, 2, 8});
  CHECK(r.matrix() == 2. * 6 * 2 * 4 * 8 * (10 + 8));
  CHECK(r.work.math == MathType::int8);
}

TEST_CASE("features that do not fit the weights are said", "[ops]") {
  OneOp op("LSTM");
  op.input({6, 2, 11}).input({1, 32, 10}).input({1, 32, 8}).set("hidden_size", 8);
  const OneOp::Result r = op.run();
  REQUIRE(r.fault);
  CHECK(r.fault->code == "dim-mismatch");
}
