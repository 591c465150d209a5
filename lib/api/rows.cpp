#include "api/rows.h"

namespace roofcast {
namespace {

std::string join(const Shape& dims) {
  std::string text;
  for (int64_t d : dims) text += (text.empty() ? "" : "×") + std::to_string(d);
  return text.empty() ? "scalar" : text;
}

}  // namespace

std::string problem_size(const Problem& p, const std::optional<Shape>& input, const std::optional<Shape>& output) {
  if (p.kind == Kind::contraction && !p.factors.empty()) {
    Shape sizes;
    for (const FactorSize& f : p.factors)
      if (f.size != 1) sizes.push_back(f.size);
    return join(sizes);
  }
  if (!output) return {};
  if (p.kind == Kind::convolution && input) return join(*input) + " → " + join({output->begin() + (output->size() > 1), output->end()});
  return join(*output);
}

std::optional<double> knee_of(const Problem& p, const Hardware& hardware) {
  const auto rate = p.matrix_flops > 0 ? matrix_rate(hardware, p.math) : vector_rate(hardware, p.math);
  const auto bandwidth = memory_bandwidth(hardware);
  return rate && bandwidth ? std::optional(*rate / *bandwidth) : std::nullopt;
}

}  // namespace roofcast
