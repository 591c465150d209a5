// toml++ for files that people write. On some malformed ones (a header that begins with "/") it
// asserts, or lets the compiler assume, what it checks and reports a few lines later; here it only
// reports.
#pragma once

#define TOML_EXCEPTIONS 0
#define TOML_ASSERT(expr) static_cast<void>(0)
#pragma push_macro("NDEBUG")
#undef NDEBUG
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")
