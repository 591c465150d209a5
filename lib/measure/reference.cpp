// Every form by its definition, element by element.
#include "measure/task.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace roofcast {
namespace {

using Ints = std::vector<int64_t>;

// Calls f(index of each dim) for every element of a box, row-major.
template <class F> void for_each(const Ints& dims, F&& f) {
  for (int64_t d : dims)
    if (d == 0) return;
  Ints at(dims.size());
  for (;;) {
    f(std::as_const(at));
    size_t i = dims.size();
    while (i > 0 && ++at[i - 1] == dims[i - 1]) at[--i] = 0;
    if (i == 0) return;
  }
}

// Position of an index in an operand that it broadcasts to.
int64_t offset(const Ints& dims, const Ints& index) {
  int64_t at = 0;
  const size_t skip = index.size() - dims.size();
  for (size_t i = 0; i < dims.size(); ++i) at = at * dims[i] + (dims[i] == 1 ? 0 : index[i + skip]);
  return at;
}

double apply(const form::Pointwise& p, double x, double y, double z) {
  using F = form::Function;
  auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  switch (p.function) {
  case F::abs: return std::fabs(x);
  case F::add: return x + y;
  case F::ceil: return std::ceil(x);
  case F::clip: return std::min(std::max(x, p.alpha), p.beta);
  case F::cos: return std::cos(x);
  case F::divide: return x / y;
  case F::elu: return x > 0 ? x : p.alpha * std::expm1(x);
  case F::erf: return std::erf(x);
  case F::exp: return std::exp(x);
  case F::floor: return std::floor(x);
  case F::gelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  case F::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  case F::hard_sigmoid: return std::clamp(p.alpha * x + p.beta, 0.0, 1.0);
  case F::hard_swish: return x * std::clamp(x / 6 + 0.5, 0.0, 1.0);
  case F::is_nan: return std::isnan(x);
  case F::leaky_relu: return x > 0 ? x : p.alpha * x;
  case F::log: return std::log(x);
  case F::logical_and: return x != 0 && y != 0;
  case F::logical_or: return x != 0 || y != 0;
  case F::max: return std::max(x, y);
  case F::min: return std::min(x, y);
  case F::multiply: return x * y;
  case F::negate: return -x;
  case F::power: return std::pow(x, y);
  case F::reciprocal: return 1 / x;
  case F::relu: return std::max(x, 0.0);
  case F::round: return std::nearbyint(x);
  case F::sigmoid: return sigmoid(x);
  case F::sign: return (x > 0) - (x < 0);
  case F::silu: return x * sigmoid(x);
  case F::sin: return std::sin(x);
  case F::softplus: return std::log1p(std::exp(x));
  case F::sqrt: return std::sqrt(x);
  case F::subtract: return x - y;
  case F::tanh: return std::tanh(x);
  case F::where: return x != 0 ? y : z;
  case F::equal: return x == y;
  case F::less: return x < y;
  case F::less_equal: return x <= y;
  case F::greater: return x > y;
  case F::greater_equal: return x >= y;
  case F::convert: return x;
  }
  return 0;
}

struct Runner {
  const Task& task;
  std::span<const HostTensor> in;
  std::vector<HostTensor>& out;

  const Ints& dims(size_t i) const { return task.inputs[i].dims; }
  const Ints& result() const { return task.outputs[0].dims; }

  void operator()(const form::Product& p) {
    const size_t r = result().size(), ra = dims(0).size(), rb = dims(1).size();
    const int64_t depth = dims(0)[ra - (p.transpose_a ? 2 : 1)];
    int64_t at = 0;
    for_each(result(), [&](const Ints& index) {
      Ints a(index.begin(), index.end()), b(index.begin(), index.end());
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k) {
        a[r - 2] = p.transpose_a ? k : index[r - 2], a[r - 1] = p.transpose_a ? index[r - 2] : k;
        b[r - 2] = p.transpose_b ? index[r - 1] : k, b[r - 1] = p.transpose_b ? k : index[r - 1];
        sum += in[0].at(offset(dims(0), Ints(a.end() - static_cast<long>(std::min(r, ra)), a.end()))) *
               in[1].at(offset(dims(1), Ints(b.end() - static_cast<long>(std::min(r, rb)), b.end())));
      }
      const double bias = in.size() > 2 ? p.beta * in[2].at(offset(dims(2), index)) : 0;
      out[0].set(at++, p.alpha * sum + bias);
    });
  }

