// Products with packed and quantized weights: logical sizes for FLOPs, stored ones for bytes.
#include "support/one_op.h"

#include <catch2/catch.hpp>

using namespace roofcast;
using Dims = OneOp::Dims;

namespace {
double value(Expr e) { return static_cast<double>(e.as_constant().value_or(-1)); }
constexpr std::string_view microsoft = "com.microsoft";
}  // namespace

TEST_CASE("int4 weights are half a byte", "[ops]") {
  OneOp op("MatMulNBits", 1, microsoft);
  op.input({3, 5, 64}).input({20, 2, 16}, DType::uint8).input({40});
  op.set("K", 64).set("N", 20).set("bits", 4).set("block_size", 32);
  const OneOp::Result r = op.run();
  REQUIRE(!r.fault);
  CHECK(r.dims(0) == Dims{3, 5, 20});
  CHECK(r.matrix() == 2. * 15 * 64 * 20);
  CHECK(value(r.work.reads[1]) == 64 * 20 / 2);

  OneOp dequantize("DequantizeLinear");
  dequantize.input({64, 20}, DType::int4).input({20});
  CHECK(value(dequantize.run().work.reads[0]) == 64 * 20 / 2);
}

TEST_CASE("a fused pair of packed products", "[ops]") {
  OneOp op("MatMulNBitsMlp", 1, microsoft);
  op.input({5, 64}).absent().input({64}).input({20, 2, 16}, DType::uint8).input({40}).absent();
  op.input({20, 2, 16}, DType::uint8).input({40});
  op.set("K", 64).set("N", 20).set("bits", 4).set("block_size", 32);
  const OneOp::Result r = op.run();
  REQUIRE(!r.fault);
  CHECK(r.dims(0) == Dims{5, 20});
  CHECK(r.matrix() == 2 * 2. * 5 * 64 * 20);
  // Weights dequantised, silu and gate, the norm before.
  CHECK(r.vector() == 2 * 2 * 64 * 20 + 6 * 5 * 20 + 5 * (4 * 64 + 3));
}

TEST_CASE("integer products that give floats", "[ops]") {
  OneOp op("MatMulIntegerToFloat", 1, microsoft);
  op.input({2, 5, 64}, DType::uint8).input({64, 20}, DType::int8).input({}).input({20});
  const OneOp::Result r = op.run();
  REQUIRE(!r.fault);
  CHECK(r.outputs[0]->dtype == DType::float32);
  CHECK(r.dims(0) == Dims{2, 5, 20});
  CHECK(r.matrix() == 2. * 10 * 64 * 20);
  CHECK(r.work.math == MathType::int8);
}

TEST_CASE("the columns of a blob come from its shape", "[ops]") {
  OneOp op("MatMulFpQ4", 1, microsoft);
  op.input({3, 64}).input({900}, DType::uint8).values({64, 20});
  const OneOp::Result r = op.run();
  REQUIRE(!r.fault);
  CHECK(r.dims(0) == Dims{3, 20});
  CHECK(r.matrix() == 2. * 3 * 64 * 20);
  CHECK(value(r.work.reads[1]) == 900);
}
