#include "ir/type.h"

#include <cmath>

namespace roofcast {
namespace {

struct DTypeRow {
  std::string_view name, short_name;
  int bits;
  MathType math;
};
constexpr DTypeRow rows[dtype_count] = {
    {"undefined", "?", 0, MathType::none},
    {"float32", "f32", 32, MathType::fp32},
    {"uint8", "u8", 8, MathType::int8},
    {"int8", "i8", 8, MathType::int8},
    {"uint16", "u16", 16, MathType::int32},
    {"int16", "i16", 16, MathType::int32},
    {"int32", "i32", 32, MathType::int32},
    {"int64", "i64", 64, MathType::int32},
    {"string", "str", 64, MathType::none},
    {"bool", "i1", 8, MathType::int32},
    {"float16", "f16", 16, MathType::fp16},
    {"float64", "f64", 64, MathType::fp64},
    {"uint32", "u32", 32, MathType::int32},
    {"uint64", "u64", 64, MathType::int32},
    {"complex64", "c64", 64, MathType::fp32},
    {"complex128", "c128", 128, MathType::fp64},
    {"bfloat16", "bf16", 16, MathType::bf16},
    {"float8_e4m3fn", "f8e4m3fn", 8, MathType::fp8},
    {"float8_e4m3fnuz", "f8e4m3fnuz", 8, MathType::fp8},
    {"float8_e5m2", "f8e5m2", 8, MathType::fp8},
    {"float8_e5m2fnuz", "f8e5m2fnuz", 8, MathType::fp8},
    {"uint4", "u4", 4, MathType::int4},
    {"int4", "i4", 4, MathType::int4},
    {"float4_e2m1fn", "f4e2m1", 4, MathType::fp4},
    {"float8_e8m0fnu", "f8e8m0", 8, MathType::fp8},
    {"uint2", "u2", 2, MathType::int4},
    {"int2", "i2", 2, MathType::int4},
};
constexpr std::string_view math_names[] = {"none", "fp64", "fp32", "tf32", "bf16", "fp16",
                                           "fp8",  "fp4",  "int32", "int8", "int4"};

const DTypeRow& row(DType d) { return rows[static_cast<int>(d) < dtype_count ? static_cast<int>(d) : 0]; }

}  // namespace

std::string_view name(DType d) { return row(d).name; }
std::string_view short_name(DType d) { return row(d).short_name; }
int bits(DType d) { return row(d).bits; }
MathType math_type(DType d) { return row(d).math; }

std::optional<DType> dtype_from_name(std::string_view text) {
  constexpr std::pair<std::string_view, DType> more[] = {
      {"fp32", DType::float32}, {"fp16", DType::float16}, {"fp64", DType::float64}, {"double", DType::float64},
      {"fp8", DType::float8e4m3fn}, {"fp4", DType::float4e2m1}, {"half", DType::float16}, {"float", DType::float32}};
  for (int i = 1; i < dtype_count; ++i)
    if (rows[i].name == text || rows[i].short_name == text) return static_cast<DType>(i);
  for (const auto& [other, dtype] : more)
    if (other == text) return dtype;
  return std::nullopt;
}

bool is_float(DType d) {
  switch (d) {
  case DType::float32: case DType::float16: case DType::float64: case DType::bfloat16:
  case DType::float8e4m3fn: case DType::float8e4m3fnuz: case DType::float8e5m2:
  case DType::float8e5m2fnuz: case DType::float4e2m1: case DType::float8e8m0: return true;
  default: return false;
  }
}

bool is_integer(DType d) {
  return d != DType::undefined && !is_float(d) && d != DType::string && d != DType::boolean &&
         d != DType::complex64 && d != DType::complex128;
}

Expr storage_bytes(DType d, Expr elements) {
  const int width = bits(d);
  return width % 8 == 0 ? elements * (width / 8) : ceil_div(elements * width, 8);
}

std::string_view name(MathType m) { return math_names[static_cast<int>(m)]; }
std::optional<MathType> math_type_from_name(std::string_view text) {
  for (size_t i = 1; i < std::size(math_names); ++i)
    if (math_names[i] == text) return static_cast<MathType>(i);
  return std::nullopt;
}

bool TypeNode::fully_known() const {
  if (kind != TypeKind::tensor || !ranked || dtype == DType::undefined) return false;
  for (Expr d : dims)
    if (!d.is_known()) return false;
  return true;
}

Expr TypeNode::elements() const { return ranked ? product(dims) : Expr(); }

std::string to_string(Type type) {
  if (!type) return "?";
  switch (type->kind) {
  case TypeKind::sequence: return "seq(" + to_string(type->element) + ")";
  case TypeKind::optional: return "optional(" + to_string(type->element) + ")";
  case TypeKind::map: return "map(" + std::string(short_name(type->dtype)) + ", " + to_string(type->element) + ")";
  default: break;
  }
  std::string text = type->kind == TypeKind::sparse_tensor ? "sparse " : "";
  text += short_name(type->dtype);
  if (!type->ranked) return text + "[*]";
  text += "[";
  for (size_t i = 0; i < type->dims.size(); ++i) text += (i ? ", " : "") + type->dims[i].text();
  return text + "]";
}

Scalar Scalar::from_double(double v) {
  for (int64_t den : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}) {
    const double scaled = v * static_cast<double>(den);
    if (std::floor(scaled) == scaled && std::fabs(scaled) < 1e15)
      return {Kind::rational, Expr(static_cast<int64_t>(scaled)), den, 0};
  }
  return {Kind::real, {}, 1, v};
}

std::optional<double> Scalar::as_double() const {
  if (kind == Kind::real) return real;
  if (kind == Kind::rational && num.is_constant()) return static_cast<double>(num.constant()) / static_cast<double>(den);
  return std::nullopt;
}

}  // namespace roofcast
