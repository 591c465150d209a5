// Tasks by oneDNN. Operands whose layout a network is free to choose (images, constant weights) lie in
// the layout that the primitive prefers; reordering them is not part of the run.
#include "measure/cpu/cpu_op.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

namespace roofcast::cpu {
namespace {

using dnnl::memory;
using Dims = memory::dims;
using Tag = memory::format_tag;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}
dnnl::stream& stream() {
  static dnnl::stream only(engine());
  return only;
}

std::optional<memory::data_type> data_type(DType type) {
  switch (type) {
  case DType::float32: return memory::data_type::f32;
  case DType::bfloat16: return memory::data_type::bf16;
  case DType::float16: return memory::data_type::f16;
  case DType::int32: return memory::data_type::s32;
  case DType::int8: return memory::data_type::s8;
  case DType::uint8: return memory::data_type::u8;
  default: return std::nullopt;
  }
}

Dims row_major(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(1, dims[i]);
  return strides;
}

memory::desc plain(const Operand& operand, const Dims& dims) { return {dims, *data_type(operand.dtype), row_major(dims)}; }
memory::desc any(const Operand& operand, const Dims& dims) { return {dims, *data_type(operand.dtype), Tag::any}; }

// Collects operands of a primitive; `finish` turns it into something to run.
class Builder {
public:
  Builder(const Task& task, std::span<const HostTensor> inputs) : task_(task), inputs_(inputs) {}

  // Input `i`, whose elements lie row-major as `have`, in the layout `want`.
  void input(int argument, size_t i, const memory::desc& have, const memory::desc& want) {
    memory source(have, engine(), const_cast<std::byte*>(inputs_[i].bytes.data()));
    memory own(want, engine());
    dnnl::reorder(source, own).execute(stream(), source, own);
    stream().wait();
    hold(argument, own);
  }
  void output(int argument, const memory::desc& plain_desc, const memory::desc& own_desc) {
    output_ = memory(own_desc, engine());
    output_plain_ = plain_desc;
    hold(argument, output_);
  }
  CpuOp finish(const dnnl::primitive& primitive) {
    CpuOp op;
    op.run = [primitive, arguments = arguments_] {
      primitive.execute(stream(), arguments);
      stream().wait();
    };
    op.operands = operands_;
    op.read = [output = output_, desc = output_plain_, operand = task_.outputs[0]] {
      HostTensor host{operand, std::vector<std::byte>(static_cast<size_t>(operand.bytes()))};
      memory target(desc, engine(), host.bytes.data());
      memory source = output;
      dnnl::reorder(source, target).execute(stream(), source, target);
      stream().wait();
      return std::vector<HostTensor>{std::move(host)};
    };
    return op;
  }

private:
  void hold(int argument, memory& m) {
    arguments_.insert({argument, m});
    operands_.push_back({static_cast<std::byte*>(m.get_data_handle()), m.get_desc().get_size()});
  }
  const Task& task_;
  std::span<const HostTensor> inputs_;
  std::unordered_map<int, memory> arguments_;
  std::vector<std::span<std::byte>> operands_;
  memory output_;
  memory::desc output_plain_;
};

// oneDNN's reference code is no measure of the op.
template <class Desc> bool is_slow(const Desc& desc) { return std::strstr(desc.impl_info_str(), "ref") != nullptr; }

Dims minus_one(Dims dims) {
  for (int64_t& d : dims) --d;
  return dims;
}

struct Maker {
  const Task& task;
  std::span<const HostTensor> inputs;
  Builder build{task, inputs};

  const Operand& in(size_t i) const { return task.inputs[i]; }
  const Operand& out() const { return task.outputs[0]; }

