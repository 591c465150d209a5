// Elements in host memory, in any of the types that backends run.
#include "measure/task.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

namespace roofcast {
namespace {

// Round to nearest even; no backend's test meets infinities or denormals of these types.
uint16_t to_bf16(float v) {
  const uint32_t u = std::bit_cast<uint32_t>(v);
  return static_cast<uint16_t>((u + 0x7FFF + ((u >> 16) & 1)) >> 16);
}
float from_bf16(uint16_t v) { return std::bit_cast<float>(static_cast<uint32_t>(v) << 16); }

uint16_t to_fp16(float v) {
  const uint32_t u = std::bit_cast<uint32_t>(v);
  const uint32_t sign = (u >> 16) & 0x8000;
  const int exponent = static_cast<int>((u >> 23) & 0xFF) - 127 + 15;
  if (exponent <= 0) return static_cast<uint16_t>(sign);
  if (exponent >= 31) return static_cast<uint16_t>(sign | 0x7C00);
  const uint32_t mantissa = u & 0x7FFFFF;
  const uint32_t half = (static_cast<uint32_t>(exponent) << 10) | (mantissa >> 13);
  const uint32_t rest = mantissa & 0x1FFF;
  return static_cast<uint16_t>(sign | (half + (rest > 0x1000 || (rest == 0x1000 && (half & 1)))));
}
float from_fp16(uint16_t v) {
  const int exponent = (v >> 10) & 31;
  const float mantissa = static_cast<float>(v & 0x3FF) / 1024.0f;
  const float size = exponent == 0 ? std::ldexp(mantissa, -14) : std::ldexp(1 + mantissa, exponent - 15);
  return v & 0x8000 ? -size : size;
}

template <class T> T load(const std::byte* at) {
  T v;
  std::memcpy(&v, at, sizeof v);
  return v;
}
template <class T> void store(std::byte* at, T v) { std::memcpy(at, &v, sizeof v); }

}  // namespace

double HostTensor::at(int64_t index) const {
  const std::byte* p = bytes.data() + index * (bits(operand.dtype) / 8);
  switch (operand.dtype) {
  case DType::float32: return load<float>(p);
  case DType::float64: return load<double>(p);
  case DType::bfloat16: return from_bf16(load<uint16_t>(p));
  case DType::float16: return from_fp16(load<uint16_t>(p));
  case DType::int8: return load<int8_t>(p);
  case DType::uint8: case DType::boolean: return load<uint8_t>(p);
  case DType::int32: return load<int32_t>(p);
  case DType::int64: return static_cast<double>(load<int64_t>(p));
  default: return 0;
  }
}

void HostTensor::set(int64_t index, double value) {
  std::byte* p = bytes.data() + index * (bits(operand.dtype) / 8);
  switch (operand.dtype) {
  case DType::float32: return store(p, static_cast<float>(value));
  case DType::float64: return store(p, value);
  case DType::bfloat16: return store(p, to_bf16(static_cast<float>(value)));
  case DType::float16: return store(p, to_fp16(static_cast<float>(value)));
  case DType::int8: return store(p, static_cast<int8_t>(value));
  case DType::uint8: case DType::boolean: return store(p, static_cast<uint8_t>(value));
  case DType::int32: return store(p, static_cast<int32_t>(value));
  case DType::int64: return store(p, static_cast<int64_t>(value));
  // Enough for timing: of the sign and size of `value`, between 1/4 and 1.
  case DType::float8e4m3fn: return store(p, static_cast<uint8_t>((value < 0 ? 0x80 : 0) | (0x28 + static_cast<int>(std::fmin(std::fabs(value), 1.0) * 16))));
  default: return;
  }
}

std::vector<HostTensor> random_inputs(const Task& task, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<HostTensor> inputs;
  const auto* lookup = std::get_if<form::Lookup>(&task.form);
  const auto* normalization = std::get_if<form::Normalization>(&task.form);
  const auto* pointwise = std::get_if<form::Pointwise>(&task.form);
  for (size_t i = 0; i < task.inputs.size(); ++i) {
    HostTensor t{task.inputs[i], std::vector<std::byte>(static_cast<size_t>(task.inputs[i].bytes()))};
    const int64_t n = t.operand.elements();
    // Logarithms, roots and variances take positive numbers.
    const bool positive = (normalization && i == 4) || (pointwise && (pointwise->function == form::Function::log || pointwise->function == form::Function::sqrt ||
                           pointwise->function == form::Function::power || (pointwise->function == form::Function::divide && i == 1)));
    const double low = positive ? 0.25 : -1;
    const int64_t rows = lookup && i == 1 ? std::max<int64_t>(1, task.inputs[0].dims[static_cast<size_t>(lookup->axis)]) : 0;
    for (int64_t j = 0; j < n; ++j) {
      const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
      if (rows) t.set(j, static_cast<double>(random() % static_cast<uint64_t>(rows)));
      else if (t.operand.dtype == DType::boolean) t.set(j, static_cast<double>(random() & 1));
      else if (is_float(t.operand.dtype)) t.set(j, low + (1 - low) * unit);
      else t.set(j, 1 + std::floor(unit * 7));
    }
    inputs.push_back(std::move(t));
  }
  return inputs;
}

}  // namespace roofcast
