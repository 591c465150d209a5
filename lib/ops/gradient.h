// What backward does for an op, from what forward did: its problems, and which operands it needs kept.
//
//   contraction   one contraction an operand, of the gradient with the other operand
//   attention     five products where forward has two (scores are computed again)
//   pointwise     one kernel over the gradient and what was kept
//   linear ops    nothing but reductions to broadcast operands
// Attention: T. Dao et al., "FlashAttention", NeurIPS 2022, appendix B. Others by the chain rule.
#pragma once

#include "ops/op_info.h"

#include <span>
#include <vector>

namespace roofcast {

// How the gradient of an op comes about; decides what is kept for it. OpInfo::gradient overrides
// what follows from the kind.
Gradient gradient_of(const OpInfo& op);

// Which operands backward reads: bit i: input i; bit 16 + j: output j. `needs`: inputs with a gradient.
uint32_t kept_operands(Gradient gradient, const Problem& forward, uint32_t needs);

// Backward's problems; each writes the gradient of one operand, or of all in one kernel.
struct BackwardProblem {
  Problem problem;
  int input = -1;   // whose gradient; −1: of all
  double repeated_flops = 0;  // matrix FLOPs that forward did already (attention's scores)
};
std::vector<BackwardProblem> backward_problems(Gradient gradient, const Problem& forward, uint32_t needs);

}  // namespace roofcast
