// Work of an Instance by its row in the op table, and its Problem once symbols are bound.
#pragma once

#include "ops/work.h"

#include <optional>

namespace roofcast {

// Default: points × cost, each distinct operand across memory once; the op's own rule adjusts it.
// An amount that is not known gives a Work with `uncounted` set.
Work count_work(Module& module, const Instance& instance);

// Absent if an amount cannot be evaluated (a symbol is unbound, or past 2^62).
std::optional<Problem> bind(const Work& work, const Instance& instance, const Bindings& values);

}  // namespace roofcast
