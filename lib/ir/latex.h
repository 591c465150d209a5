// Symbolic amounts as LaTeX: 2\,\mathit{batch}\,\left\lfloor\frac{h}{2}\right\rfloor
#pragma once

#include "ir/expr.h"

#include <string>

namespace roofcast {

std::string latex(Expr e, const ExprPool& pool);

}  // namespace roofcast