  std::optional<CpuOp> operator()(const form::Product& p) {
    Dims a = in(0).dims, b = in(1).dims, y = out().dims;
    // Rows of all batches that meet one B are rows of one product.
    if (b.size() == 2 && !p.transpose_a && a.size() > 2) {
      const int64_t depth = a.back(), columns = y.back();
      const int64_t rows = in(0).elements() / std::max<int64_t>(1, depth);
      a = {rows, depth}, y = {rows, columns};
    }
    while (a.size() < y.size()) a.insert(a.begin(), 1);
    while (b.size() < y.size()) b.insert(b.begin(), 1);
    // A transposed operand lies row-major as it is given; its dims are those that the product sees.
    auto view = [](const Operand& o, Dims dims, bool transposed) {
      Dims strides = row_major(dims);
      if (transposed) std::swap(dims[dims.size() - 1], dims[dims.size() - 2]), std::swap(strides[dims.size() - 1], strides[dims.size() - 2]);
      return memory::desc(dims, *data_type(o.dtype), strides);
    };
    const memory::desc a_desc = view(in(0), a, p.transpose_a), b_desc = view(in(1), b, p.transpose_b), y_desc = plain(out(), y);
    const memory::desc b_want = y.size() == 2 ? any(in(1), b_desc.dims()) : b_desc;
    dnnl::primitive_attr attributes;
    if (p.alpha != 1) attributes.set_output_scales(0, {static_cast<float>(p.alpha)});
    memory::desc c_desc;
    if (inputs.size() > 2) {
      if (p.beta != 1) return std::nullopt;
      Dims c = in(2).dims;
      while (c.size() < y.size()) c.insert(c.begin(), 1);
      c_desc = plain(in(2), c);
      dnnl::post_ops operations;
      operations.append_binary(dnnl::algorithm::binary_add, c_desc);
      attributes.set_post_ops(operations);
    }
    const dnnl::matmul::primitive_desc desc({a_desc, b_want, y_desc}, attributes, engine());
    if (is_slow(desc)) return std::nullopt;
    build.input(DNNL_ARG_SRC, 0, a_desc, a_desc);
    build.input(DNNL_ARG_WEIGHTS, 1, b_desc, desc.weights_desc());
    if (inputs.size() > 2) build.input(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, 2, c_desc, c_desc);
    build.output(DNNL_ARG_DST, y_desc, y_desc);
    return build.finish(dnnl::matmul(desc));
  }

  std::optional<CpuOp> operator()(const form::Convolution& c) {
    Dims w = in(1).dims;
    if (c.groups > 1) {
      w.insert(w.begin(), c.groups);
      w[1] /= c.groups;
    }
    const Dims kernel(in(1).dims.begin() + 2, in(1).dims.end());
    const bool bias = inputs.size() > 2;
    const memory::desc x = plain(in(0), in(0).dims), weights = plain(in(1), w), y = plain(out(), out().dims);
    const Dims behind = pads_behind(kernel, c.strides, c.dilations, c.pads);
    const auto forward = dnnl::prop_kind::forward_inference;
    const auto algorithm = dnnl::algorithm::convolution_direct;
    const memory::desc x_any = any(in(0), in(0).dims), w_any = any(in(1), w), y_any = any(out(), out().dims);
    const Dims dilations = minus_one(c.dilations);
    const dnnl::convolution_forward::desc what =
        bias ? dnnl::convolution_forward::desc(forward, algorithm, x_any, w_any, plain(in(2), in(2).dims), y_any, c.strides, dilations, c.pads, behind)
             : dnnl::convolution_forward::desc(forward, algorithm, x_any, w_any, y_any, c.strides, dilations, c.pads, behind);
    const dnnl::convolution_forward::primitive_desc desc(what, engine());
    if (is_slow(desc)) return std::nullopt;
    build.input(DNNL_ARG_SRC, 0, x, desc.src_desc());
    build.input(DNNL_ARG_WEIGHTS, 1, weights, desc.weights_desc());
    if (bias) build.input(DNNL_ARG_BIAS, 2, desc.bias_desc(), desc.bias_desc());
    build.output(DNNL_ARG_DST, y, desc.dst_desc());
    return build.finish(dnnl::convolution_forward(desc));
  }

