// Kernel names → classes, by one table of patterns (docs/diagnosis.md#classes).
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

namespace roofcast::trace {

enum class KernelClass : uint8_t {
  memcpy, memset, collective, attention, norm, softmax, conv, gemm, optimizer, embedding, routing,
  reduction, copy, elementwise, graph, other
};
constexpr size_t kernel_class_count = static_cast<size_t>(KernelClass::other) + 1;

std::string_view to_string(KernelClass);

// Which roof a class of kernels leans on when nothing more is known.
enum class Leaning : uint8_t { matrix, memory, link, unknown };
Leaning leaning_of(KernelClass);

// Compares names with the table. Patterns are regular expressions of a small language: literals,
// ( | ), [ ], ?, .*, ^, $, \b and (?! ).
class KernelClassifier {
public:
  KernelClassifier();
  KernelClass classify(std::string_view name) const;

private:
  struct Alternative {
    std::string_view pattern;
    KernelClass kernel_class;
    bool exact_case;
    uint16_t bigram;  // of its first two characters, which must occur in the name
    bool has_bigram;
  };
  std::vector<Alternative> alternatives_;  // in the table's order
};

// Whether `pattern` matches somewhere in `text`; letters of both as they are.
bool pattern_matches(std::string_view pattern, std::string_view text);

}  // namespace roofcast::trace