  // Calls f(input position, kernel position) for the elements of a window that lie inside the data.
  template <class F>
  void window(const Ints& at, const Ints& data, const Ints& kernel, const Ints& strides, const Ints& dilations, const Ints& pads, F&& f) {
    for_each(kernel, [&](const Ints& k) {
      Ints position(k.size());
      for (size_t i = 0; i < k.size(); ++i) {
        position[i] = at[i + 2] * strides[i] + k[i] * dilations[i] - pads[i];
        if (position[i] < 0 || position[i] >= data[i + 2]) return;
      }
      f(position, k);
    });
  }

  void operator()(const form::Convolution& c) {
    const Ints kernel(dims(1).begin() + 2, dims(1).end());
    const int64_t depth = dims(1)[1], per_group = dims(1)[0] / c.groups;
    int64_t at = 0;
    for_each(result(), [&](const Ints& index) {
      double sum = in.size() > 2 ? in[2].at(index[1]) : 0;
      window(index, dims(0), kernel, c.strides, c.dilations, c.pads, [&](const Ints& position, const Ints& k) {
        Ints x = {index[0], 0}, w = {index[1], 0};
        x.insert(x.end(), position.begin(), position.end()), w.insert(w.end(), k.begin(), k.end());
        for (int64_t i = 0; i < depth; ++i) {
          x[1] = index[1] / per_group * depth + i, w[1] = i;
          sum += in[0].at(offset(dims(0), x)) * in[1].at(offset(dims(1), w));
        }
      });
      out[0].set(at++, sum);
    });
  }

  void operator()(const form::Pooling& p) {
    int64_t at = 0;
    const int64_t all = std::accumulate(p.kernel.begin(), p.kernel.end(), int64_t{1}, std::multiplies<>());
    for_each(result(), [&](const Ints& index) {
      double sum = 0, most = -std::numeric_limits<double>::max();
      int64_t inside = 0;
      window(index, dims(0), p.kernel, p.strides, p.dilations, p.pads, [&](const Ints& position, const Ints&) {
        Ints x = {index[0], index[1]};
        x.insert(x.end(), position.begin(), position.end());
        const double v = in[0].at(offset(dims(0), x));
        sum += v, most = std::max(most, v), ++inside;
      });
      out[0].set(at++, p.average ? sum / static_cast<double>(p.count_padding ? all : std::max<int64_t>(inside, 1)) : most);
    });
  }

  void operator()(const form::Pointwise& p) {
    int64_t at = 0;
    for_each(result(), [&](const Ints& index) {
      double v[3] = {};
      for (size_t i = 0; i < in.size() && i < 3; ++i) v[i] = in[i].at(offset(dims(i), index));
      out[0].set(at++, apply(p, v[0], v[1], v[2]));
    });
  }

  void operator()(const form::Reduction& r) {
    Ints kept = dims(0);
    int64_t line = 1;
    for (int64_t a : r.axes) line *= kept[static_cast<size_t>(a)], kept[static_cast<size_t>(a)] = 1;
    const double first = r.reducer == form::Reducer::max ? -std::numeric_limits<double>::max() : r.reducer == form::Reducer::min ? std::numeric_limits<double>::max() : 0;
    std::vector<double> sums(static_cast<size_t>(out[0].operand.elements()), first);
    int64_t at = 0;
    for_each(dims(0), [&](const Ints& index) {
      double& sum = sums[static_cast<size_t>(offset(kept, index))];
      const double v = in[0].at(at++);
      sum = r.reducer == form::Reducer::max ? std::max(sum, v) : r.reducer == form::Reducer::min ? std::min(sum, v) : sum + v;
    });
    for (size_t i = 0; i < sums.size(); ++i)
      out[0].set(static_cast<int64_t>(i), r.reducer == form::Reducer::mean ? sums[i] / static_cast<double>(line) : sums[i]);
  }

