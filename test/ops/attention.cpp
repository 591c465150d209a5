// Attention's shapes, FLOPs and cache traffic, by hand for each form.
#include "support/one_op.h"

#include <catch2/catch.hpp>

using namespace roofcast;

namespace {

constexpr std::string_view microsoft = "com.microsoft";
using Dims = OneOp::Dims;

double value(Expr e) { return static_cast<double>(e.as_constant().value_or(-1)); }

}  // namespace

TEST_CASE("attention counts two products in full, and pairs inside the mask apart", "[ops]") {
  OneOp op("Attention");
  op.input({2, 8, 5, 16}).input({2, 4, 7, 16}).input({2, 4, 7, 32}).set("is_causal", 1);
  const OneOp::Result r = op.run();
  REQUIRE(!r.fault);
  CHECK(r.dims(0) == Dims{2, 8, 5, 32});
  CHECK(r.matrix() == 2. * 2 * 8 * 5 * 7 * (16 + 32));
  CHECK(r.vector() == 2. * 8 * 5 * (7 * (5 + 1 + 1) - 2));  // softmax, scale, mask
  // Without a cache the mask starts at the upper left: 1 + 2 + 3 + 4 + 5 pairs a head.
  CHECK(value(r.work.causal_matrix_flops) == 2. * 2 * 8 * 15 * (16 + 32));
}

TEST_CASE("a mask that the op does not state is aligned to the last key", "[ops]") {
  OneOp op("Attention");
  op.input({1, 1, 2, 4}).input({1, 1, 9, 4}).input({1, 1, 9, 4});
  CHECK(value(op.run().work.causal_matrix_flops) == 2. * (8 + 9) * 8);
}

TEST_CASE("more queries than keys under an upper left mask", "[ops]") {
  OneOp op("Attention");
  op.input({1, 1, 6, 4}).input({1, 1, 3, 4}).input({1, 1, 3, 4}).set("is_causal", 1);
  CHECK(value(op.run().work.causal_matrix_flops) == 2. * (1 + 2 + 3 * 4) * 8);
}

TEST_CASE("a cache is read where it is, and only new rows are written", "[ops]") {
  OneOp op("Attention");
  op.input({2, 1, 64}).input({2, 1, 32}).input({2, 1, 32}).absent();
  op.input({2, 2, 10, 16}).input({2, 2, 10, 16});
  op.set("q_num_heads", 4).set("kv_num_heads", 2).set("is_causal", 1).outputs(3);
  const OneOp::Result r = op.run();
  REQUIRE(!r.fault);
  CHECK(r.dims(0) == Dims{2, 1, 64});
  CHECK(r.dims(1) == Dims{2, 2, 11, 16});
  CHECK(r.matrix() == 2. * 2 * 4 * 11 * (16 + 16));
  CHECK(r.work.causal_matrix_flops == r.work.matrix_flops);  // one query sees every key
  const double row = 2 * 2 * 16 * 4;  // of all kv heads, float32
  CHECK(r.read() == 2 * 64 * 4 + 2 * row + 2 * 10 * row);
  CHECK(r.written() == 2 * 64 * 4 + 2 * row);
}

TEST_CASE("windows limit the keys of a query and the rows read", "[ops]") {
  OneOp op("GroupQueryAttention", 1, microsoft);
  op.input({1, 1, 64}).input({1, 1, 32}).input({1, 1, 32});
  op.input({1, 2, 100, 16}).input({1, 2, 100, 16}).input({1}, DType::int32).values({81});
  op.set("num_heads", 4).set("kv_num_heads", 2).set("local_window_size", 8).outputs(3);
  const OneOp::Result r = op.run();
  REQUIRE(!r.fault);
  CHECK(r.dims(1) == Dims{1, 2, 100, 16});
  CHECK(r.matrix() == 2. * 4 * 8 * 32);
  CHECK(value(r.work.reads[3]) == 2 * 7 * 16 * 4);
  CHECK(value(r.work.writes[1]) == 2 * 1 * 16 * 4);
}

TEST_CASE("sliding windows inside the triangle", "[ops]") {
  OneOp op("Attention");
  op.input({1, 1, 6, 4}).input({1, 1, 6, 4}).input({1, 1, 6, 4});
  op.set("is_causal", 1).set("left_window_size", 2);
  const OneOp::Result r = op.run();
  CHECK(r.matrix() == 2. * 6 * 3 * 8);
  CHECK(value(r.work.causal_matrix_flops) == 2. * (1 + 2 + 3 * 4) * 8);
}

TEST_CASE("grouped queries: packed QKV, a shared buffer, scores as output", "[ops]") {
  OneOp op("GroupQueryAttention", 1, microsoft);
  op.input({1, 1, (4 + 2 * 2) * 16}, DType::float16).absent().absent();
  op.input({1, 2, 100, 16}, DType::float16).input({1, 2, 100, 16}, DType::float16);
  op.input({1}, DType::int32).values({11});
  op.input({128, 8}, DType::float16).input({128, 8}, DType::float16);
  op.set("num_heads", 4).set("kv_num_heads", 2).set("do_rotary", 1).outputs(4);
  const OneOp::Result r = op.run();
  REQUIRE(!r.fault);
  CHECK(r.dims(0) == Dims{1, 1, 64});
  CHECK(r.dims(1) == Dims{1, 2, 100, 16});
  CHECK(r.dims(3) == Dims{1, 4, 1, 11});
  CHECK(r.matrix() == 2. * 4 * 11 * 32);
  CHECK(r.vector() == 4 * (11 * 7 - 2) + 3 * (4 + 2) * 16);
  CHECK(value(r.work.reads[3]) == 2 * 10 * 16 * 2);  // ten of a hundred rows
  CHECK(value(r.work.reads[7]) == 8 * 2);            // one row of the rotary table
}

