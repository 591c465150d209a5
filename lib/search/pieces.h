// A sharded model as runs of nodes that stay together on a pipeline stage: what each costs one rank for
// one microbatch. Everything that a layout's step time and memory are made of.
#pragma once

#include "roofcast/layout.h"
#include "search/sharding.h"

namespace roofcast {

struct Piece {
  uint32_t begin = 0, end = 0;                  // positions of the first of its kind
  int64_t times = 1;                            // such pieces one after another
  bool block = false;                           // of those that repeat; only they are recomputed
  double forward = 0, backward = 0;             // seconds of compute
  double core = 0;                              // of that forward: attention's, which selective recomputation repeats
  double wire_forward = 0, wire_backward = 0;   // seconds that compute waits for collectives
  double matrix_forward = 0, matrix_backward = 0, matrix_core = 0;  // FLOPs of the model
  double matrix_repeated = 0;                   // FLOPs that backward's kernels do again, whatever is kept
  double t_math = 0, t_hbm = 0, t_net = 0;      // forward and backward
  double parameters = 0, expert_parameters = 0; // elements on a rank; those of experts apart
  double weight_bytes = 0, expert_weight_bytes = 0;
  double kept = 0, kept_core = 0;               // bytes that backward needs; of those, attention's scores
  double boundary = 0;                          // bytes that the next piece needs
  double largest = 0;                           // bytes of its largest value
};

struct Pieces {
  std::vector<Piece> all;
  std::vector<Communication> communications;    // with those of experts
  double inputs = 0;                            // bytes on a rank
  double cache = 0;                             // of those: keys and values
  double partial_gradients = 0;                 // elements of replicated weights whose gradients are summed on the tensor axis
  double matrix_peak = 0;                       // FLOP/s of the type that most matrix FLOPs are in
};

struct PieceOptions {
  int64_t ep = 1, ep_stride = 1;
  int64_t dispatch_bits = 0;                    // of an element sent to an expert; 0: as it is computed
};

Pieces pieces_of(Costing& costing, Sharding& sharding, bool training, const PieceOptions& options);

}  // namespace roofcast