  std::optional<CpuOp> operator()(const form::Pooling& p) {
    const auto algorithm = !p.average ? dnnl::algorithm::pooling_max
                           : p.count_padding ? dnnl::algorithm::pooling_avg_include_padding : dnnl::algorithm::pooling_avg_exclude_padding;
    const memory::desc x = plain(in(0), in(0).dims), y = plain(out(), out().dims);
    // Channels innermost, or in vectors of sixteen, as convolutions leave them.
    Tag tag = Tag::undef;
    const bool vectors = in(0).dims[1] % 16 == 0;
    if (in(0).dims.size() == 4) tag = vectors ? Tag::nChw16c : Tag::nhwc;
    if (in(0).dims.size() == 5) tag = vectors ? Tag::nCdhw16c : Tag::ndhwc;
    if (tag == Tag::undef) return std::nullopt;
    const memory::desc x_own(in(0).dims, *data_type(in(0).dtype), tag);
    const dnnl::pooling_v2_forward::primitive_desc desc(
        {dnnl::prop_kind::forward_inference, algorithm, x_own, any(out(), out().dims), p.strides, p.kernel, minus_one(p.dilations), p.pads,
         pads_behind(p.kernel, p.strides, p.dilations, p.pads)}, engine());
    if (is_slow(desc)) return std::nullopt;
    build.input(DNNL_ARG_SRC, 0, x, x_own);
    build.output(DNNL_ARG_DST, y, desc.dst_desc());
    return build.finish(dnnl::pooling_v2_forward(desc));
  }

