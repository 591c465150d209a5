// Fits on tables that are read already.
#pragma once

#include "api/row_prediction.h"
#include "roofcast/fit.h"

namespace roofcast {

Result<FittedConstants> fit_tables(const MeasuredTables& tables, const FitOptions& options);

}  // namespace roofcast
