#include "counting/compare.h"

#include <catch2/catch.hpp>

using namespace counting;
using namespace roofcast;

void Compared::operator()(OneOp& op, const Counts& counts) {
  const OneOp::Result result = op.run();
  const Instance& instance = op.module.instances.back();
  const std::string name(op.module.names[instance.op_type]);
  ops.insert(std::string(instance.op ? instance.op->domain : "") + ":" + name);
  std::string about = name + " opset " + std::to_string(instance.opset);
  for (Type t : instance.inputs) about += " " + to_string(t);
  if (instance.attributes)
    for (const Attribute& a : instance.attributes->items) {
      about += " " + std::string(op.module.names[a.name]) + "=";
      if (a.kind == Attribute::Kind::integer) about += std::to_string(a.i);
      if (a.kind == Attribute::Kind::real) about += std::to_string(a.f);
      if (a.kind == Attribute::Kind::string) about += a.s;
      for (int64_t i : a.ints) about += std::to_string(i) + ",";
    }
  INFO(about);
  if (result.fault) FAIL_CHECK(to_string(*result.fault));
  if (result.fault || result.outputs.empty() || !result.outputs[0]) return;
  INFO(to_string(result.outputs[0]) << " uncounted: " << result.work.uncounted);
  CHECK(result.dims(0) == dims(counts.shape));
  CHECK(result.matrix() == static_cast<double>(counts.matrix.total()));
  CHECK(result.vector() == static_cast<double>(counts.vector.total()));

  // With symbols first and their values afterwards, the same.
  const Bindings values = op.make_symbolic();
  const OneOp::Result open = op.run();
  if (open.fault) FAIL_CHECK("symbolic: " << to_string(*open.fault));
  if (open.fault || !open.outputs[0]) return;
  INFO("symbolic: " << to_string(open.outputs[0]) << " " << open.work.uncounted);
  Shape shape;
  for (Expr d : open.dims(0)) shape.push_back(evaluate(d, values).value_or(-1));
  CHECK(shape == counts.shape);
  CHECK(evaluate(open.work.matrix_flops, values) == counts.matrix.total());
  CHECK(evaluate(open.work.vector_flops, values) == counts.vector.total());
}

TEST_CASE("the op table counts what running the definitions counts", "[counting]") {
  Compared compared;
  compare_pointwise(compared);
  compare_contractions(compared);
  compare_convolutions(compared);
  compare_pooling(compared);
  compare_reductions(compared);
  compare_softmax(compared);
  compare_normalizations(compared);
  compare_images(compared);
  for (OpFamily family : {pointwise_ops(), contraction_ops(), convolution_ops(), pooling_ops(),
                          reduction_ops(), softmax_ops(), normalization_ops(), image_ops()})
    for (const OpInfo& op : family) {
      if (!op.uncounted.empty()) continue;
      INFO(op.domain << ":" << op.name << " is compared nowhere");
      CHECK(compared.ops.count(std::string(op.domain) + ":" + std::string(op.name)) == 1);
    }
}

TEST_CASE("Eigen runs on counted numbers", "[counting]") {
  using Matrix = Eigen::Matrix<Counted, Eigen::Dynamic, Eigen::Dynamic>;
  const Matrix a = Matrix::Constant(3, 4, 1.0), b = Matrix::Constant(4, 5, 2.0);
  Matrix c = Matrix::Constant(3, 5, 0.0);
  const Tally t = count([&] { c.noalias() += a.lazyProduct(b); });
  CHECK(t.products == 3 * 4 * 5);
  CHECK(t.sums == 3 * 4 * 5);  // 3 to add up four products, 1 to add them to c
  CHECK(c(2, 4).value == 8);
}
