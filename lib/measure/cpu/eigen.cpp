// Tasks that oneDNN has no fast kernel for, by Eigen's array expressions on rows.
#include "measure/cpu/cpu_op.h"

#include <Eigen/Core>
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <unsupported/Eigen/SpecialFunctions>

namespace roofcast::cpu {
namespace {

template <class T> using Array = Eigen::Array<T, Eigen::Dynamic, 1>;
template <class T> using In = Eigen::Map<const Array<T>>;
template <class T> using Out = Eigen::Map<Array<T>>;
using Index = Eigen::Index;

// Operands in memory of their own, each aligned to a cache line.
struct Memory {
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t(64)); }
  };
  std::vector<std::unique_ptr<std::byte, Free>> buffers;
  std::vector<std::span<std::byte>> spans;

  std::byte* add(size_t bytes) {
    buffers.emplace_back(static_cast<std::byte*>(::operator new(std::max<size_t>(bytes, 64), std::align_val_t(64))));
    spans.push_back({buffers.back().get(), bytes});
    return buffers.back().get();
  }
  template <class T> T* at(size_t i) const { return reinterpret_cast<T*>(buffers[i].get()); }
};

// Below this many elements a parallel region costs more than it saves.
constexpr int64_t worth_threads = 16384;

// f(output offset, offset of each operand, count, step of each operand) for every innermost row.
template <class F> void rows(const Broadcast& b, F&& f) {
  const size_t last = b.dims.size() - 1;
  const int64_t count = b.dims[last];
  const int64_t outer = std::accumulate(b.dims.begin(), b.dims.begin() + static_cast<long>(last), int64_t{1}, std::multiplies<>());
  // One long row is cut into pieces for the threads.
  const int64_t piece = outer == 1 ? std::max<int64_t>(worth_threads, 1) : count;
  const int64_t pieces = outer == 1 ? (count + piece - 1) / piece : outer;
#pragma omp parallel for if (outer * count > worth_threads)
  for (int64_t p = 0; p < pieces; ++p) {
    int64_t offsets[3] = {}, steps[3] = {};
    const int64_t start = outer == 1 ? p * piece : 0, row = outer == 1 ? 0 : p;
    for (size_t i = 0; i < b.operands.size() && i < 3; ++i) {
      const std::vector<int64_t>& dims = b.operands[i];
      int64_t stride = dims[last], rest = row;
      for (size_t d = last; d-- > 0;) {
        if (dims[d] != 1) offsets[i] += rest % b.dims[d] * stride;
        rest /= b.dims[d];
        stride *= dims[d];
      }
      steps[i] = dims[last] == 1 ? 0 : 1;
      offsets[i] += start * steps[i];
    }
    f(row * count + start, offsets, std::min(piece, count - start), steps);
  }
}

template <class T, class R, class F> void unary_rows(const Memory& m, const Broadcast& b, F f) {
  rows(b, [&](int64_t y, const int64_t* x, int64_t n, const int64_t*) {
    Out<R>(m.at<R>(1) + y, static_cast<Index>(n)) = f(In<T>(m.at<T>(0) + x[0], static_cast<Index>(n)));
  });
}

// A row of an operand: n elements, or one for all.
template <class T, class F> void with_row(const T* x, int64_t n, int64_t step, F&& f) {
  if (step) f(In<T>(x, static_cast<Index>(n)));
  else f(Array<T>::Constant(static_cast<Index>(n), *x));
}

template <class T, class R, class F> void binary_rows(const Memory& m, const Broadcast& b, F f) {
  rows(b, [&](int64_t y, const int64_t* x, int64_t n, const int64_t* step) {
    Out<R> out(m.at<R>(2) + y, static_cast<Index>(n));
    with_row(m.at<T>(0) + x[0], n, step[0], [&](const auto& a) { with_row(m.at<T>(1) + x[1], n, step[1], [&](const auto& c) { out = f(a, c); }); });
  });
}

using Run = std::function<void(const Memory&)>;

