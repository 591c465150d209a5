#include "report/views.h"

#include <fmt/format.h>
#include <map>

namespace roofcast {
namespace {

constexpr size_t formula_width = 52;

// Lines of at most `width` columns, broken at spaces.
std::vector<std::string> wrap(std::string_view text, size_t width) {
  std::vector<std::string> lines{""};
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (!lines.back().empty() && display_width(lines.back()) + 1 + display_width(word) > width)
      lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + std::string(word);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// "matrix 2*b*m*n*k; vector m*n; bytes …": what is not 0 and not the default.
std::string summary(const OpFormula& o) {
  if (o.uncounted) return "not counted: " + *o.uncounted;
  std::string text;
  auto add = [&](std::string_view part, const std::optional<std::string>& formula) {
    if (!formula || *formula == "0" || *formula == "inputs + outputs") return;
    text += (text.empty() ? "" : "; ") + std::string(part) + " " + *formula;
  };
  add("matrix", o.matrix_flops), add("vector", o.vector_flops), add("bytes", o.bytes);
  return text.empty() ? "0" : text;
}

// A cell of a markdown table.
std::string cell(const std::optional<std::string>& text) {
  return !text || *text == "0" ? text.value_or("") : "`" + *text + "`";
}

std::map<std::string, std::vector<const OpFormula*>> by_domain(const OpListing& listing) {
  std::map<std::string, std::vector<const OpFormula*>> domains;
  for (const OpFormula& o : listing.ops) domains[o.domain].push_back(&o);
  return domains;
}

constexpr std::string_view conventions =
    "A multiply-add is 2 FLOPs. Matrix FLOPs are those of contractions, biases not included; "
    "vector\n"
    "FLOPs are all others: each addition, subtraction, product, division, comparison, selection,\n"
    "minimum, maximum, negation, absolute value and rounding counts 1, and so does each evaluation "
    "of\n"
    "a special function. Conversions of type, copies and address arithmetic count 0.\n";
constexpr std::string_view names =
    "In formulas, `n` is the number of points of the op's loops (for pointwise ops: elements of "
    "the\n"
    "output), `lines` that of lines along the normalized or reduced dims, `inputs` and `outputs`\n"
    "elements of operand 0; other names are dims of the access. Bytes are `inputs + outputs`, "
    "each\n"
    "distinct operand once, where nothing else is said. Terms after a semicolon come on top.\n";

}  // namespace

std::string ops_text(const OpListing& listing, bool color) {
  std::string out;
  for (const auto& [domain, ops] : by_domain(listing)) {
    if (!out.empty()) out += "\n";
    out += styled(domain, Style::bold, color) + "\n";
    Table table(color);
    table.column("op"), table.column("since", Align::right), table.column("kind");
    table.column("FLOPs and bytes");
    for (const OpFormula* o : ops) {
      bool first = true;
      for (const std::string& line : wrap(summary(*o), formula_width)) {
        if (first) table.row({o->name, std::to_string(o->since), o->kind, line});
        else table.row({"", "", "", line});
        first = false;
      }
    }
    out += table.text();
  }
  std::string legend{names};
  std::erase(legend, '`');
  return out + "\n" + legend;
}

std::string ops_markdown(const OpListing& listing) {
  std::string out =
      "# Operators\n\nThe output of `roofcast ops --format md`.\n\n## Conventions\n\n";
  out +=
      std::string(conventions) + "\n" + std::string(names) +
      "\nThe access says how operands meet the loops: `m` is a loop of inputs and outputs, `k` of "
      "inputs only\n(summed), `y+r` a window, `@v` rows picked by data, `s~` a line with a carried "
      "state, `s!` a whole line,\n`t>` step after step, `(g m)` two loops in one dim, `b..` any "
      "dims, broadcast, `n?` a dim that may be\n1, `.` an operand outside the loops.\n\n";
  Table scalars;
  scalars.column("scalar function"), scalars.column("FLOPs", Align::right);
  scalars.column("definition");
  for (const ScalarCost& s : listing.scalars)
    scalars.row({s.name, std::to_string(s.flops), s.definition});
  out += scalars.markdown();
  for (const auto& [domain, ops] : by_domain(listing)) {
    out += "\n## " + domain + "\n\n";
    Table table;
    for (const char* header :
         {"op", "since", "kind", "access", "matrix FLOPs", "vector FLOPs", "bytes"})
      table.column(header);
    for (const OpFormula* o : ops) {
      if (o->uncounted)
        table.row({o->name, std::to_string(o->since), o->kind, cell(o->access), "",
                   "not counted: " + *o->uncounted, ""});
      else
        table.row({o->name, std::to_string(o->since), o->kind, cell(o->access),
                   cell(o->matrix_flops), cell(o->vector_flops), cell(o->bytes)});
    }
    out += table.markdown() + "\nSource: " + ops.front()->source + ".\n";
  }
  return out;
}

std::string ops_csv(const OpListing& listing) {
  Table table;
  for (const char* header : {"domain", "name", "since", "kind", "access", "matrix_flops",
                             "vector_flops", "bytes", "uncounted", "source"})
    table.column(header);
  for (const OpFormula& o : listing.ops)
    table.row({o.domain, o.name, std::to_string(o.since), o.kind, o.access.value_or(""),
               o.matrix_flops.value_or(""), o.vector_flops.value_or(""), o.bytes.value_or(""),
               o.uncounted.value_or(""), o.source});
  return table.csv();
}

}  // namespace roofcast
