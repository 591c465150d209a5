#include "support/one_op.h"

namespace roofcast {

OneOp::OneOp(std::string_view name, int opset, std::string_view domain) {
  instance_.op_type = module.names.own(name);
  instance_.domain = module.names.own(domain);
  instance_.opset = opset;
  instance_.op = find_op(domain, name, opset);
  instance_.wanted = {true};
  module.opsets[std::string(domain)] = opset;
}

OneOp& OneOp::add(Type type, Elements elements) {
  instance_.alias.push_back(static_cast<uint8_t>(instance_.inputs.size()));
  instance_.inputs.push_back(type);
  instance_.present.push_back(type != nullptr);
  instance_.elements.push_back(elements);
  instance_.stored.push_back(DType::undefined);
  return *this;
}

OneOp& OneOp::input(Dims dims, DType dtype) {
  return add(module.tensor(dtype, std::move(dims)), nullptr);
}
OneOp& OneOp::unranked(DType dtype) { return add(module.unranked(dtype), nullptr); }
OneOp& OneOp::absent() { return add(nullptr, nullptr); }

OneOp& OneOp::values(const std::vector<int64_t>& items) {
  std::vector<Scalar> scalars;
  for (int64_t v : items) scalars.push_back(Scalar::integer(v));
  const Expr size = static_cast<int64_t>(items.size());
  return add(module.tensor(DType::int64, {size}), module.elements(std::move(scalars)));
}

OneOp& OneOp::reals(const std::vector<double>& items) {
  std::vector<Scalar> scalars;
  for (double v : items) scalars.push_back(Scalar::from_double(v));
  const Expr size = static_cast<int64_t>(items.size());
  return add(module.tensor(DType::float32, {size}), module.elements(std::move(scalars)));
}

OneOp& OneOp::repeat(size_t input) {
  add(instance_.inputs[input], instance_.elements[input]);
  instance_.alias.back() = static_cast<uint8_t>(input);
  return *this;
}

Attribute& OneOp::attribute(std::string_view name) {
  attributes_.push_back({.name = module.names.own(name)});
  return attributes_.back();
}

OneOp& OneOp::set(std::string_view name, int64_t value) {
  Attribute& a = attribute(name);
  a.kind = Attribute::Kind::integer, a.i = value;
  return *this;
}
OneOp& OneOp::set(std::string_view name, double value) {
  Attribute& a = attribute(name);
  a.kind = Attribute::Kind::real, a.f = value;
  return *this;
}
OneOp& OneOp::set(std::string_view name, const char* value) {
  Attribute& a = attribute(name);
  a.kind = Attribute::Kind::string, a.s = module.names[module.names.own(value)];
  return *this;
}
OneOp& OneOp::set(std::string_view name, std::vector<int64_t> values) {
  Attribute& a = attribute(name);
  a.kind = Attribute::Kind::integers, a.ints = std::move(values);
  return *this;
}

OneOp& OneOp::outputs(size_t count) {
  instance_.wanted.assign(count, true);
  return *this;
}

Bindings OneOp::make_symbolic() {
  Bindings bindings;
  for (size_t i = 0; i < instance_.inputs.size(); ++i) {
    const Type type = instance_.inputs[i];
    if (!type || !type->ranked || instance_.elements[i]) continue;
    Dims dims = type->dims;
    for (Expr& d : dims) {
      const auto size = d.as_constant();
      if (!size || *size == 1) continue;
      d = symbol("s" + std::to_string(*size));
      bindings.set(*d.as_symbol(), *size);
    }
    instance_.inputs[i] = module.tensor(type->dtype, std::move(dims));
  }
  return bindings;
}

OneOp::Result OneOp::run() {
  instance_.attributes = module.attribute_list(attributes_);
  Node node;
  node.op_type = instance_.op_type, node.domain = instance_.domain;
  const NodeId node_id = module.add_node(node, instance_.attributes, {}, {});
  const InstanceId id = module.instance(instance_).first;
  Result result;
  result.fault = infer_instance(module, id, node_id);
  if (result.fault) return result;
  const Instance& done = module.instances[id.index];
  result.outputs = done.outputs;
  result.elements = done.output_elements;
  result.work = count_work(module, done);
  return result;
}

namespace {

double number(const Work& work, Expr e) {
  const auto value = work.uncounted.empty() ? e.as_constant() : std::nullopt;
  return value ? static_cast<double>(*value) : -1;
}
Expr sum(const std::vector<Expr>& terms) {
  Expr total = 0;
  for (Expr e : terms) total += e;
  return total;
}

}  // namespace

double OneOp::Result::matrix() const { return number(work, work.matrix_flops); }
double OneOp::Result::vector() const { return number(work, work.vector_flops); }
double OneOp::Result::read() const { return number(work, sum(work.reads)); }
double OneOp::Result::written() const { return number(work, sum(work.writes)); }

}  // namespace roofcast