template <class T> Run unary(const form::Pointwise& p, const Broadcast& b) {
  using F = form::Function;
  auto make = [&](auto f) -> Run { return [b, f](const Memory& m) { unary_rows<T, T>(m, b, f); }; };
  const T alpha = static_cast<T>(p.alpha), beta = static_cast<T>(p.beta);
  switch (p.function) {
  case F::abs: return make([](const auto& x) { return x.abs(); });
  case F::ceil: return make([](const auto& x) { return x.ceil(); });
  case F::clip: return make([=](const auto& x) { return x.max(alpha).min(beta); });
  case F::cos: return make([](const auto& x) { return x.cos(); });
  case F::elu: return make([=](const auto& x) { return (x > T(0)).select(x, alpha * (x.exp() - T(1))); });
  case F::erf: return make([](const auto& x) { return x.erf(); });
  case F::exp: return make([](const auto& x) { return x.exp(); });
  case F::floor: return make([](const auto& x) { return x.floor(); });
  case F::gelu: return make([](const auto& x) { return T(0.5) * x * (T(1) + (x * T(M_SQRT1_2)).erf()); });
  case F::hard_sigmoid: return make([=](const auto& x) { return (alpha * x + beta).max(T(0)).min(T(1)); });
  case F::hard_swish: return make([](const auto& x) { return x * (x / T(6) + T(0.5)).max(T(0)).min(T(1)); });
  case F::leaky_relu: return make([=](const auto& x) { return (x > T(0)).select(x, alpha * x); });
  case F::log: return make([](const auto& x) { return x.log(); });
  case F::negate: return make([](const auto& x) { return -x; });
  case F::reciprocal: return make([](const auto& x) { return x.inverse(); });
  case F::relu: return make([](const auto& x) { return x.max(T(0)); });
  case F::round: return make([](const auto& x) { return x.rint(); });
  case F::sigmoid: return make([](const auto& x) { return T(1) / (T(1) + (-x).exp()); });
  case F::sign: return make([](const auto& x) { return x.sign(); });
  case F::silu: return make([](const auto& x) { return x / (T(1) + (-x).exp()); });
  case F::sin: return make([](const auto& x) { return x.sin(); });
  case F::sqrt: return make([](const auto& x) { return x.sqrt(); });
  case F::tanh: return make([](const auto& x) { return x.tanh(); });
  case F::is_nan:
    return [b](const Memory& m) { unary_rows<T, bool>(m, b, [](const auto& x) { return x.isNaN(); }); };
  default: return {};
  }
}

template <class T> Run binary(const form::Pointwise& p, const Broadcast& b) {
  using F = form::Function;
  auto make = [&](auto f) -> Run { return [b, f](const Memory& m) { binary_rows<T, T>(m, b, f); }; };
  auto compare = [&](auto f) -> Run { return [b, f](const Memory& m) { binary_rows<T, bool>(m, b, f); }; };
  switch (p.function) {
  case F::add: return make([](const auto& x, const auto& y) { return x + y; });
  case F::subtract: return make([](const auto& x, const auto& y) { return x - y; });
  case F::multiply: return make([](const auto& x, const auto& y) { return x * y; });
  case F::divide: return make([](const auto& x, const auto& y) { return x / y; });
  case F::max: return make([](const auto& x, const auto& y) { return x.max(y); });
  case F::min: return make([](const auto& x, const auto& y) { return x.min(y); });
  case F::equal: return compare([](const auto& x, const auto& y) { return x == y; });
  case F::less: return compare([](const auto& x, const auto& y) { return x < y; });
  case F::less_equal: return compare([](const auto& x, const auto& y) { return x <= y; });
  case F::greater: return compare([](const auto& x, const auto& y) { return x > y; });
  case F::greater_equal: return compare([](const auto& x, const auto& y) { return x >= y; });
  case F::power:
    if constexpr (std::is_floating_point_v<T>) return make([](const auto& x, const auto& y) { return x.pow(y); });
    return {};
  default: return {};
  }
}

template <class T> Run where(const Broadcast& b) {
  return [b](const Memory& m) {
    rows(b, [&](int64_t y, const int64_t* x, int64_t n, const int64_t* step) {
      T* __restrict out = m.at<T>(3) + y;
      const uint8_t* __restrict c = m.at<uint8_t>(0) + x[0];
      const T* __restrict p = m.at<T>(1) + x[1];
      const T* __restrict q = m.at<T>(2) + x[2];
      // Both sides are read, so that no branch depends on data and the compiler can use vectors.
      auto choose = [&](auto at_p, auto at_q) {
        for (int64_t i = 0; i < n; ++i) {
          const T a = at_p(i), b = at_q(i);
          out[i] = c[i] ? a : b;
        }
      };
      const T one_p = *p, one_q = *q;
      auto each_p = [=](int64_t i) { return p[i]; };
      auto each_q = [=](int64_t i) { return q[i]; };
      auto same_p = [=](int64_t) { return one_p; };
      auto same_q = [=](int64_t) { return one_q; };
      if (!step[0]) {
        for (int64_t i = 0; i < n; ++i) out[i] = *c ? p[i * step[1]] : q[i * step[2]];
      } else if (step[1]) {
        if (step[2]) choose(each_p, each_q);
        else choose(each_p, same_q);
      } else if (step[2]) {
        choose(same_p, each_q);
      } else {
        choose(same_p, same_q);
      }
    });
  };
}

