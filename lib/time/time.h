// Time of a Problem on some hardware, by the roofline (ideal) or by the kernel model.
//
//   Time t = predict(problem, hardware, TimeModel::ideal);
//   t.math                 FLOPs / peak                       T_math
//   max(t.hbm, t.net)      bytes / bandwidth                  T_comms
//
// Roofline: S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model
// for multicore architectures", CACM 52(4), 2009.
#pragma once

#include "hw/hardware.h"
#include "ops/work.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace roofcast {

struct KernelDevice;

enum class TimeModel : uint8_t { ideal, kernel };
std::string_view name(TimeModel);

enum class Bound : uint8_t { none, compute, memory, communication, overhead };
std::string_view name(Bound);

// One term of how a time came about, for --explain.
struct Term {
  std::string name;    // "wave quantisation"
  double seconds = 0;  // what it adds
  std::string why;     // "132 SMs run 140 tiles in 2 waves"
};

// Times are seconds; absent where the hardware lacks the figure.
struct Time {
  std::optional<double> math, hbm, net;
  std::optional<double> ideal;      // max of those
  std::optional<double> predicted;  // by the chosen model
  Bound bound = Bound::none;
  std::string_view missing;         // "matrix peak": which figure the hardware lacks
};

using Explanation = std::vector<Term>;

// `explanation`, if given, receives the terms; the same code computes and explains.
Time predict(const Problem& problem, const Hardware& hardware, TimeModel model, Explanation* explanation = nullptr);

// The same for many problems on one device: what it takes of the hardware is looked up once.
class Predictor {
public:
  Predictor(const Hardware& hardware, TimeModel model);
  Time operator()(const Problem& problem, Explanation* explanation = nullptr) const;

  // The kernel model has no constants of this device, so that the ideal one stands in.
  bool stands_in() const;

private:
  const Hardware* hardware_;
  TimeModel model_;
  std::shared_ptr<const KernelDevice> device_;  // absent: the ideal model, or a CPU
};

// The kernel model of devices whose family begins with "cpu".
Time cpu_kernel(const Problem& problem, const Hardware& hardware, Explanation* explanation = nullptr);

// The ideal model alone.
Time roofline(const Problem& problem, const Hardware& hardware, Explanation* explanation = nullptr);

}  // namespace roofcast
