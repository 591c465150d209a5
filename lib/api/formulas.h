// Amounts of work as algebra, for one op or summed over a model.
#pragma once

#include "time/costing.h"
#include "roofcast/analyze.h"

namespace roofcast {

Formulas formulas_of(const Work& work, const ExprPool& pool, bool latex);

// Over all nodes that run, each times its region's trips.
Formulas total_formulas(Costing& costing, bool latex);

}  // namespace roofcast