template <class T> Run convert_to(DType to, const Broadcast& b) {
  auto make = [&]<class R>(R) -> Run { return [b](const Memory& m) { unary_rows<T, R>(m, b, [](const auto& x) { return x.template cast<R>(); }); }; };
  switch (to) {
  case DType::float32: return make(float());
  case DType::float64: return make(double());
  case DType::int32: return make(int32_t());
  case DType::int64: return make(int64_t());
  case DType::boolean: return make(bool());
  default: return {};
  }
}

// A call of f with a value of the element type; an empty Run for others.
template <class F> Run for_type(DType type, F&& f) {
  switch (type) {
  case DType::float32: return f(float());
  case DType::float64: return f(double());
  case DType::int32: return f(int32_t());
  case DType::int64: return f(int64_t());
  default: return {};
  }
}

struct Maker {
  const Task& task;

  template <class Other> Run operator()(const Other&) const { return {}; }

  Run operator()(const form::Pointwise& p) const {
    using F = form::Function;
    const Broadcast b = merge_dims(task);
    const DType type = task.inputs[0].dtype;
    if (p.function == F::where) return for_type(task.outputs[0].dtype, [&]<class T>(T) { return where<T>(b); });
    if (p.function == F::logical_and || p.function == F::logical_or) {
      if (p.function == F::logical_and) return [b](const Memory& m) { binary_rows<bool, bool>(m, b, [](const auto& x, const auto& y) { return x && y; }); };
      return [b](const Memory& m) { binary_rows<bool, bool>(m, b, [](const auto& x, const auto& y) { return x || y; }); };
    }
    if (p.function == F::convert) {
      if (type == DType::boolean) return convert_to<bool>(task.outputs[0].dtype, b);
      return for_type(type, [&]<class T>(T) { return convert_to<T>(task.outputs[0].dtype, b); });
    }
    if (task.inputs.size() == 1) {
      if (type == DType::float32) return unary<float>(p, b);
      return type == DType::float64 ? unary<double>(p, b) : Run();
    }
    if (task.inputs.size() != 2 || task.inputs[1].dtype != type) return {};
    return for_type(type, [&]<class T>(T) { return binary<T>(p, b); });
  }

  // All reduced dims next to each other: [outer, line, inner].
  Run operator()(const form::Reduction& r) const {
    if (task.inputs[0].dtype != DType::float32 || r.axes.empty()) return {};
    const auto& dims = task.inputs[0].dims;
    for (size_t i = 1; i < r.axes.size(); ++i)
      if (r.axes[i] != r.axes[i - 1] + 1) return {};
    auto count = [&](int64_t from, int64_t to) { return std::accumulate(dims.begin() + from, dims.begin() + to, int64_t{1}, std::multiplies<>()); };
    const Index outer = count(0, r.axes.front()), line = count(r.axes.front(), r.axes.back() + 1), inner = count(r.axes.back() + 1, static_cast<int64_t>(dims.size()));
    if (outer * line * inner == 0) return {};
    return [=, reducer = r.reducer](const Memory& m) {
      const float* x = m.at<float>(0);
      float* y = m.at<float>(1);
#pragma omp parallel for if (outer * line * inner > worth_threads)
      for (Index o = 0; o < outer; ++o) {
        const Eigen::Map<const Eigen::ArrayXXf> block(x + o * line * inner, inner, line);
        Out<float> out(y + o * inner, inner);
        if (inner == 1) {
          const auto row = In<float>(x + o * line, line);
          out[0] = reducer == form::Reducer::sum ? row.sum() : reducer == form::Reducer::mean ? row.mean() : reducer == form::Reducer::max ? row.maxCoeff() : row.minCoeff();
          continue;
        }
        out = block.col(0);
        for (Index l = 1; l < line; ++l) {
          if (reducer == form::Reducer::max) out = out.max(block.col(l));
          else if (reducer == form::Reducer::min) out = out.min(block.col(l));
          else out += block.col(l);
        }
        if (reducer == form::Reducer::mean) out /= static_cast<float>(line);
      }
    };
  }

  Run operator()(const form::Normalization& n) const {
    if (n.normalizer != form::Normalizer::rms || task.inputs[0].dtype != DType::float32 || task.inputs.size() != 2) return {};
    const auto& dims = task.inputs[0].dims;
    const Index line = std::accumulate(dims.begin() + n.axis, dims.end(), int64_t{1}, std::multiplies<>());
    const Index count = task.inputs[0].elements() / std::max<int64_t>(1, line);
    return [=, epsilon = static_cast<float>(n.epsilon)](const Memory& m) {
#pragma omp parallel for if (count * line > worth_threads)
      for (Index i = 0; i < count; ++i) {
        const In<float> x(m.at<float>(0) + i * line, line), scale(m.at<float>(1), line);
        Out<float>(m.at<float>(2) + i * line, line) = x * scale * (1 / std::sqrt(x.square().mean() + epsilon));
      }
    };
  }

