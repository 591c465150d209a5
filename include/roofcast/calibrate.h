// This machine as a hardware spec: what it reaches, measured op by op.
//
//   Result<Calibration> c = calibrate({.on = "cpu", .threads = 1});
//   c->toml                                     text of a hardware file, each figure with how it was measured
#pragma once

#include "roofcast/fields.h"
#include "roofcast/hardware.h"
#include "roofcast/model.h"
#include "roofcast/result.h"

#include <atomic>
#include <string>
#include <vector>

namespace roofcast {

// A model and a profile of it: the kernel constants of the runtime that recorded it are fitted on them.
struct ProfiledModel {
  Model model;
  std::string profile;
};

struct CalibrateOptions {
  std::string on = "cpu";                   // cpu | cuda
  std::string base;                         // spec that the new one extends; needed for cuda and profiles
  std::vector<ProfiledModel> profiles;      // instead of running ops; peaks and memory come from the base
  int threads = 1;                          // of the CPU; 0: all
  int runs = 15;
  const std::atomic<bool>* stop = nullptr;
};

struct CalibrationSample {
  std::string op, size;
  double measured = 0;
  std::optional<double> predicted;
};

struct Calibration {
  std::string device;
  Hardware hardware;
  std::string toml;
  double median_abs_error = 0;              // of the kernel model on the ops that it was fitted on
  std::vector<CalibrationSample> samples;   // ops that the constants were fitted on
  std::vector<Diagnostic> warnings;
};

// Codes: device-missing, hw-unknown, interrupted.
Result<Calibration> calibrate(const CalibrateOptions& options);

template <class F> void fields(F&& field, const CalibrationSample& s) {
  field("op", s.op, Unit::none, "operator");
  field("size", s.size, Unit::none, "of all operands");
  field("measured", s.measured, Unit::second, "median of one run");
  field("predicted", s.predicted, Unit::second, "by the kernel model, with the fitted constants");
}
template <class F> void fields(F&& field, const Calibration& c) {
  fields([&](std::string_view name, const auto& item, Unit unit = Unit::none, std::string_view meaning = {}) {
    if (name != "warnings") field(name, item, unit, meaning);
  }, c.hardware);
  field("device", c.device, Unit::none, "what was measured");
  field("median_abs_error", c.median_abs_error, Unit::share, "of the kernel model on the ops that it was fitted on");
  field("samples", c.samples, Unit::none, "ops that the constants were fitted on");
  field("warnings", c.warnings, Unit::none, "faults that do not end the command");
}

}  // namespace roofcast
