// What does not fit is an error that says what and why, not a cost of zero.
#include "support/one_op.h"

#include <catch2/catch.hpp>

using namespace roofcast;
using Catch::Matchers::Contains;

namespace {

void refused(OneOp& op, const char* code, const char* message, const char* hint = "") {
  const auto fault = op.run().fault;
  REQUIRE(fault);
  CHECK(fault->code == code);
  CHECK_THAT(fault->message, Contains(message));
  CHECK_THAT(fault->hint, Contains(hint));
}

}  // namespace

TEST_CASE("channels-last data for channels-first weights", "[ops]") {
  OneOp conv("Conv");
  conv.input({1, 224, 224, 3}).input({64, 3, 7, 7});
  refused(conv, "dim-mismatch", "224 channels, the weights take 3", "NHWC");
  OneOp nhwc("NhwcConv", 1, "com.microsoft");
  nhwc.input({1, 3, 224, 224}).input({64, 3, 7, 7});
  refused(nhwc, "dim-mismatch", "224 channels, the weights take 3", "NHWC");
  OneOp batch("BatchNormalization");
  batch.input({1, 224, 224, 64}).input({64}).input({64}).input({64}).input({64});
  refused(batch, "dim-mismatch", "224", "layout");
  OneOp transpose("ConvTranspose");
  transpose.input({1, 8, 8, 16}).input({16, 4, 2, 2});
  refused(transpose, "dim-mismatch", "8 channels, the weights take 16");
}

TEST_CASE("windows that do not fit", "[ops]") {
  OneOp small("Conv");
  small.input({1, 3, 5, 5}).input({4, 3, 7, 7});
  refused(small, "dim-negative", "spans 7 does not fit in 5");
  OneOp groups("Conv");
  groups.input({1, 4, 5, 5}).input({9, 2, 3, 3}).set("group", 2);
  refused(groups, "dim-mismatch", "9 filters do not divide by 2 groups");
  OneOp pads("Conv");
  pads.input({1, 3, 5, 5}).input({4, 3, 3, 3}).set("pads", std::vector<int64_t>{1, 1});
  refused(pads, "onnx-attribute", "pads has 2 entries, 4 are wanted");
  OneOp kernel("MaxPool");
  kernel.input({1, 3, 5, 5});
  refused(kernel, "onnx-attribute", "kernel_shape is missing");
  OneOp rank("AveragePool");
  rank.input({3, 5, 5}).set("kernel_shape", std::vector<int64_t>{2, 2});
  refused(rank, "rank-mismatch", "3 dims for a kernel of 2");
}

TEST_CASE("axes and sizes that do not fit", "[ops]") {
  for (const char* name : {"Softmax", "LayerNormalization", "LpNormalization", "ArgMax"}) {
    OneOp op(name);
    op.input({2, 3}).input({3}).set("axis", 2);
    refused(op, "onnx-attribute", "outside of 2 dims");
  }
  OneOp reduce("ReduceSum");
  reduce.input({2, 3}).values({-3});
  refused(reduce, "onnx-attribute", "axis -3 is outside of 2 dims");
  OneOp resize("Resize");
  resize.input({1, 3, 5, 5}).absent().absent().values({10, 10});
  refused(resize, "dim-mismatch", "2 sizes or scales for 4 dims");
  OneOp group("GroupNormalization");
  group.input({1, 6, 5, 5}).input({6}).input({6}).set("num_groups", 4);
  refused(group, "dim-mismatch", "6 channels do not divide by 4 groups");
  OneOp scale("LayerNormalization");
  scale.input({2, 3, 8}).input({4});
  refused(scale, "dim-mismatch", "8");
}

TEST_CASE("a convolution without a batch", "[ops]") {
  OneOp conv("Conv");
  conv.input({3, 8, 8}).input({4, 3, 3, 3});
  const OneOp::Result r = conv.run();
  REQUIRE(!r.fault);
  CHECK(r.dims(0) == OneOp::Dims{4, 6, 6});
  CHECK(r.matrix() == 2 * 4 * 6 * 6 * 3 * 9);
}
