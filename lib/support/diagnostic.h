// Diagnostics: the one list of codes, and short ways to make one.
//
// A code's row says the exit code that it leads to. test/diagnostics checks that every code here is
// provoked by some test.
#pragma once

#include "roofcast/result.h"

#include <span>
#include <string_view>

namespace roofcast {

struct CodeInfo {
  std::string_view code;
  int exit_code;
  std::string_view summary;
};
std::span<const CodeInfo> diagnostic_codes();

// An error with this code and message. `hint` says what to do: "check --shape".
Diagnostic error(std::string_view code, std::string message, Where where = {},
                 std::string hint = {});
Diagnostic warning(std::string_view code, std::string message, Where where = {},
                   std::string hint = {});

// The names of `all` nearest to `wanted` by edit distance, at most `most`, nearest first; for "near: a, b".
std::vector<std::string> nearest_names(std::string_view wanted,
                                       const std::vector<std::string>& all, size_t most = 3);

}  // namespace roofcast
