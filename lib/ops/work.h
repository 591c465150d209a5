// Work: what an op must do, symbolically. Problem: the same in numbers, which is what is timed.
//
// Work hangs on an Instance; `bind` is where symbols end. Time, measurements and rows of measured
// tables all are answers about a Problem, which has no op name in it.
#pragma once

#include "ir/graph.h"
#include "ops/access.h"

#include <string_view>
#include <vector>

namespace roofcast {

// What sort of kernel runs an op. Time, layouts, fusion and views switch on it.
enum class Kind : uint8_t {
  view,           // no work: a new name for the same bytes, or known at compile time
  pointwise,
  reduction,
  softmax,
  normalization,
  contraction,
  convolution,
  attention,
  recurrent,
  pooling,
  movement,       // moves bytes: Transpose, Concat, Pad, …
  lookup,         // rows addressed by data: Gather, Scatter
  sort,
  random,
  signal,
  image,
  moe,
  classic_ml,
  sequence,
  control,        // If, Loop, Scan: the work is in their bodies
  collective,
  optimizer,
  opaque,         // not known
};
std::string_view name(Kind);
inline constexpr int kind_count = static_cast<int>(Kind::opaque) + 1;

enum class CollectiveKind : uint8_t { none, all_reduce, all_gather, reduce_scatter, all_to_all, send_recv, broadcast };
std::string_view name(CollectiveKind);

// What a collective moves; `bytes` by the contract: the all-reduced buffer, the gathered output, the
// full input of a reduce-scatter, the full send buffer of an all-to-all, the message.
struct Transfer {
  CollectiveKind kind = CollectiveKind::none;
  Expr bytes = 0;
  int axis = -1;  // mesh axis
};

struct Work {
  Kind kind = Kind::opaque;
  MathType math = MathType::none;
  Access access;
  Expr matrix_flops = 0, vector_flops = 0;
  std::vector<Expr> reads, writes;   // bytes from and to memory by operand
  Transfer transfer;
  // Mixture of experts: bytes of the tokens as they go to their experts, each as often as it is routed.
  Expr routed_bytes = 0;
  // Attention: the same amounts if only the pairs under a causal mask count (--causal).
  Expr causal_matrix_flops, causal_vector_flops;
  bool causal = false;               // those are the amounts above
  bool windowed = false;             // attention: a query sees so many keys at most
  std::string_view uncounted;        // non-empty: the reason why the cost is not known
};

// A factor with its size bound, and the operands that it indexes.
struct FactorSize {
  int64_t size = 1;
  Role role = Role::pass;
  uint32_t operands = 0;  // bit i: input i; bit 16 + j: output j
};

struct OperandSize {
  DType dtype = DType::undefined;
  double bytes = 0;       // read or written
  bool is_output = false;
};

struct Problem {
  Kind kind = Kind::opaque;
  MathType math = MathType::none;
  std::vector<FactorSize> factors;
  std::vector<OperandSize> operands;
  double matrix_flops = 0, vector_flops = 0;
  double bytes_read = 0, bytes_written = 0;
  CollectiveKind collective = CollectiveKind::none;
  double transfer_bytes = 0;
  int axis = -1;
  int64_t ranks = 1;
  bool causal = false;               // attention: half of the square is masked
  bool windowed = false;             // attention: a query sees so many keys at most, be there as many or not
  int32_t cycle = 0;                 // of repeated runs: copies of the weights that they cycle through; 0: not repeated
  double cached_bytes = 0;           // of those read and written: how many lie in the nearest cache that holds them

  bool has_work() const { return matrix_flops > 0 || vector_flops > 0 || bytes_read > 0 || bytes_written > 0 || transfer_bytes > 0; }
  // A window larger than its data at the symbols' values, say.
  bool has_negative_size() const;
  bool operator==(const Problem&) const;
};
size_t hash_value(const Problem&);

}  // namespace roofcast
