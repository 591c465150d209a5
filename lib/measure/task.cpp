#include "measure/task.h"

#include "ops/op_info.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

namespace roofcast {

int64_t Operand::elements() const {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

double Operand::bytes() const { return static_cast<double>(elements()) * bits(dtype) / 8; }

double Task::bytes() const {
  double total = 0;
  for (const Operand& o : inputs) total += o.bytes();
  for (const Operand& o : outputs) total += o.bytes();
  return total;
}

std::string Task::size_text() const {
  auto text = [](const Operand& o) {
    std::string out;
    for (int64_t d : o.dims) out += (out.empty() ? "" : "×") + std::to_string(d);
    return out.empty() ? std::string("scalar") : out;
  };
  std::string out;
  for (const Operand& o : inputs) out += (out.empty() ? "" : ", ") + text(o);
  for (size_t i = 0; i < outputs.size(); ++i) out += (i ? ", " : " → ") + text(outputs[i]);
  return out + " " + std::string(short_name(outputs.empty() ? DType::undefined : outputs[0].dtype));
}

namespace {

using Ints = std::vector<int64_t>;

// An instance as its row of the table below sees it: rules fill `task.form`, or say why they cannot.
struct Describer {
  OpView view;
  const Bindings& values;
  Task task;
  std::string reason;

  bool refuse(std::string why) {
    reason = std::move(why);
    return false;
  }
  const Ints& in(size_t i) const { return task.inputs[i].dims; }
  const Ints& out() const { return task.outputs[0].dims; }
  size_t rank() const { return in(0).size(); }

  std::optional<Ints> numbers(size_t input) const {
    const auto exprs = view.exprs(input);
    if (!exprs) return std::nullopt;
    Ints result;
    for (Expr e : *exprs) {
      const auto v = evaluate(e, values);
      if (!v) return std::nullopt;
      result.push_back(*v);
    }
    return result;
  }
  // An axis made non-negative; one past the last dim if it is out of range.
  int64_t axis(int64_t a) const {
    const int64_t r = static_cast<int64_t>(rank());
    return a < 0 ? std::max<int64_t>(0, a + r) : std::min(a, r);
  }
  Ints spatial(std::string_view name, size_t count, int64_t otherwise) const {
    Ints result = view.integers(name).value_or(Ints(count, otherwise));
    result.resize(count, otherwise);
    return result;
  }
  // Padding in front of each spatial dim, as pads or auto_pad say.
  Ints pads(const Ints& kernel, const Ints& strides, const Ints& dilations) const {
    Ints front = spatial("pads", 2 * kernel.size(), 0);
    front.resize(kernel.size());
    const std::string_view mode = view.string("auto_pad", "NOTSET");
    if (mode != "SAME_UPPER" && mode != "SAME_LOWER") return front;
    for (size_t i = 0; i < kernel.size(); ++i) {
      const int64_t reach = (out()[i + 2] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1;
      const int64_t total = std::max<int64_t>(0, reach - in(0)[i + 2]);
      front[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    }
    return front;
  }
};

using Rule = bool(Describer&);

bool matmul(Describer& d) {
  if (d.in(0).size() < 2 || d.in(1).size() < 2) return d.refuse("a vector in a product");
  d.task.form = form::Product{};
  return true;
}

bool gemm(Describer& d) {
  d.task.form = form::Product{d.view.integer("transA", 0) != 0, d.view.integer("transB", 0) != 0, d.view.real("alpha", 1),
                              d.view.real("beta", 1)};
  return true;
}

bool convolution(Describer& d) {
  if (d.rank() < 3 || d.in(1).size() != d.rank() || d.out().size() != d.rank()) return d.refuse("not a batch of images");
  const size_t n = d.rank() - 2;
  const Ints kernel(d.in(1).begin() + 2, d.in(1).end());
  form::Convolution f{d.view.integer("group", 1), d.spatial("strides", n, 1), d.spatial("dilations", n, 1), {}};
  f.pads = d.pads(kernel, f.strides, f.dilations);
  d.task.form = std::move(f);
  return true;
}

bool pooling(Describer& d, bool average, bool global) {
  if (d.rank() < 3) return d.refuse("not a batch of images");
  const size_t n = d.rank() - 2;
  const Ints kernel = global ? Ints(d.in(0).begin() + 2, d.in(0).end()) : d.spatial("kernel_shape", n, 1);
  form::Pooling f{average, d.view.integer("count_include_pad", 0) != 0, kernel, Ints(n, 1), Ints(n, 1), Ints(n, 0)};
  if (!global) {
    f.strides = d.spatial("strides", n, 1), f.dilations = d.spatial("dilations", n, 1);
    f.pads = d.pads(kernel, f.strides, f.dilations);
  }
  d.task.form = std::move(f);
  d.task.outputs.resize(1);
  return true;
}
bool max_pool(Describer& d) { return pooling(d, false, false); }
bool average_pool(Describer& d) { return pooling(d, true, false); }
bool global_max_pool(Describer& d) { return pooling(d, false, true); }
bool global_average_pool(Describer& d) { return pooling(d, true, true); }

bool reduction(Describer& d, form::Reducer reducer) {
  Ints axes = d.view.integers("axes").value_or(Ints());
  if (d.view.has(1)) {
    const auto given = d.numbers(1);
    if (!given) return d.refuse("axes are not known");
    axes = *given;
  }
  if (axes.empty()) {
    if (d.view.integer("noop_with_empty_axes", 0)) return d.refuse("nothing is reduced");
    axes.resize(d.rank());
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t& a : axes) a = d.axis(a);
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end() || (!axes.empty() && axes.back() >= static_cast<int64_t>(d.rank())))
    return d.refuse("axes that are not dims");
  d.task.form = form::Reduction{reducer, std::move(axes)};
  d.task.inputs.resize(1);
  return true;
}
bool reduce_sum(Describer& d) { return reduction(d, form::Reducer::sum); }
bool reduce_mean(Describer& d) { return reduction(d, form::Reducer::mean); }
bool reduce_max(Describer& d) { return reduction(d, form::Reducer::max); }
bool reduce_min(Describer& d) { return reduction(d, form::Reducer::min); }

bool softmax(Describer& d) {
  const bool old = d.view.opset() < 13;
  const int64_t axis = d.axis(d.view.integer("axis", old ? 1 : -1));
  if (axis >= static_cast<int64_t>(d.rank())) return d.refuse("axis is no dim");
  // Before opset 13 the line is everything from the axis on.
  if (old && axis + 1 < static_cast<int64_t>(d.rank())) {
    for (std::vector<Operand>* side : {&d.task.inputs, &d.task.outputs}) {
      Ints& dims = side->front().dims;
      const int64_t line = std::accumulate(dims.begin() + axis, dims.end(), int64_t{1}, std::multiplies<>());
      dims.resize(static_cast<size_t>(axis)), dims.push_back(line);
    }
  }
  d.task.form = form::Softmax{axis, d.view.op_name() == "LogSoftmax"};
  return true;
}

bool normalization(Describer& d, form::Normalizer normalizer) {
  d.task.form = form::Normalization{normalizer, d.axis(d.view.integer("axis", -1)), d.view.real("epsilon", 1e-5)};
  d.task.outputs.resize(1);
  return true;
}
bool layer_norm(Describer& d) { return normalization(d, form::Normalizer::layer); }
bool rms_norm(Describer& d) { return normalization(d, form::Normalizer::rms); }
bool batch_norm(Describer& d) {
  if (d.view.integer("training_mode", 0) || d.task.inputs.size() != 5) return d.refuse("statistics of the batch");
  return normalization(d, form::Normalizer::batch);
}

bool transpose(Describer& d) {
  Ints order(d.rank());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(order.size() - 1 - i);
  d.task.form = form::Permutation{d.view.integers("perm").value_or(order)};
  return true;
}

bool concat(Describer& d) {
  const int64_t axis = d.axis(d.view.integer("axis", 1));
  if (axis >= static_cast<int64_t>(d.rank())) return d.refuse("axis is no dim");
  d.task.form = form::Concatenation{axis};
  return true;
}

bool gather(Describer& d) {
  const int64_t axis = d.axis(d.view.integer("axis", 0));
  if (axis >= static_cast<int64_t>(d.rank())) return d.refuse("axis is no dim");
  if (d.task.inputs[1].dtype != DType::int64 && d.task.inputs[1].dtype != DType::int32) return d.refuse("indices of another type");
  d.task.form = form::Lookup{axis};
  return true;
}

struct PointwiseRow {
  std::string_view name;
  form::Function function;
  double alpha = 0, beta = 0;   // the attributes' defaults
};
using F = form::Function;
constexpr PointwiseRow pointwise_ops[] = {
    {"Abs", F::abs}, {"Add", F::add}, {"And", F::logical_and}, {"Cast", F::convert}, {"Ceil", F::ceil}, {"Clip", F::clip},
    {"Cos", F::cos}, {"Div", F::divide}, {"Elu", F::elu, 1}, {"Equal", F::equal}, {"Erf", F::erf}, {"Exp", F::exp},
    {"Floor", F::floor}, {"Gelu", F::gelu}, {"Greater", F::greater}, {"GreaterOrEqual", F::greater_equal},
    {"HardSigmoid", F::hard_sigmoid, 0.2, 0.5}, {"HardSwish", F::hard_swish}, {"IsNaN", F::is_nan},
    {"LeakyRelu", F::leaky_relu, 0.01}, {"Less", F::less}, {"LessOrEqual", F::less_equal}, {"Log", F::log}, {"Max", F::max},
    {"Min", F::min}, {"Mul", F::multiply}, {"Neg", F::negate}, {"Or", F::logical_or}, {"Pow", F::power},
    {"Reciprocal", F::reciprocal}, {"Relu", F::relu}, {"Round", F::round}, {"Sigmoid", F::sigmoid}, {"Sign", F::sign},
    {"Sin", F::sin}, {"Softplus", F::softplus}, {"Sqrt", F::sqrt}, {"Sub", F::subtract}, {"Swish", F::silu}, {"Tanh", F::tanh},
    {"Where", F::where},
};

bool pointwise(Describer& d) {
  const auto row = std::find_if(std::begin(pointwise_ops), std::end(pointwise_ops),
                                [&](const PointwiseRow& r) { return r.name == d.view.op_name(); });
  form::Pointwise f{row->function, d.view.real("alpha", row->alpha), d.view.real("beta", row->beta)};
  if (f.function == F::gelu && d.view.string("approximate", "none") == "tanh") f.function = F::gelu_tanh;
  if (f.function == F::silu && d.view.real("alpha", 1) != 1) return d.refuse("a scaled Swish");
  if (f.function == F::clip) {
    constexpr double most = std::numeric_limits<float>::max();
    f.alpha = d.view.scalar(1).value_or(d.view.real("min", -most));
    f.beta = d.view.scalar(2).value_or(d.view.real("max", most));
    d.task.inputs.resize(1);
  }
  if ((f.function == F::max || f.function == F::min) && d.task.inputs.size() != 2) return d.refuse("other than two operands");
  d.task.form = f;
  return true;
}

struct Row {
  std::string_view name;
  Rule* rule;
};
constexpr Row rows[] = {
    {"MatMul", matmul}, {"Gemm", gemm}, {"Conv", convolution}, {"MaxPool", max_pool}, {"AveragePool", average_pool},
    {"GlobalMaxPool", global_max_pool}, {"GlobalAveragePool", global_average_pool}, {"ReduceSum", reduce_sum},
    {"ReduceMean", reduce_mean}, {"ReduceMax", reduce_max}, {"ReduceMin", reduce_min}, {"Softmax", softmax},
    {"LogSoftmax", softmax}, {"LayerNormalization", layer_norm}, {"RMSNormalization", rms_norm},
    {"SimplifiedLayerNormalization", rms_norm}, {"BatchNormalization", batch_norm}, {"Transpose", transpose},
    {"Concat", concat}, {"Gather", gather},
};

Rule* rule_of(std::string_view name) {
  for (const Row& row : rows)
    if (row.name == name) return row.rule;
  for (const PointwiseRow& row : pointwise_ops)
    if (row.name == name) return pointwise;
  return nullptr;
}

std::optional<Operand> operand(Type type, const Bindings& values) {
  if (!type || !type->is_tensor() || !type->ranked) return std::nullopt;
  Operand out{type->dtype, {}};
  for (Expr dim : type->dims) {
    const auto v = evaluate(dim, values);
    if (!v || *v < 0) return std::nullopt;
    out.dims.push_back(*v);
  }
  return out;
}

}  // namespace

Result<Task> describe(Module& module, const Instance& instance, const Bindings& values) {
  Describer d{OpView(module, instance), values, {}, {}};
  auto refusal = [](std::string why) { return error("op-not-run", std::move(why)); };
  Rule* rule = instance.domain.valid() && !module.names[instance.domain].empty() ? nullptr : rule_of(d.view.op_name());
  if (!rule) return refusal("no backend runs this op");
  for (size_t i = 0; i < instance.inputs.size(); ++i) {
    if (!d.view.has(i)) {
      if (i + 1 < instance.inputs.size()) return refusal("an operand in the middle is left out");
      break;
    }
    const auto known = operand(instance.inputs[i], values);
    if (!known) return refusal("its sizes are not known");
    d.task.inputs.push_back(*known);
  }
  for (size_t i = 0; i < instance.outputs.size(); ++i) {
    if (!d.view.wants(i)) continue;
    const auto known = operand(instance.outputs[i], values);
    if (!known) return refusal("its sizes are not known");
    d.task.outputs.push_back(*known);
  }
  if (d.task.inputs.empty() || d.task.outputs.empty()) return refusal("it has no operands");
  if (!rule(d)) return refusal(d.reason);
  return std::move(d.task);
}

}  // namespace roofcast