  // Calls f(positions of one line) for every line along the dims from `first` to before `last`.
  template <class F> void lines(size_t first, size_t last, F&& f) {
    Ints outer = dims(0), inner(outer.size(), 1);
    for (size_t i = first; i < last; ++i) inner[i] = outer[i], outer[i] = 1;
    for_each(outer, [&](const Ints& start) {
      Ints positions;
      for_each(inner, [&](const Ints& step) {
        Ints index = start;
        for (size_t i = 0; i < index.size(); ++i) index[i] += step[i];
        positions.push_back(offset(dims(0), index));
      });
      f(positions);
    });
  }

  void operator()(const form::Softmax& s) {
    const size_t axis = static_cast<size_t>(s.axis);
    lines(axis, axis + 1, [&](const Ints& line) {
      double most = -std::numeric_limits<double>::max(), sum = 0;
      for (int64_t i : line) most = std::max(most, in[0].at(i));
      for (int64_t i : line) sum += std::exp(in[0].at(i) - most);
      for (int64_t i : line)
        out[0].set(i, s.log ? in[0].at(i) - most - std::log(sum) : std::exp(in[0].at(i) - most) / sum);
    });
  }

  void operator()(const form::Normalization& n) {
    if (n.normalizer == form::Normalizer::batch) {
      int64_t at = 0;
      for_each(dims(0), [&](const Ints& index) {
        const int64_t c = index[1];
        out[0].set(at, (in[0].at(at) - in[3].at(c)) / std::sqrt(in[4].at(c) + n.epsilon) * in[1].at(c) + in[2].at(c));
        ++at;
      });
      return;
    }
    lines(static_cast<size_t>(n.axis), dims(0).size(), [&](const Ints& line) {
      const double count = static_cast<double>(line.size());
      double mean = 0, square = 0;
      if (n.normalizer == form::Normalizer::layer)
        for (int64_t i : line) mean += in[0].at(i) / count;
      for (int64_t i : line) square += (in[0].at(i) - mean) * (in[0].at(i) - mean) / count;
      for (size_t i = 0; i < line.size(); ++i) {
        const int64_t column = static_cast<int64_t>(i);
        const double scale = in.size() > 1 ? in[1].at(column) : 1, bias = in.size() > 2 ? in[2].at(column) : 0;
        out[0].set(line[i], (in[0].at(line[i]) - mean) / std::sqrt(square + n.epsilon) * scale + bias);
      }
    });
  }

  void operator()(const form::Permutation& p) {
    int64_t at = 0;
    for_each(result(), [&](const Ints& index) {
      Ints source(index.size());
      for (size_t i = 0; i < index.size(); ++i) source[static_cast<size_t>(p.order[i])] = index[i];
      out[0].set(at++, in[0].at(offset(dims(0), source)));
    });
  }

  void operator()(const form::Concatenation& c) {
    int64_t start = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      int64_t at = 0;
      for_each(dims(i), [&](Ints index) {
        index[static_cast<size_t>(c.axis)] += start;
        out[0].set(offset(result(), index), in[i].at(at++));
      });
      start += dims(i)[static_cast<size_t>(c.axis)];
    }
  }

  void operator()(const form::Lookup& l) {
    const size_t axis = static_cast<size_t>(l.axis), chosen = dims(1).size();
    int64_t at = 0;
    for_each(result(), [&](const Ints& index) {
      int64_t row = static_cast<int64_t>(in[1].at(offset(dims(1), Ints(index.begin() + l.axis, index.begin() + l.axis + static_cast<long>(chosen)))));
      if (row < 0) row += dims(0)[axis];
      Ints source(index.begin(), index.begin() + l.axis);
      source.push_back(row);
      source.insert(source.end(), index.begin() + l.axis + static_cast<long>(chosen), index.end());
      out[0].set(at++, in[0].at(offset(dims(0), source)));
    });
  }
};

}  // namespace

std::vector<HostTensor> reference(const Task& task, std::span<const HostTensor> inputs) {
  std::vector<HostTensor> outputs;
  for (const Operand& o : task.outputs) outputs.push_back({o, std::vector<std::byte>(static_cast<size_t>(o.bytes()))});
  std::visit(Runner{task, inputs, outputs}, task.form);
  return outputs;
}

}  // namespace roofcast
