// Element types, tensor types, and the values of small tensors that shapes depend on.
#pragma once

#include "ir/expr.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace roofcast {

// Element types, numbered as in ONNX's TensorProto.DataType.
enum class DType : uint8_t {
  undefined = 0, float32 = 1, uint8 = 2, int8 = 3, uint16 = 4, int16 = 5, int32 = 6, int64 = 7,
  string = 8, boolean = 9, float16 = 10, float64 = 11, uint32 = 12, uint64 = 13, complex64 = 14,
  complex128 = 15, bfloat16 = 16, float8e4m3fn = 17, float8e4m3fnuz = 18, float8e5m2 = 19,
  float8e5m2fnuz = 20, uint4 = 21, int4 = 22, float4e2m1 = 23, float8e8m0 = 24, uint2 = 25, int2 = 26,
};
inline constexpr int dtype_count = 27;

std::string_view name(DType);                    // as in numpy and ml_dtypes: "float8_e4m3fn"
std::string_view short_name(DType);              // as in textual IR and reports: "f8e4m3fn", "bf16"
std::optional<DType> dtype_from_name(std::string_view);  // either name
int bits(DType);                                 // per element; a string counts as 64 (its handle)
bool is_float(DType);
bool is_integer(DType);
Expr storage_bytes(DType, Expr elements);        // sub-byte types packed, rounded up

// What a peak rate is quoted for. A DType has one; tf32 has no DType.
enum class MathType : uint8_t { none, fp64, fp32, tf32, bf16, fp16, fp8, fp4, int32, int8, int4 };
std::string_view name(MathType);                 // "bf16"
std::optional<MathType> math_type_from_name(std::string_view);
MathType math_type(DType);                       // integers wider than 8 bits: int32

struct TypeNode;
using Type = const TypeNode*;  // interned: equal types are one pointer; nullptr = not known

enum class TypeKind : uint8_t { tensor, sparse_tensor, sequence, map, optional };
struct TypeNode {
  TypeKind kind = TypeKind::tensor;
  DType dtype = DType::undefined;  // tensor: element; map: key
  bool ranked = false;
  std::vector<Expr> dims;          // an unknown dim is an unknown Expr
  Type element = nullptr;          // sequence, optional: element; map: value

  bool is_tensor() const { return kind == TypeKind::tensor; }
  bool fully_known() const;        // rank and every dim
  Expr elements() const;           // product of dims; unknown if one is
};
std::string to_string(Type);       // "f32[batch, 3, 224, 224]", "seq(f32[?])"

// One element of a small tensor: an integer expression over a denominator, a real, or not known.
struct Scalar {
  enum class Kind : uint8_t { unknown, rational, real } kind = Kind::unknown;
  Expr num;
  int64_t den = 1;
  double real = 0;

  static Scalar integer(Expr e) { return {e.is_known() ? Kind::rational : Kind::unknown, e, 1, 0}; }
  // INT64_MAX and its like mean "to the end"; any bound beyond 2^62 says the same.
  static Scalar saturated(int64_t v) { return integer(v > limits::dim ? limits::dim : v < -limits::dim ? -limits::dim : v); }
  static Scalar from_double(double v);  // rational where the value is one with a small denominator
  bool is_known() const { return kind != Kind::unknown; }
  Expr as_expr() const { return kind == Kind::rational && den == 1 ? num : Expr(); }
  std::optional<double> as_double() const;
  bool operator==(const Scalar&) const = default;
};

// Elements of a small tensor in row-major order; interned like types.
struct ElementsNode {
  std::vector<Scalar> items;
  bool complete = false;  // every element is known
};
using Elements = const ElementsNode*;  // nullptr: nothing is known

}  // namespace roofcast
