// A module of one node, for tests that look at a single op.
//
//   OneOp conv("Conv");
//   conv.input({1, 4, 9, 9}).input({8, 2, 3, 3}).set("group", 2);
//   const OneOp::Result r = conv.run();    r.dims(0), r.work.matrix_flops, r.fault
#pragma once

#include "ops/count.h"
#include "ops/infer.h"
#include "ops/op_table.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace roofcast {

class OneOp {
public:
  using Dims = std::vector<Expr>;

  explicit OneOp(std::string_view name, int opset = 28, std::string_view domain = "");

  // Inputs in order; `absent` leaves an optional one out.
  OneOp& input(Dims dims, DType dtype = DType::float32);
  OneOp& unranked(DType dtype = DType::float32);
  OneOp& values(const std::vector<int64_t>& items);  // int64[n] with known elements
  OneOp& reals(const std::vector<double>& items);    // float32[n] likewise
  OneOp& absent();
  OneOp& repeat(size_t input);                       // the same value as an input before

  OneOp& set(std::string_view name, int64_t value);
  OneOp& set(std::string_view name, int value) { return set(name, int64_t{value}); }
  OneOp& set(std::string_view name, double value);
  OneOp& set(std::string_view name, const char* value);
  OneOp& set(std::string_view name, std::vector<int64_t> values);
  OneOp& outputs(size_t count);                      // one, unless said otherwise

  Expr symbol(std::string_view name) { return module.exprs.symbol(name); }
  // Turns each constant dim of the inputs but 1 into a symbol, one a value, and says what they are.
  Bindings make_symbolic();

  struct Result {
    std::vector<Type> outputs;
    std::vector<Elements> elements;
    Work work;
    std::optional<Diagnostic> fault;

    const Dims& dims(size_t output) const { return outputs.at(output)->dims; }
    // Of a Work without symbols; −1 if it is not known.
    double matrix() const;
    double vector() const;
    double read() const;     // bytes of all inputs
    double written() const;
  };
  Result run();

  Module module;

private:
  OneOp& add(Type type, Elements elements);
  Attribute& attribute(std::string_view name);

  Instance instance_;
  std::vector<Attribute> attributes_;
};

}  // namespace roofcast
