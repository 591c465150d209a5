#include "time/time.h"

#include "time/kernel/kernel.h"

#include <algorithm>

namespace roofcast {

std::string_view name(TimeModel model) { return model == TimeModel::ideal ? "ideal" : "kernel"; }

std::string_view name(Bound bound) {
  constexpr std::string_view names[] = {"none", "compute", "memory", "communication", "overhead"};
  return names[static_cast<int>(bound)];
}

Predictor::Predictor(const Hardware& hardware, TimeModel model) : hardware_(&hardware), model_(model) {
  if (model != TimeModel::kernel || hardware.family.starts_with("cpu")) return;
  KernelDevice device(hardware);
  if (device.known) device_ = std::make_shared<const KernelDevice>(std::move(device));
}

bool Predictor::stands_in() const {
  return model_ == TimeModel::kernel && !device_ && !hardware_->family.starts_with("cpu");
}

Time Predictor::operator()(const Problem& problem, Explanation* explanation) const {
  if (!device_) {
    if (model_ == TimeModel::kernel && !stands_in()) return cpu_kernel(problem, *hardware_, explanation);
    return roofline(problem, *hardware_, explanation);
  }
  Time time = roofline(problem, *hardware_);
  if (!time.ideal || !problem.has_work()) return time;
  const Kernel k = kernel_time(problem, *device_, explanation);
  time.predicted = std::max(k.seconds, 0.0);
  if (k.overhead > std::max(k.compute, k.memory)) time.bound = Bound::overhead;
  return time;
}

Time predict(const Problem& problem, const Hardware& hardware, TimeModel model, Explanation* explanation) {
  return Predictor(hardware, model)(problem, explanation);
}

}  // namespace roofcast
