// Symbolic integers: sizes of dims, and what follows from them.
//
//   Expr batch = pool.symbol("batch"), seq = pool.symbol("seq");
//   (batch * seq * 12).text()                 "12*batch*seq"
//   floor_div(64 * seq + 64, 64)              seq + 1
//
// Values are canonical and hash-consed within a pool, so equality is identity. A constant is inline
// and needs no pool. Canonical form: a sum of integer multiples of monomials, a monomial being a
// sorted product of atoms; atoms are symbols, floor divisions, minima and maxima. Modulo and ceiling
// division are written with floor division. Arithmetic that leaves [-2^62, 2^62], divides by zero or
// nests beyond limits::expr_depth gives `Expr::overflow()`, which any further arithmetic keeps.
#pragma once

#include "support/limits.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace roofcast {

class ExprPool;
struct ExprNode;
using SymbolId = uint32_t;

class Expr {
public:
  constexpr Expr() = default;  // unknown
  constexpr Expr(int64_t value)
      : bits_(value >= -limits::dim && value <= limits::dim ? (static_cast<uint64_t>(value) << 1) | 1 : overflow_bits) {}
  constexpr Expr(int value) : Expr(static_cast<int64_t>(value)) {}
  static constexpr Expr overflow() {
    Expr e;
    e.bits_ = overflow_bits;
    return e;
  }

  constexpr bool is_known() const { return bits_ != 0; }
  constexpr bool is_overflow() const { return bits_ == overflow_bits; }
  constexpr bool is_constant() const { return bits_ & 1; }
  constexpr int64_t constant() const { return static_cast<int64_t>(bits_) >> 1; }
  std::optional<int64_t> as_constant() const { return is_constant() ? std::optional(constant()) : std::nullopt; }
  const ExprNode* node() const { return is_constant() || bits_ <= overflow_bits ? nullptr : reinterpret_cast<const ExprNode*>(bits_); }
  std::optional<SymbolId> as_symbol() const;

  constexpr bool operator==(const Expr&) const = default;
  uint64_t bits() const { return bits_; }
  std::string text() const;  // "batch*(seq + 1)" style algebra; "?" if unknown

private:
  friend class ExprPool;
  friend struct Algebra;
  explicit Expr(const ExprNode* node) : bits_(reinterpret_cast<uint64_t>(node)) {}
  static constexpr uint64_t overflow_bits = 2;
  uint64_t bits_ = 0;
};

Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator-(Expr a);
Expr floor_div(Expr a, Expr b);
Expr ceil_div(Expr a, Expr b);
Expr mod(Expr a, Expr b);
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);
inline Expr& operator+=(Expr& a, Expr b) { return a = a + b; }
inline Expr& operator*=(Expr& a, Expr b) { return a = a * b; }
Expr product(std::span<const Expr> factors);

// a / b where b divides a as a polynomial; absent otherwise.
std::optional<Expr> exact_div(Expr a, Expr b);

// Bounds by interval arithmetic from the symbols' own; ±2^62 where open.
int64_t lower_bound(Expr e);
int64_t upper_bound(Expr e);
inline bool known_le(Expr a, Expr b) { return upper_bound(a - b) <= 0; }
inline bool known_lt(Expr a, Expr b) { return upper_bound(a - b) < 0; }

// Where a symbol's value comes from when nobody sets it.
enum class SymbolOrigin : uint8_t {
  input_dim,       // a dim of a graph input: 1 unless set
  data_dependent,  // decided by data (NonZero, …): its bound unless set
  trip_count,      // a Loop's trips: its bound, else 1
  branch,          // an If: 1 for then, 0 for else
  unbound,         // named in the file but tied to no input: 1 unless the graph's shapes determine it
};