  Run operator()(const form::Permutation& p) const {
    // Rows that stay whole, and what oneDNN does not move: elements of eight bytes, flags.
    const size_t size = static_cast<size_t>(bits(task.inputs[0].dtype) / 8);
    const auto& in = task.inputs[0].dims;
    const std::vector<int64_t> out = task.outputs[0].dims;
    std::vector<int64_t> strides(in.size(), 1), from(in.size());
    for (size_t i = in.size(); i-- > 1;) strides[i - 1] = strides[i] * in[i];
    for (size_t i = 0; i < in.size(); ++i) from[i] = strides[static_cast<size_t>(p.order[i])];
    if (in.empty() || size == 0) return {};
    const int64_t line = out.back(), count = task.outputs[0].elements() / std::max<int64_t>(1, line), step = from.back();
    return [=](const Memory& m) {
#pragma omp parallel for if (count * line > worth_threads)
      for (int64_t i = 0; i < count; ++i) {
        int64_t start = 0, rest = i;
        for (size_t d = out.size() - 1; d-- > 0;) start += rest % out[d] * from[d], rest /= out[d];
        if (step == 1) std::memcpy(m.at<std::byte>(1) + static_cast<size_t>(i * line) * size, m.at<std::byte>(0) + static_cast<size_t>(start) * size, static_cast<size_t>(line) * size);
        else for (int64_t j = 0; j < line; ++j)
          std::memcpy(m.at<std::byte>(1) + static_cast<size_t>(i * line + j) * size, m.at<std::byte>(0) + static_cast<size_t>(start + j * step) * size, size);
      }
    };
  }

  Run operator()(const form::Concatenation& c) const {
    const size_t size = static_cast<size_t>(bits(task.outputs[0].dtype) / 8);
    const auto& out = task.outputs[0].dims;
    auto after = [&](const std::vector<int64_t>& dims) { return static_cast<size_t>(std::accumulate(dims.begin() + c.axis, dims.end(), int64_t{1}, std::multiplies<>())) * size; };
    const int64_t outer = std::accumulate(out.begin(), out.begin() + c.axis, int64_t{1}, std::multiplies<>());
    std::vector<size_t> pieces;
    for (const Operand& o : task.inputs) pieces.push_back(after(o.dims));
    return [=, row = after(out)](const Memory& m) {
      for (int64_t o = 0; o < outer; ++o) {
        std::byte* to = m.at<std::byte>(pieces.size()) + static_cast<size_t>(o) * row;
        for (size_t i = 0; i < pieces.size(); to += pieces[i++]) std::memcpy(to, m.at<std::byte>(i) + static_cast<size_t>(o) * pieces[i], pieces[i]);
      }
    };
  }

  Run operator()(const form::Lookup& l) const {
    const size_t size = static_cast<size_t>(bits(task.inputs[0].dtype) / 8);
    const auto& dims = task.inputs[0].dims;
    auto count = [&](int64_t from, size_t to) { return std::accumulate(dims.begin() + from, dims.begin() + static_cast<long>(to), int64_t{1}, std::multiplies<>()); };
    const int64_t outer = count(0, static_cast<size_t>(l.axis)), all = dims[static_cast<size_t>(l.axis)], taken = task.inputs[1].elements();
    const size_t row = static_cast<size_t>(count(l.axis + 1, dims.size())) * size;
    const bool wide = task.inputs[1].dtype == DType::int64;
    return [=](const Memory& m) {
#pragma omp parallel for if (outer * taken > worth_threads)
      for (int64_t i = 0; i < outer * taken; ++i) {
        int64_t chosen = wide ? m.at<int64_t>(1)[i % taken] : m.at<int32_t>(1)[i % taken];
        if (chosen < 0) chosen += all;
        std::memcpy(m.at<std::byte>(2) + static_cast<size_t>(i) * row, m.at<std::byte>(0) + static_cast<size_t>(i / taken * all + chosen) * row, row);
      }
    };
  }
};

}  // namespace

std::optional<CpuOp> with_eigen(const Task& task, std::span<const HostTensor> inputs) {
  Run run = std::visit(Maker{task}, task.form);
  if (!run) return std::nullopt;
  auto memory = std::make_shared<Memory>();
  for (const HostTensor& t : inputs) std::memcpy(memory->add(t.bytes.size()), t.bytes.data(), t.bytes.size());
  for (const Operand& o : task.outputs) memory->add(static_cast<size_t>(o.bytes()));
  CpuOp op;
  op.operands = memory->spans;
  op.run = [run = std::move(run), memory] { run(*memory); };
  op.read = [memory, operand = task.outputs[0], at = inputs.size()] {
    const std::span<std::byte> bytes = memory->spans[at];
    return std::vector<HostTensor>{{operand, {bytes.begin(), bytes.end()}}};
  };
  return op;
}

}  // namespace roofcast::cpu