  std::optional<CpuOp> operator()(const form::Pointwise& p) {
    using F = form::Function;
    using A = dnnl::algorithm;
    if (inputs.size() == 2) {
      const A algorithm = p.function == F::add ? A::binary_add : p.function == F::subtract ? A::binary_sub
                          : p.function == F::multiply ? A::binary_mul : p.function == F::divide ? A::binary_div
                          : p.function == F::max ? A::binary_max : p.function == F::min ? A::binary_min : A::undef;
      if (algorithm == A::undef || in(0).dtype != in(1).dtype) return std::nullopt;
      return binary(algorithm, p.function != F::subtract && p.function != F::divide);
    }
    struct Row {
      F function;
      A algorithm;
      float alpha = 0, beta = 0;
    };
    const float alpha = static_cast<float>(p.alpha), beta = static_cast<float>(p.beta);
    const Row rows[] = {
        {F::abs, A::eltwise_abs}, {F::clip, A::eltwise_clip_v2, alpha, beta}, {F::elu, A::eltwise_elu, alpha}, {F::exp, A::eltwise_exp},
        {F::gelu, A::eltwise_gelu_erf}, {F::gelu_tanh, A::eltwise_gelu_tanh}, {F::hard_swish, A::eltwise_hardswish},
        {F::leaky_relu, A::eltwise_relu, alpha}, {F::log, A::eltwise_log}, {F::negate, A::eltwise_linear, -1},
        {F::reciprocal, A::eltwise_pow, 1, -1}, {F::relu, A::eltwise_relu}, {F::round, A::eltwise_round}, {F::sigmoid, A::eltwise_logistic},
        {F::silu, A::eltwise_swish, 1}, {F::softplus, A::eltwise_soft_relu}, {F::sqrt, A::eltwise_sqrt}, {F::tanh, A::eltwise_tanh}};
    const Row* row = std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.function == p.function; });
    if (row == std::end(rows) || inputs.size() != 1 || !is_float(in(0).dtype)) return std::nullopt;
    const memory::desc flat = plain(in(0), {in(0).elements()});
    const dnnl::eltwise_forward::primitive_desc desc({dnnl::prop_kind::forward_inference, row->algorithm, flat, row->alpha, row->beta}, engine());
    if (is_slow(desc)) return std::nullopt;
    build.input(DNNL_ARG_SRC, 0, flat, flat);
    build.output(DNNL_ARG_DST, flat, flat);
    return build.finish(dnnl::eltwise_forward(desc));
  }

  std::optional<CpuOp> binary(dnnl::algorithm algorithm, bool commutes) {
    Broadcast b = merge_dims(task);
    size_t first = 0;
    if (b.operands[0] != b.dims) {
      if (!commutes || b.operands[1] != b.dims) return std::nullopt;
      first = 1;
    }
    // Fast kernels broadcast along all dims but the second.
    Dims y = b.dims, full = b.operands[first], part = b.operands[1 - first];
    if (y.size() < 3 && part[0] == y[0])
      for (Dims* dims : {&y, &full, &part}) dims->insert(dims->begin(), 1);
    const memory::desc a = plain(in(first), full), c = plain(in(1 - first), part), d = plain(out(), y);
    const dnnl::binary::primitive_desc desc({algorithm, a, c, d}, engine());
    if (is_slow(desc)) return std::nullopt;
    build.input(DNNL_ARG_SRC_0, first, a, a);
    build.input(DNNL_ARG_SRC_1, 1 - first, c, c);
    build.output(DNNL_ARG_DST, d, d);
    return build.finish(dnnl::binary(desc));
  }

  std::optional<CpuOp> operator()(const form::Reduction& r) {
    const auto algorithm = r.reducer == form::Reducer::sum ? dnnl::algorithm::reduction_sum : r.reducer == form::Reducer::mean ? dnnl::algorithm::reduction_mean
                           : r.reducer == form::Reducer::max ? dnnl::algorithm::reduction_max : dnnl::algorithm::reduction_min;
    Dims y = in(0).dims;
    for (int64_t a : r.axes) y[static_cast<size_t>(a)] = 1;
    if (y == in(0).dims) return std::nullopt;
    const memory::desc source = plain(in(0), in(0).dims), target = plain(out(), y);
    const dnnl::reduction::primitive_desc desc({algorithm, source, target, 0.0f, 0.0f}, engine());
    if (is_slow(desc)) return std::nullopt;
    build.input(DNNL_ARG_SRC, 0, source, source);
    build.output(DNNL_ARG_DST, target, target);
    return build.finish(dnnl::reduction(desc));
  }

  std::optional<CpuOp> operator()(const form::Softmax& s) {
    const memory::desc x = plain(in(0), in(0).dims);
    auto finish = [&](auto make, auto desc) -> std::optional<CpuOp> {
      if (is_slow(desc)) return std::nullopt;
      build.input(DNNL_ARG_SRC, 0, x, x);
      build.output(DNNL_ARG_DST, x, x);
      return build.finish(make(desc));
    };
    const auto forward = dnnl::prop_kind::forward_inference;
    const int axis = static_cast<int>(s.axis);
    if (s.log)
      return finish([](auto& d) { return dnnl::logsoftmax_forward(d); }, dnnl::logsoftmax_forward::primitive_desc({forward, x, axis}, engine()));
    return finish([](auto& d) { return dnnl::softmax_forward(d); }, dnnl::softmax_forward::primitive_desc({forward, x, axis}, engine()));
  }

  std::optional<CpuOp> operator()(const form::Normalization& n) {
    const float epsilon = static_cast<float>(n.epsilon);
    const auto forward = dnnl::prop_kind::forward_inference;
    using Flags = dnnl::normalization_flags;
    if (n.normalizer == form::Normalizer::batch) {
      const memory::desc x = plain(in(0), in(0).dims);
      const dnnl::batch_normalization_forward::primitive_desc desc(
          {forward, x, epsilon, Flags::use_global_stats | Flags::use_scale | Flags::use_shift}, engine());
      if (is_slow(desc)) return std::nullopt;
      build.input(DNNL_ARG_SRC, 0, x, x);
      const int arguments[] = {DNNL_ARG_SCALE, DNNL_ARG_SHIFT, DNNL_ARG_MEAN, DNNL_ARG_VARIANCE};
      for (size_t i = 0; i < 4; ++i) {
        const memory::desc vector = plain(in(i + 1), in(i + 1).dims);
        build.input(arguments[i], i + 1, vector, vector);
      }
      build.output(DNNL_ARG_DST, x, x);
      return build.finish(dnnl::batch_normalization_forward(desc));
    }
    if (n.normalizer != form::Normalizer::layer) return std::nullopt;
    const auto& dims = in(0).dims;
    const int64_t line = std::accumulate(dims.begin() + n.axis, dims.end(), int64_t{1}, std::multiplies<>());
    const memory::desc x = plain(in(0), {in(0).elements() / std::max<int64_t>(1, line), line});
    Flags flags = Flags::none;
    if (inputs.size() > 1) flags |= Flags::use_scale;
    if (inputs.size() > 2) flags |= Flags::use_shift;
    const dnnl::layer_normalization_forward::primitive_desc desc({forward, x, epsilon, flags}, engine());
    if (is_slow(desc)) return std::nullopt;
    build.input(DNNL_ARG_SRC, 0, x, x);
    const int arguments[] = {DNNL_ARG_SCALE, DNNL_ARG_SHIFT};
    for (size_t i = 1; i < inputs.size() && i < 3; ++i) {
      const memory::desc vector = plain(in(i), {line});
      build.input(arguments[i - 1], i, vector, vector);
    }
    build.output(DNNL_ARG_DST, x, x);
    return build.finish(dnnl::layer_normalization_forward(desc));
  }

  std::optional<CpuOp> operator()(const form::Permutation& p) {
    // Whole rows that move are copied faster.
    if (!p.order.empty() && p.order.back() + 1 == static_cast<int64_t>(p.order.size())) return std::nullopt;
    Dims strides(out().dims.size());
    const Dims source = row_major(in(0).dims);
    for (size_t i = 0; i < strides.size(); ++i) strides[i] = source[static_cast<size_t>(p.order[i])];
    const memory::desc from(out().dims, *data_type(in(0).dtype), strides), to = plain(out(), out().dims);
    const dnnl::reorder::primitive_desc desc(engine(), from, engine(), to);
    if (is_slow(desc)) return std::nullopt;
    build.input(DNNL_ARG_FROM, 0, from, from);
    build.output(DNNL_ARG_TO, to, to);
    return build.finish(dnnl::reorder(desc));
  }

  std::optional<CpuOp> operator()(const form::Concatenation& c) {
    std::vector<memory::desc> sources;
    for (size_t i = 0; i < inputs.size(); ++i) sources.push_back(plain(in(i), in(i).dims));
    const memory::desc target = plain(out(), out().dims);
    const dnnl::concat::primitive_desc desc(target, static_cast<int>(c.axis), sources, engine());
    if (is_slow(desc)) return std::nullopt;
    for (size_t i = 0; i < inputs.size(); ++i) build.input(DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), i, sources[i], sources[i]);
    build.output(DNNL_ARG_DST, target, target);
    return build.finish(dnnl::concat(desc));
  }

  std::optional<CpuOp> operator()(const form::Lookup&) { return std::nullopt; }

  // Padding behind, by the output's size: a window may reach less far than the data, or further.
  Dims pads_behind(const Dims& kernel, const Dims& strides, const Dims& dilations, const Dims& front) const {
    Dims behind(kernel.size());
    for (size_t i = 0; i < kernel.size(); ++i)
      behind[i] = (out().dims[i + 2] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - in(0).dims[i + 2] - front[i];
    return behind;
  }
};

}  // namespace

std::optional<CpuOp> with_onednn(const Task& task, std::span<const HostTensor> inputs) {
  for (const std::vector<Operand>* side : {&task.inputs, &task.outputs})
    for (const Operand& o : *side)
      if (!data_type(o.dtype) || o.dims.size() > 6 || o.elements() == 0) return std::nullopt;
  try {
    return std::visit(Maker{task, inputs}, task.form);
  } catch (const dnnl::error& fault) {
    if (fault.status == dnnl_out_of_memory) throw std::bad_alloc();
    return std::nullopt;  // unimplemented for these types or sizes
  }
}

}  // namespace roofcast::cpu
