// Optimizer steps (ai.onnx.preview.training). Inputs: rate, step, then all parameters, all gradients,
// and the states, each list as long as the others; outputs: parameters, then states.
#include "ops/op_table.h"
#include "ops/rules.h"

namespace roofcast {
namespace {

// `Lists`: how many lists follow rate and step (parameters, gradients, states).
template <size_t Lists> void infer_step(InferContext& c) {
  if (!c.need_inputs(2)) return;
  const size_t n = (c.input_count() - 2) / Lists;
  for (size_t i = 0; i < c.output_count(); ++i) {
    // Output list 0 is the parameters, the others are the states behind the gradients.
    const size_t list = n ? i / n : 0, at = n ? i % n : 0;
    const size_t from = 2 + (list == 0 ? 0 : list + 1) * n + at;
    if (from < c.input_count()) c.output(i, c.in(from));
  }
}
template <size_t Lists, int PerElement> void step_work(const OpView& v, Work& w) {
  const size_t n = (v.input_count() - std::min<size_t>(2, v.input_count())) / Lists;
  Expr parameters = 0;
  for (size_t i = 0; i < n; ++i)
    if (v.in(2 + i)) parameters += v.in(2 + i)->elements();
  w.vector_flops = parameters * PerElement;
}

#define TRAINING(op_name, lists, per_element, formula_text) \
  {.domain = "ai.onnx.preview.training", .name = op_name, .since = 1, .kind = Kind::optimizer, .infer = infer_step<lists>, .work = step_work<lists, per_element>, .formula = formula_text}

constexpr OpInfo table[] = {
    TRAINING("Adagrad", 3, 7, "7 per parameter: decay 2, square and sum 2, root, divide, step"),
    TRAINING("Adam", 4, 13, "13 per parameter: decay 2, two moments 6, root, epsilon, divide, step 2"),
    TRAINING("Momentum", 3, 6, "6 per parameter: decay 2, momentum 2, step 2"),
    {.domain = "ai.onnx.preview.training", .name = "Gradient", .since = 1, .kind = Kind::optimizer,
     .infer = [](InferContext& c) {
       for (size_t i = 0; i < c.output_count(); ++i) c.output(i, c.in(i));
     }, .uncounted = "stands for the backward pass of a part of the graph, which only a training runtime builds"},
};

}  // namespace

OpFamily optimizer_ops() { return table; }

}  // namespace roofcast
