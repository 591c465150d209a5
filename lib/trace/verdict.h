// Rules that make a verdict of figures; docs/diagnosis.md gives their reasons.
#pragma once

#include "roofcast/diagnose.h"

namespace roofcast::trace {

// Thresholds, as shares of the span (or of summed kernel time for the last two).
struct Thresholds {
  double exposed_comm = 0.30;   // of the step; a third of each step gone
  double host_copies = 0.30;
  double host_idle = 0.15;      // host wait and kernel wait together
  double matrix_work = 2.0 / 3; // conv, gemm, attention among compute kernels: compute-bound
  double memory_work = 0.50;    // pointwise, norm, softmax, …: memory-bound
};

// Fills shares, verdict, where, rule, evidence and advice from `ranks` and `steps`.
void judge(Diagnosis& diagnosis, const Thresholds& thresholds = {});

}  // namespace roofcast::trace
