#include "ops/formula.h"

#include <algorithm>

namespace roofcast {
namespace {

// Names of all loops of a pattern, those of the outputs first: "b", "m", "n", "k" of a MatMul.
std::vector<std::string> loops_of(std::string_view pattern) {
  const size_t arrow = std::min(pattern.find("->"), pattern.size());
  std::vector<std::string> names;
  auto collect = [&](std::string_view side) {
    std::string name;
    bool lookup = false;
    for (const char c : std::string(side) + " ") {
      const bool letter = std::isalpha(static_cast<unsigned char>(c));
      if (letter) name += c;
      if (letter || name.empty()) {
        lookup = letter ? lookup : c == '@';
        continue;
      }
      if (!lookup && std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
      name.clear(), lookup = false;
    }
  };
  if (arrow < pattern.size()) collect(pattern.substr(arrow + 2));
  collect(pattern.substr(0, arrow));
  return names;
}

// Appends "k*what" with its sign, nothing for 0.
void add_term(std::string& sum, int times, std::string_view what) {
  if (times == 0) return;
  const int size = times < 0 ? -times : times;
  if (!sum.empty()) sum += times < 0 ? " - " : " + ";
  else if (times < 0) sum += "-";
  if (size != 1) sum += std::to_string(size) + "*";
  sum += what;
}

bool contracts(Kind kind) {
  return kind == Kind::contraction || kind == Kind::convolution || kind == Kind::attention ||
         kind == Kind::recurrent || kind == Kind::moe;
}

}  // namespace

FormulaText formula_of(const OpInfo& op) {
  FormulaText out;
  if (op.cost.matrix_per_point) {
    std::string points;
    for (const std::string& loop : loops_of(op.access)) points += "*" + loop;
    out.matrix_flops = std::to_string(op.cost.matrix_per_point) + points;
  }
  add_term(out.vector_flops, op.cost.vector_per_point, "n");
  add_term(out.vector_flops, op.cost.vector_per_line, "lines");
  add_term(out.vector_flops, op.cost.vector_per_output, "outputs");
  out.bytes = op.kind == Kind::view      ? "0"
              : op.kind == Kind::control ? "those of its bodies"
                                         : "inputs + outputs";

  // The row's own text goes before what its cost says. A clause that names a part begins it; those
  // before the first such belong to matrix FLOPs, of kinds that have them, else to vector FLOPs.
  std::string own[3];
  size_t part = contracts(op.kind) ? 0 : 1;
  for (std::string_view rest = op.formula; !rest.empty();) {
    const size_t end = std::min(rest.find("; "), rest.size());
    std::string_view clause = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 2, rest.size()));
    static constexpr std::string_view names[] = {"matrix ", "vector ", "bytes "};
    for (size_t i = 0; i < std::size(names); ++i)
      if (clause.starts_with(names[i])) part = i, clause.remove_prefix(names[i].size());
    own[part] += (own[part].empty() ? "" : "; ") + std::string(clause);
  }
  std::string* parts[] = {&out.matrix_flops, &out.vector_flops, &out.bytes};
  for (size_t i = 0; i < std::size(parts); ++i) {
    if (!own[i].empty()) *parts[i] = own[i];
    if (parts[i]->empty()) *parts[i] = "0";
  }
  return out;
}

}  // namespace roofcast
