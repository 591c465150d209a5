// Predicted times of rows about whole models: one iteration of an eager framework, kernel by kernel.
//
//   ModelTimes times;
//   times.find(row, device, TimeModel::kernel)       // seconds of the forward, or forward and backward, pass
#pragma once

#include "api/row_prediction.h"

#include <map>
#include <memory>
#include <string>

namespace roofcast {

class ModelTimes {
public:
  ModelTimes();
  ~ModelTimes();
  // Absent with the reason: a model of which no builder is known, an option that the layouts lack.
  std::optional<double> find(const MeasuredRow& row, const RowDevice& device, TimeModel model, std::string& reason);

private:
  struct Built;
  std::map<std::string, std::unique_ptr<Built>> built_;  // by model, device and form
};

}  // namespace roofcast