TEST_CASE("past and total lengths as symbols", "[ops]") {
  OneOp op("GroupQueryAttention", 1, microsoft);
  const Expr b = op.symbol("batch"), s = op.symbol("seq"), p = op.symbol("past");
  op.input({b, s, 64}).input({b, s, 32}).input({b, s, 32});
  op.input({b, 2, p, 16}).input({b, 2, p, 16}).input({b}, DType::int32).input({1}, DType::int32);
  op.set("num_heads", 4).set("kv_num_heads", 2).outputs(3);
  const OneOp::Result r = op.run();
  REQUIRE(!r.fault);
  CHECK(r.dims(1) == Dims{b, 2, p + s, 16});
  CHECK(r.work.matrix_flops == b * s * (p + s) * (2 * 4 * 32));
}

TEST_CASE("multi-head attention: packed, cross and with a bias", "[ops]") {
  OneOp packed("MultiHeadAttention", 1, microsoft);
  packed.input({2, 5, 4, 3, 16}).set("num_heads", 4);
  CHECK(packed.run().dims(0) == Dims{2, 5, 64});
  CHECK(packed.run().matrix() == 2. * 2 * 4 * 5 * 5 * 32);

  OneOp cross("MultiHeadAttention", 1, microsoft);
  cross.input({2, 5, 64}).input({2, 4, 9, 16}).input({2, 4, 9, 16}).set("num_heads", 4);
  const OneOp::Result c = cross.run();
  CHECK(c.dims(0) == Dims{2, 5, 64});
  CHECK(c.matrix() == 2. * 2 * 4 * 5 * 9 * 32);
  CHECK(!c.work.causal_matrix_flops.is_known());  // no mask over another sequence

  OneOp bias("MultiHeadAttention", 1, microsoft);
  bias.input({2, 5, 64}).input({2, 9, 64}).input({2, 9, 32}).input({160}).set("num_heads", 4);
  const OneOp::Result r = bias.run();
  CHECK(r.dims(0) == Dims{2, 5, 32});
  CHECK(r.matrix() == 2. * 2 * 4 * 5 * 9 * (16 + 8));
  CHECK(r.vector() == 2 * 4 * 5 * (9 * 6 - 2) + 2 * (5 * 64 + 9 * 64 + 9 * 32));
}

TEST_CASE("a projection inside counts with the two products", "[ops]") {
  OneOp op("Attention", 1, microsoft);
  op.input({2, 5, 24}).input({24, 192}).input({192}).absent().input({2, 2, 4, 3, 16});
  op.set("num_heads", 4).outputs(2);
  const OneOp::Result r = op.run();
  REQUIRE(!r.fault);
  CHECK(r.dims(0) == Dims{2, 5, 64});
  CHECK(r.dims(1) == Dims{2, 2, 4, 8, 16});
  CHECK(r.matrix() == 2. * 2 * 5 * 24 * 192 + 2. * 2 * 4 * 5 * 8 * 32);
}

TEST_CASE("quantized attention runs on int8 and gives its scale's type", "[ops]") {
  OneOp op("QAttention", 1, microsoft);
  op.input({2, 5, 24}, DType::uint8).input({24, 192}, DType::int8).input({192});
  op.input({}, DType::float32).input({}, DType::float32).set("num_heads", 4);
  const OneOp::Result r = op.run();
  REQUIRE(!r.fault);
  CHECK(r.outputs[0]->dtype == DType::float32);
  CHECK(r.work.math == MathType::int8);
}

TEST_CASE("linear attention updates, corrects and reads its states", "[ops]") {
  OneOp op("LinearAttention");
  op.input({2, 5, 64}).input({2, 5, 32}).input({2, 5, 16}).input({2, 2, 16, 8});
  op.set("q_num_heads", 4).set("kv_num_heads", 2).set("update_rule", "delta").outputs(2);
  const OneOp::Result r = op.run();
  REQUIRE(!r.fault);
  CHECK(r.dims(0) == Dims{2, 5, 32});
  CHECK(r.dims(1) == Dims{2, 2, 16, 8});
  CHECK(r.matrix() == 2. * 10 * 16 * 8 * (2 * 2 + 4));
}

TEST_CASE("experts: routed tokens compute, touched experts are read", "[ops]") {
  OneOp op("MoE", 1, microsoft);
  op.input({10, 16}).input({10, 64}).input({64, 64, 16}).absent().input({64, 16, 32});
  op.set("k", 2).set("swiglu_fusion", 1);
  const OneOp::Result r = op.run();
  REQUIRE(!r.fault);
  CHECK(r.matrix() == 2. * 10 * 2 * 16 * 32 * 3);
  CHECK(value(r.work.reads[2]) == 20 * 64 * 16 * 4);  // 20 of 64 experts at most
}

TEST_CASE("packed weights of experts count by logical element", "[ops]") {
  OneOp op("QMoE", 1, microsoft);
  op.input({1, 64}).input({1, 8}).input({8, 256, 32}, DType::uint8).input({8, 256}).absent();
  op.input({8, 64, 64}, DType::uint8).input({8, 64}).set("k", 2).set("swiglu_fusion", 1);
  const OneOp::Result r = op.run();
  REQUIRE(!r.fault);
  CHECK(r.matrix() == 2. * 2 * 64 * 128 * 3);
  CHECK(value(r.work.reads[2]) == 2 * 256 * 32);
}
