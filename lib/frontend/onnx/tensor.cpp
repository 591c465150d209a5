#include "frontend/onnx/tensor.h"

#include "frontend/onnx/wire.h"
#include "support/diagnostic.h"

#include <onnx-ml.pb.h>  // field numbers

namespace roofcast {
namespace {

using onnx::TensorProto;

// Elements kept: integers that shapes are made of, and the few floats of scales and bounds.
size_t kept_elements(DType d) { return d == DType::int64 || d == DType::int32 ? limits::known_elements : 16; }

float half_to_float(uint16_t h) {
  const uint32_t sign = (h & 0x8000u) << 16;
  uint32_t exponent = (h >> 10) & 0x1F, mantissa = h & 0x3FF;
  uint32_t out;
  if (exponent == 0x1F) out = sign | 0x7F800000u | (mantissa << 13);
  else if (exponent) out = sign | ((exponent + 112) << 23) | (mantissa << 13);
  else if (!mantissa) out = sign;
  else {
    int shift = 0;
    while (!(mantissa & 0x400)) mantissa <<= 1, ++shift;
    out = sign | ((113u - static_cast<uint32_t>(shift)) << 23) | ((mantissa & 0x3FF) << 13);
  }
  float f;
  std::memcpy(&f, &out, 4);
  return f;
}

template <class T> T load(std::string_view raw, size_t i) {
  T v;
  std::memcpy(&v, raw.data() + i * sizeof(T), sizeof(T));
  return v;
}

// Element i of little-endian raw bytes.
Scalar raw_element(DType d, std::string_view raw, size_t i) {
  switch (d) {
  case DType::float32: return Scalar::from_double(load<float>(raw, i));
  case DType::float64: return Scalar::from_double(load<double>(raw, i));
  case DType::float16: return Scalar::from_double(half_to_float(load<uint16_t>(raw, i)));
  case DType::bfloat16: {
    const uint32_t wide = static_cast<uint32_t>(load<uint16_t>(raw, i)) << 16;
    float f;
    std::memcpy(&f, &wide, 4);
    return Scalar::from_double(f);
  }
  case DType::int64: return Scalar::saturated(load<int64_t>(raw, i));
  case DType::uint64: return Scalar::saturated(static_cast<int64_t>(std::min<uint64_t>(load<uint64_t>(raw, i), INT64_MAX)));
  case DType::int32: return Scalar::integer(load<int32_t>(raw, i));
  case DType::uint32: return Scalar::integer(static_cast<int64_t>(load<uint32_t>(raw, i)));
  case DType::int16: return Scalar::integer(load<int16_t>(raw, i));
  case DType::uint16: return Scalar::integer(load<uint16_t>(raw, i));
  case DType::int8: return Scalar::integer(load<int8_t>(raw, i));
  case DType::uint8: return Scalar::integer(load<uint8_t>(raw, i));
  case DType::boolean: return Scalar::integer(load<uint8_t>(raw, i) != 0);
  default: return {};
  }
}

}  // namespace

Diagnostic TensorReader::fault(std::string_view code, std::string message, std::string_view name, uint64_t byte) const {
  return error(code, "tensor \"" + std::string(name) + "\": " + std::move(message), {.file = m_.file, .byte = byte}, "fetch the file again");
}

TensorSlices TensorReader::read(std::string_view message) {
  TensorSlices out;
  std::vector<int64_t> dims, integers;
  std::vector<double> reals;
  DType dtype = DType::undefined;
  std::string_view raw;
  bool has_raw = false, external = false;
  uint64_t string_bytes = 0;
  WireReader r(message, file_);
  const uint64_t start = static_cast<uint64_t>(message.data() - file_.data());
  for (WireField f; r.next(f);) {
    switch (f.number) {
    case TensorProto::kDimsFieldNumber:
      if (!append_integers(f, dims, limits::rank + 1)) out.fault = fault("onnx-wire-type", "its dims are malformed", out.name, start);
      break;
    case TensorProto::kDataTypeFieldNumber: dtype = f.scalar < dtype_count ? static_cast<DType>(f.scalar) : DType::undefined; break;
    case TensorProto::kNameFieldNumber: out.name = f.bytes; break;
    case TensorProto::kRawDataFieldNumber: raw = f.bytes, has_raw = true; break;
    case TensorProto::kDataLocationFieldNumber: external = f.scalar == TensorProto::EXTERNAL; break;
    case TensorProto::kInt32DataFieldNumber:
    case TensorProto::kInt64DataFieldNumber:
    case TensorProto::kUint64DataFieldNumber: append_integers(f, integers, limits::known_elements + 1); break;
    case TensorProto::kFloatDataFieldNumber:
      if (f.type == 5) reals.push_back(f.real());
      else
        for (size_t i = 0; f.type == 2 && i < std::min<size_t>(f.bytes.size() / 4, 17); ++i) reals.push_back(load<float>(f.bytes, i));
      break;
    case TensorProto::kDoubleDataFieldNumber:
      for (size_t i = 0; f.type == 2 && i < std::min<size_t>(f.bytes.size() / 8, 17); ++i) reals.push_back(load<double>(f.bytes, i));
      break;
    case TensorProto::kStringDataFieldNumber: string_bytes += f.bytes.size(); break;
    default: break;
    }
  }
  if (r.fault() != WireReader::Fault::none) {
    const bool truncated = r.fault() == WireReader::Fault::truncated;
    out.fault = fault(truncated ? "onnx-truncated" : "onnx-wire-type",
                      truncated ? std::to_string(r.wanted()) + " bytes declared, " + std::to_string(r.left()) + " left" : "is malformed", out.name, r.fault_offset());
  }
  if (out.fault) return out;
  if (dims.size() > limits::rank) {
    out.fault = fault("rank-mismatch", "more than " + std::to_string(limits::rank) + " dims", out.name, start);
    return out;
  }
  std::vector<Expr> sizes;
  Expr count = 1;
  for (int64_t d : dims) {
    if (d < 0) {
      out.fault = fault("dim-negative", "dim " + std::to_string(d), out.name, start);
      return out;
    }
    sizes.push_back(d);
    count *= Expr(d);
  }
  const Expr bytes = storage_bytes(dtype, count);
  if (!count.is_constant() || !bytes.is_constant()) {
    out.fault = fault("dim-overflow", "its dims multiply beyond 2^62", out.name, start);
    return out;
  }
  const uint64_t need = static_cast<uint64_t>(bytes.constant());
  if (has_raw && !external && raw.size() < need && dtype != DType::string) {
    out.fault = fault("onnx-truncated", std::to_string(need) + " bytes needed for its dims, " + std::to_string(raw.size()) + " there", out.name, start);
    return out;
  }
  out.tensor.type = m_.tensor(dtype, std::move(sizes));
  out.tensor.stored_bytes = dtype == DType::string ? string_bytes : need;

  const size_t n = static_cast<size_t>(count.constant());
  if (external || n > kept_elements(dtype)) return out;
  std::vector<Scalar> items;
  if (has_raw && bits(dtype) % 8 == 0)
    for (size_t i = 0; i < n && dtype != DType::string; ++i) {
      const Scalar s = raw_element(dtype, raw, i);
      items.push_back(dtype == DType::int64 ? Scalar::saturated(load<int64_t>(raw, i)) : s);
    }
  else if (dtype == DType::float16 || dtype == DType::bfloat16)
    for (int64_t v : integers) {
      const uint16_t half = static_cast<uint16_t>(v);
      items.push_back(raw_element(dtype, {reinterpret_cast<const char*>(&half), 2}, 0));
    }
  else if (dtype == DType::float32 || dtype == DType::float64)
    for (double v : reals) items.push_back(Scalar::from_double(v));
  else if (bits(dtype) >= 8 && dtype != DType::string)
    for (int64_t v : integers) items.push_back(Scalar::saturated(v));
  if (items.size() == n && (n > 0 || dims.size() > 0)) out.tensor.elements = m_.elements(std::move(items));
  return out;
}

TensorSlices TensorReader::read_sparse(std::string_view message) {
  TensorSlices out, values, indices;
  std::vector<int64_t> dims;
  WireReader r(message, file_);
  for (WireField f; r.next(f);) {
    switch (f.number) {
    case onnx::SparseTensorProto::kValuesFieldNumber: values = read(f.bytes); break;
    case onnx::SparseTensorProto::kIndicesFieldNumber: indices = read(f.bytes); break;
    case onnx::SparseTensorProto::kDimsFieldNumber: append_integers(f, dims, limits::rank + 1); break;
    default: break;
    }
  }
  const uint64_t start = static_cast<uint64_t>(message.data() - file_.data());
  if (values.fault) return values;
  if (indices.fault) return indices;
  out.name = values.name;
  if (r.fault() != WireReader::Fault::none) out.fault = fault("onnx-truncated", "a sparse tensor ends early", out.name, r.fault_offset());
  std::vector<Expr> sizes;
  for (int64_t d : dims) {
    if (d < 0) out.fault = fault("dim-negative", "dim " + std::to_string(d), out.name, start);
    sizes.push_back(d);
  }
  if (out.fault) return out;
  out.tensor.type = m_.tensor(values.tensor.type ? values.tensor.type->dtype : DType::undefined, std::move(sizes));
  out.tensor.stored_bytes = values.tensor.stored_bytes + indices.tensor.stored_bytes;
  return out;
}

}  // namespace roofcast