struct Symbol {
  std::string name;
  SymbolOrigin origin = SymbolOrigin::input_dim;
  int64_t lower = 1;
  Expr bound;        // upper bound, if any
  Expr expected;     // used when unset, if other than the bound (routing masks, branches)
  std::string node;  // of data-dependent symbols: the node that makes it
  std::string why;   // one phrase for coverage.assumed
  std::vector<std::string> aliases;  // what the file calls it
};

// Values of all symbols of a pool, by id.
class Bindings {
public:
  void set(SymbolId id, int64_t value);
  std::optional<int64_t> get(SymbolId id) const {
    return id < values_.size() ? values_[id] : std::nullopt;
  }

private:
  std::vector<std::optional<int64_t>> values_;
};

// Owns the nodes and symbols. Not thread-safe; one per module.
class ExprPool {
public:
  ExprPool();
  ~ExprPool();
  ExprPool(const ExprPool&) = delete;

  // The symbol of this name, made if new.
  Expr symbol(std::string_view name, SymbolOrigin origin = SymbolOrigin::input_dim, int64_t lower = 1);
  // A symbol whose name is `name`, or `name` with a suffix if that is taken.
  Expr fresh_symbol(std::string_view name, SymbolOrigin origin, int64_t lower);
  std::optional<SymbolId> find_symbol(std::string_view name) const;
  Symbol& info(SymbolId id);
  const Symbol& info(SymbolId id) const;
  size_t symbol_count() const;
  Expr symbol_expr(SymbolId id) const;

private:
  friend class Expr;
  friend struct ExprNode;
  friend struct Algebra;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Every symbol's value: `set` where it has one, else 1, the bound or the expected value by the
// symbol's origin (a default may depend on symbols made earlier). Defaults used are listed.
struct Resolution {
  Bindings values;
  std::vector<SymbolId> defaulted;
};
Resolution resolve_symbols(const ExprPool& pool, const Bindings& set);

// The value with all symbols bound; absent on overflow, or if a symbol is unbound.
std::optional<int64_t> evaluate(Expr e, const Bindings& values);
// The same in floating point, for amounts that may pass 2^63.
std::optional<double> evaluate_real(Expr e, const Bindings& values);
// Symbols replaced by constants where bound.
Expr substitute(Expr e, const Bindings& values);

// The symbol's value that makes `e` equal to `value`, if `e` is linear in just one unbound symbol.
std::optional<std::pair<SymbolId, int64_t>> solve_linear(Expr e, int64_t value, const Bindings& known);

// All symbols in `e`, each once, appended to `out`.
void collect_symbols(Expr e, std::vector<SymbolId>& out);

// A dim as exporters print it: "past_len + 1", "8*h8", "((samples//5)) - 1", "64*s69*s81",
// "Max(1, u0)", "floor(h/2)". Symbols are made with `origin` if new. Absent if it does not parse as an
// expression (then the whole text should be one symbol's name).
std::optional<Expr> parse_expr(std::string_view text, ExprPool& pool, SymbolOrigin origin);
// The same over names that mean what `resolve` says; a name may stand for an unknown value.
using NameResolver = std::function<Expr(std::string_view name)>;
std::optional<Expr> parse_expr(std::string_view text, const NameResolver& resolve);

// How nodes lie in memory; for algorithms that walk expressions.
enum class ExprKind : uint8_t { symbol, sum, product, floor_div, min, max };
struct ExprTerm {
  int64_t coefficient;
  Expr monomial;
};
struct ExprNode {
  ExprPool* pool;
  uint32_t id;
  ExprKind kind;
  uint8_t depth;
  SymbolId symbol;
  int64_t constant;              // sum: the constant term
  std::vector<ExprTerm> terms;   // sum
  std::vector<Expr> args;        // product: sorted atoms with repetition; floor_div: 2; min, max: ≥ 2
  int64_t lower, upper;
};

}  // namespace roofcast

template <> struct std::hash<roofcast::Expr> {
  size_t operator()(roofcast::Expr e) const noexcept { return e.bits() * 0x9E3779B97F4A7C15ull >> 7; }
};
