// The access notation: how an op's operands meet its iteration space.
//
//   MatMul      b.. m k, b.. k n -> b.. m n
//   Conv        n (g c) y+r x+s, (g m) c r s -> n (g m) y x
//   Softmax     b.. s~ -> b.. s~
//   Gather      @v d.., i.. -> i.. d..
//
// A name is a factor: one loop of the op. What it is named after, its role follows from how it occurs:
//   m      in inputs and in an output: pass        sharded freely, tiled freely
//   k      in inputs only: reduce                  sharded: partial sums
//   y+r    window: r is `window`, y passes         sharded: halo exchange
//   @v     lookup, addressed by data               sharded: masked partial sums
//   s~     online: a line with a carried state     sharded: small all-reduce of the state
//   s!     whole: needs the whole line             replicated
//   t>     ordered: step after step                never split
//   (g m)  one dim made of two factors, g outermost
//   b..    as many dims as are left, right-aligned and broadcast as in numpy
//   n?     a dim that may be one instead (broadcast)
//   1      a dim of size one
//   .      a left-out operand or one outside the loops (a scalar, a shape)
// From the factors follow output dims, points, bytes, shardings, gradients and fusion.
#pragma once

#include "ir/type.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace roofcast {

enum class Role : uint8_t { pass, reduce, window, lookup, online, whole, ordered };
std::string_view name(Role);

struct Factor {
  Expr size;
  Role role = Role::pass;
  std::string name;  // "m"; of a list "b..": "b0", "b1", …
};

// One dim of an operand: the factors that index it, outermost first.
struct DimMap {
  enum class Kind : uint8_t { product, window } kind = Kind::product;
  std::vector<uint8_t> factors;  // window: {output position, window offset}; empty: size one (broadcast)
};

struct OperandMap {
  std::vector<DimMap> dims;
  bool outside = false;  // not indexed by the loops
};

struct Access {
  std::vector<Factor> factors;
  std::vector<OperandMap> inputs, outputs;

  bool empty() const { return inputs.empty() && outputs.empty(); }
  Expr points() const;                           // product of all factors
  std::string text() const;                      // "([b,m,k],[b,k,n])->([b,m,n]) reduce={k}"
};

// Binds a pattern to operand types: lists expand to ranks, factors take their sizes from the dims.
// Outputs may be null (not inferred yet): their dims then follow by `output_type`. A contradiction
// gives a message instead: "dim k is 768 in input 0 and 1024 in input 1".
struct AccessResult {
  Access access;
  std::string fault;       // empty: fine
  std::string_view code;   // rank-mismatch or dim-mismatch
};
AccessResult bind_access(std::string_view pattern, std::span<const Type> inputs, std::span<const Type> outputs);

// A notation that people wrote: what is wrong with it, and the names in it.
struct NotationCheck {
  std::string fault;  // empty: fine
  std::vector<std::string> names;
};
NotationCheck check_notation(std::string_view text);

// The dims that an output's map gives; unknown where a factor's size is not known.
std::vector<Expr> dims_of(const Access& access, const OperandMap& map);

// Elements of an operand that the loops reach: product of its maps' extents.
Expr extent(const Access& access, const OperandMap& map);

// For ops whose maps depend on attributes: dims are added one by one.
class AccessBuilder {
public:
  uint8_t factor(std::string name, Expr size, Role role = Role::pass);
  OperandMap& input() { return access_.inputs.emplace_back(); }
  OperandMap& output() { return access_.outputs.emplace_back(); }
  Access take() { return std::move(access_); }

private:
  Access access_;
};

}  // namespace roofcast
