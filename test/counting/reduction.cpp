// Reductions over random axes, softmax over lines of every opset's rule, losses.
#include "counting/compare.h"

#include <algorithm>

namespace counting {
namespace {

using Line = std::vector<Counted>;

Counted sum(const Line& line) {
  Counted total = line[0];
  for (size_t i = 1; i < line.size(); ++i) total += line[i];
  return total;
}
Counted greatest(const Line& line) {
  Counted best = line[0];
  for (size_t i = 1; i < line.size(); ++i) best = max(best, line[i]);
  return best;
}
Line map(const Line& line, const std::function<Counted(Counted)>& f) {
  Line out;
  for (Counted v : line) out.push_back(f(v));
  return out;
}
Counted square(Counted x) { return x * x; }
Counted magnitude(Counted x) { return abs(x); }

struct Row {
  const char* name;
  Counted (*definition)(const Line&);
};
const Row reductions[] = {
    {"ReduceSum", sum},
    {"ReduceProd", sum},  // as many operations
    {"ReduceMax", greatest},
    {"ReduceMin", greatest},
    {"ReduceMean", [](const Line& l) { return sum(l) / static_cast<double>(l.size()); }},
    {"ReduceL1", [](const Line& l) { return sum(map(l, magnitude)); }},
    {"ReduceL2", [](const Line& l) { return sqrt(sum(map(l, square))); }},
    {"ReduceSumSquare", [](const Line& l) { return sum(map(l, square)); }},
    {"ReduceLogSum", [](const Line& l) { return log(sum(l)); }},
    {"ReduceLogSumExp",
     [](const Line& l) {
       const Counted top = greatest(l);
       return log(sum(map(l, [&](Counted x) { return exp(x - top); }))) + top;
     }},
};

Line softmax(const Line& line) {
  const Counted top = greatest(line);
  const Line raised = map(line, [&](Counted x) { return exp(x - top); });
  const Counted total = sum(raised);
  return map(raised, [&](Counted x) { return x / total; });
}
Line log_softmax(const Line& line) {
  const Counted top = greatest(line);
  const Line shifted = map(line, [&](Counted x) { return x - top; });
  const Counted total = log(sum(map(shifted, [](Counted x) { return exp(x); })));
  return map(shifted, [&](Counted x) { return x - total; });
}
Line hardmax(const Line& line) {
  const Counted top = greatest(line);
  return map(line, [&](Counted x) { return Counted(x == top); });
}

// Runs `f` on each line along the dims for which `in_line` holds.
template <class F> Tally on_lines(const Shape& shape, const std::vector<bool>& in_line, F&& f) {
  Shape lines, line;
  for (size_t d = 0; d < shape.size(); ++d) (in_line[d] ? line : lines).push_back(shape[d]);
  const Line content(static_cast<size_t>(elements(line)), 0.5);
  return count([&] { each(lines, [&](const Shape&) { f(content); }); });
}

Shape reduced(const Shape& shape, const std::vector<bool>& in_line, bool keep) {
  Shape out;
  for (size_t d = 0; d < shape.size(); ++d)
    if (!in_line[d]) out.push_back(shape[d]);
    else if (keep) out.push_back(1);
  return out;
}

void reduce(Compared& compared, const Row& row, int opset) {
  Random& random = compared.random;
  const Shape shape = random.shape(random(0, 4));
  const int64_t rank = static_cast<int64_t>(shape.size());
  std::vector<bool> in_line(shape.size(), false);
  std::vector<int64_t> axes;
  for (int64_t d = 0; d < rank; ++d) {
    if (random.coin()) continue;
    in_line[static_cast<size_t>(d)] = true;
    axes.push_back(random.coin() ? d : d - rank);
  }
  const bool as_input = opset >= (std::string_view(row.name) == "ReduceSum" ? 13 : 18);
  const bool keep = random.coin(), noop = as_input && random.coin();
  OneOp op(row.name, opset);
  op.input(dims(shape)).set("keepdims", keep);
  if (as_input) op.values(axes).set("noop_with_empty_axes", noop);
  else if (!axes.empty()) op.set("axes", axes);
  if (axes.empty() && !noop) in_line.assign(shape.size(), true);
  compared(op, {{}, on_lines(shape, in_line, row.definition), reduced(shape, in_line, keep)});
}

void arg(Compared& compared, const char* name) {
  Random& random = compared.random;
  const Shape shape = random.shape(random(1, 4));
  const int64_t axis = random(0, static_cast<int64_t>(shape.size()) - 1);
  const bool keep = random.coin();
  std::vector<bool> in_line(shape.size(), false);
  in_line[static_cast<size_t>(axis)] = true;
  OneOp op(name);
  op.input(dims(shape)).set("axis", axis).set("keepdims", keep);
  compared(op, {{}, on_lines(shape, in_line, greatest), reduced(shape, in_line, keep)});
}

void soft(Compared& compared, const char* name, Line (*definition)(const Line&), int opset,
          const char* domain = "") {
  Random& random = compared.random;
  const Shape shape = random.shape(random(1, 4));
  const int64_t rank = static_cast<int64_t>(shape.size()), axis = random(0, rank - 1);
  const bool one_axis = opset >= 13;
  std::vector<bool> in_line(shape.size(), false);
  for (int64_t d = axis; d < rank; ++d) in_line[static_cast<size_t>(d)] = d == axis || !one_axis;
  OneOp op(name, opset, domain);
  op.input(dims(shape)).set("axis", random.coin() ? axis : axis - rank);
  if (*domain) op.input(dims(shape));
  compared(op, {{}, on_lines(shape, in_line, definition), shape});
}

// The loss of each label, then the whole one.
Counted losses(int64_t labels, bool weighted, const std::string& reduction) {
  Line loss, weight(static_cast<size_t>(labels), 0.5);
  for (int64_t i = 0; i < labels; ++i) {
    const Counted picked = -Counted(0.5);
    loss.push_back(weighted ? picked * weight[0] : picked);
  }
  if (reduction == "none") return loss[0];
  const Counted total = sum(loss);
  if (reduction == "sum") return total;
  return total / (weighted ? sum(weight) : Counted(static_cast<double>(labels)));
}

void loss(Compared& compared, bool logits, const char* reduction) {
  Random& random = compared.random;
  Shape scores = random.shape(random(2, 4)), labels = scores;
  labels.erase(labels.begin() + 1);
  const bool weighted = random.coin();
  OneOp op(logits ? "SoftmaxCrossEntropyLoss" : "NegativeLogLikelihoodLoss");
  op.input(dims(scores)).input(dims(labels), roofcast::DType::int64).set("reduction", reduction);
  if (weighted) op.input({scores[1]});
  std::vector<bool> in_line(scores.size(), false);
  in_line[1] = true;
  const Tally soft = logits ? on_lines(scores, in_line, log_softmax) : Tally();
  Tally all = count([&] { losses(elements(labels), weighted, reduction); });
  all.sums += soft.total();
  compared(op, {{}, all, std::string_view(reduction) == "none" ? labels : Shape{}});
}

}  // namespace

void compare_reductions(Compared& compared) {
  for (int round = 0; round < 8; ++round)
    for (int opset : {1, 11, 13, 18, 28})
      for (const Row& row : reductions) reduce(compared, row, opset);
  for (int round = 0; round < 5; ++round) {
    arg(compared, "ArgMax");
    arg(compared, "ArgMin");
  }
  OneOp integers("ReduceSumInteger", 1, "com.microsoft");
  integers.input({2, 3, 4}, roofcast::DType::int8).set("axes", std::vector<int64_t>{1});
  integers.set("keepdims", 0);
  compared(integers, {{}, on_lines({2, 3, 4}, {false, true, false}, sum), {2, 4}});
}

void compare_softmax(Compared& compared) {
  for (int round = 0; round < 5; ++round)
    for (int opset : {1, 11, 13, 28}) {
      soft(compared, "Softmax", softmax, opset);
      soft(compared, "LogSoftmax", log_softmax, opset);
      soft(compared, "Hardmax", hardmax, opset);
    }
  soft(compared, "BiasSoftmax", [](const Line& line) {
    return softmax(map(line, [](Counted x) { return x + 1.0; }));
  }, 1, "com.microsoft");
  for (int round = 0; round < 4; ++round)
    for (const char* reduction : {"none", "sum", "mean"}) {
      loss(compared, true, reduction);
      loss(compared, false, reduction);
    }
}

}  // namespace counting
