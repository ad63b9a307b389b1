// Ops of single layers on rows of numbers: layer norm, softmax, the GELUs.
#include <fmt/format.h>

#include <cmath>
#include <regex>

#include "prenorm/kernels/activation.h"
#include "prenorm/kernels/cross_entropy.h"
#include "prenorm/kernels/layer_norm.h"
#include "prenorm/reference/activation.h"
#include "prenorm/reference/layer_norm.h"
#include "tests/cases/registry.h"
#include "tests/tolerances.h"

namespace prenorm::cases {
namespace {

// --- Layer norm
// -----------------------------------------------------------------------------------

struct Norm {
  Index width = 0;
  Floats weight, bias;  // empty: absent
  double eps = 1e-5;
};

struct NormGradients {
  Floats dx, dweight, dbias;
};

// x as rows of the normalised width, which may be several of its last axes.
ConstMatrix rows_of(const Floats& x, Index width) {
  const Index size = static_cast<Index>(x.values.size());
  return {x.values.data(), {width == 0 ? 0 : size / width, width}};
}
Matrix rows_of(Floats& x, Index width) {
  const Index size = static_cast<Index>(x.values.size());
  return {x.values.data(), {width == 0 ? 0 : size / width, width}};
}

// The input's parameters, which must fit its normalised axes.
Norm read_norm(Case& c, const Shape& x) {
  Norm norm;
  const Json* given = c.input.find("normalized_shape");
  const Shape axes = given == nullptr ? Shape{x.back()} : shape_from(*given);
  if (axes.empty() || axes.size() > x.size() ||
      !std::equal(axes.rbegin(), axes.rend(), x.rbegin())) {
    throw BadCase("input.normalized_shape: expected the last axes of x " + shape_name(x) +
                  ", found " + shape_name(axes));
  }
  norm.width = product(axes);
  norm.eps = c.input.number("eps", 1e-5);
  const std::string dtype = c.input.text("dtype", "float32");
  if (auto weight = c.input.array("weight")) norm.weight = floats_from(rounded_to(*weight, dtype));
  if (auto bias = c.input.array("bias")) norm.bias = floats_from(rounded_to(*bias, dtype));
  for (const Floats* parameter : {&norm.weight, &norm.bias}) {
    const auto size = static_cast<Index>(parameter->values.size());
    if (size != 0 && size != norm.width)
      throw BadCase("input: weight or bias: not the norm's width");
  }
  return norm;
}

Floats normalise(const Runtime& run, const Floats& x, const Norm& norm) {
  Floats y(x.shape);
  kernels::layer_norm_forward(run, rows_of(x, norm.width), norm.weight.vector(), norm.bias.vector(),
                              norm.eps, rows_of(y, norm.width), {}, {});
  return y;
}

NormGradients normalise_backward(const Runtime& run, const Floats& x, const Floats& dy,
                                 const Norm& norm) {
  NormGradients d{Floats(x.shape), Floats({norm.width}), Floats({norm.width})};
  const ConstMatrix rows = rows_of(x, norm.width);
  Floats y(x.shape);
  std::vector<double> mean(static_cast<std::size_t>(rows.dim(0))), rstd(mean.size());
  const DoubleVector means(mean.data(), {rows.dim(0)}), rstds(rstd.data(), {rows.dim(0)});
  kernels::layer_norm_forward(run, rows, norm.weight.vector(), norm.bias.vector(), norm.eps,
                              rows_of(y, norm.width), means, rstds);
  kernels::layer_norm_backward(run, rows_of(dy, norm.width), rows, norm.weight.vector(), means,
                               rstds, {}, rows_of(d.dx, norm.width), d.dweight.vector(),
                               d.dbias.vector());
  return d;
}

// In double, where the case asks for it.
Array textbook_layer_norm(const Array& x, const Norm& norm, Case& c) {
  const auto parameter = [&](const char* key) {
    const auto values = c.input.array(key);
    return values ? reference::Tensor<double>({norm.width}, values->values)
                  : reference::Tensor<double>();
  };
  const reference::Tensor<double> rows({x.size() / norm.width, norm.width}, x.values);
  const auto y =
      reference::layer_norm(rows, {parameter("weight"), parameter("bias")}, {.eps = norm.eps});
  return {x.shape, {y.begin(), y.end()}};
}

// Shapes without a single row: the pair runs, and the parameters' gradients are zero.
void norm_of_nothing(Case& c, const Shape& shape, bool first) {
  const Norm norm = read_norm(c, shape);
  const Floats x(shape);
  const Floats y = normalise(c.run(), x, norm);
  const NormGradients d = normalise_backward(c.run(), x, x, norm);
  c.require(y.shape == shape && y.values.size() == x.values.size(), "an output of x's shape");
  c.require(d.dx.shape == shape, "a gradient of x's shape");
  if (!first) return;
  Array found_shape{{static_cast<Index>(shape.size())}, {}};
  for (const Index n : y.shape) found_shape.values.push_back(static_cast<double>(n));
  c.check("y_shape", found_shape);
  c.check("dweight", array_of(d.dweight));
  c.check("dbias", array_of(d.dbias));
}

void require_no_crash(Case& c) {
  if (c.expected.has("no_crash")) {
    c.require(c.expected.flag("no_crash", false), "no_crash to be true: this line was reached");
  }
}

void layer_norm(Case& c) {
  require_no_crash(c);
  if (c.input.has("x_shape")) {
    norm_of_nothing(c, shape_from(c.input.at("x_shape")), true);
    if (const Json* also = c.input.find("also")) norm_of_nothing(c, shape_from(*also), false);
    return;
  }
  const std::string dtype = c.input.text("dtype", "float32");
  const Array given = rounded_to(*c.input.array("x"), dtype);
  if (given.shape.empty()) throw BadCase("input.x: expected rows, found a number");
  const Norm norm = read_norm(c, given.shape);
  if (dtype == "float64") return c.check("y", textbook_layer_norm(given, norm, c));
  const Floats x = floats_from(given);
  const Floats y = normalise(c.run(), x, norm);
  const Array found = array_of(y);
  c.check("y", found);
  if (const Json* also = c.input.find("also_weight")) {  // other weights, the same result
    Norm other = norm;
    other.weight = floats_from(array_from(*also));
    c.check("y", array_of(normalise(c.run(), x, other)));
  }
  for (Index row = 0; row < found.rows(); ++row) {
    const std::string key = fmt::format("row{}", row);
    if (!c.expected.has(key)) continue;
    const auto from = static_cast<std::ptrdiff_t>(row * found.columns());
    c.check(key,
            Array{{found.columns()},
                  {found.values.begin() + from, found.values.begin() + from + found.columns()}});
  }
}

void layer_norm_fwd_bwd(Case& c) {
  require_no_crash(c);
  const Floats x = floats_from(*c.input.array("x"));
  if (x.shape.empty()) throw BadCase("input.x: expected rows, found a number");
  const Norm norm = read_norm(c, x.shape);
  const auto given = c.input.array("dy", x.shape);
  if (!given || given->shape != x.shape) throw BadCase("input.dy: expected the shape of x");
  const NormGradients d = normalise_backward(c.run(), x, floats_from(*given), norm);
  c.check("y", array_of(normalise(c.run(), x, norm)));
  c.check("dx", array_of(d.dx));
  c.check("dweight", array_of(d.dweight));
  c.check("dbias", array_of(d.dbias));
}

// --- Softmax
// --------------------------------------------------------------------------------------

// input.x in the number format of input.dtype.
std::optional<Array> read_x(Case& c) {
  const auto x = c.input.array("x");
  const std::string dtype = c.input.text("dtype", "float32");
  return x ? std::optional(rounded_to(*x, dtype)) : std::nullopt;
}

void softmax(Case& c) {
  const auto given = read_x(c);
  if (!given || given->shape.empty()) throw BadCase("input.x: expected rows of numbers");
  const Floats x = floats_from(*given);
  Floats y(x.shape);
  kernels::softmax(c.run(), x.matrix(), y.matrix());
  c.check("y", array_of(y));
}

// --- GELU
// -----------------------------------------------------------------------------------------

struct Curve {
  Array y, dx;  // the value and the slope at each x
};

Curve kernel_curve(const Runtime& run, Activation kind, const Array& given) {
  const Floats x = floats_from(given);
  Floats y(x.shape), dx(x.shape), ones(x.shape);
  std::ranges::fill(ones.values, 1.0f);
  kernels::activation_forward(run, kind, x.matrix(), y.matrix());
  kernels::activation_backward(run, kind, ones.matrix(), x.matrix(), dx.matrix());
  return {array_of(y), array_of(dx)};
}

// No kernel has it: it is known only as a mistake of other models.
Curve quick_curve(const Array& x) {
  Curve curve{x, x};
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    curve.y.values[i] = reference::activate(reference::Activation::kGeluQuick, x.values[i]);
    curve.dx.values[i] =
        reference::activation_slope(reference::Activation::kGeluQuick, x.values[i]);
  }
  return curve;
}

void check_curve(Case& c, Fields& expected, const std::string& name, const Curve& curve) {
  for (const auto& [key, values] : {std::pair("y", &curve.y), std::pair("dx", &curve.dx)}) {
    if (const Json* want = expected.find(key)) {
      c.check_against((name.empty() ? "" : name + ".") + key, *want, *values);
    }
  }
}

// expected.{erf, tanh, relu, quick_sigmoid_1.702}.{y, dx}
void gelu(Case& c) {
  const Array x = read_x(c).value();
  for (const std::string& form : c.expected.keys()) {
    if (is_documentation(form)) continue;
    Curve curve;
    if (form == "erf" || form == "none" || form == "exact") {
      curve = kernel_curve(c.run(), Activation::kGelu, x);
    } else if (form == "tanh" || form == "gelu_new") {
      curve = kernel_curve(c.run(), Activation::kGeluTanh, x);
    } else if (form == "relu") {
      curve = kernel_curve(c.run(), Activation::kRelu, x);
    } else if (mentions(form, "quick") || mentions(form, "sigmoid")) {
      curve = quick_curve(x);
    } else {
      continue;  // stays unread, and so fails
    }
    Fields part(c.expected.at(form), "expected." + form);
    check_curve(c, part, form, curve);
    for (const std::string& key : part.unread()) throw BadCase(key + ": not known");
  }
}

// The largest |tanh form − erf form| on [low, high], and where: by the textbook, on a fine grid.
std::pair<double, double> largest_gap(double low, double high) {
  const auto gap = [](double x) {
    return std::abs(reference::activate(reference::Activation::kGeluTanh, x) -
                    reference::activate(reference::Activation::kGelu, x));
  };
  const auto steps = static_cast<Index>(std::ceil((high - low) / tolerance::kGapGrid));
  double largest = -1.0, at = low;
  for (Index i = 0; i <= steps; ++i) {
    const double x = std::min(high, low + static_cast<double>(i) * tolerance::kGapGrid);
    if (gap(x) > largest) {
      largest = gap(x);
      at = x;
    }
  }
  return {largest, at};
}

void gelu_of_one_form(Case& c, Activation kind) {
  Curve curve = kernel_curve(c.run(), kind, read_x(c).value());
  check_curve(c, c.expected, "", curve);
  static const std::regex kGap(R"(max_abs_gap_to_erf_on_\[(-?[\d.]+),\s*(-?[\d.]+)\])");
  for (const std::string& key : c.expected.keys()) {
    std::smatch range;
    if (!std::regex_match(key, range, kGap)) continue;
    const auto [gap, at] = largest_gap(std::stod(range[1]), std::stod(range[2]));
    c.check(key, gap);
    if (!c.expected.has("at_x")) continue;
    // The gap is even, so that its place may have either sign.
    const double want = c.expected.number("at_x");
    c.check_against("at_x", want, Array{{}, {std::copysign(at, want)}},
                    {.abs = tolerance::kGapPlace, .rel = 0.0});
  }
}

}  // namespace

void add_layer_ops(Registry& ops) {
  ops["layer_norm"] = layer_norm;
  ops["layer_norm_fwd_bwd"] = layer_norm_fwd_bwd;
  ops["softmax"] = softmax;
  ops["gelu"] = ops["gelu_fwd_bwd"] = gelu;
  ops["gelu_tanh"] = [](Case& c) { gelu_of_one_form(c, Activation::kGeluTanh); };
  ops["gelu_erf"] = [](Case& c) { gelu_of_one_form(c, Activation::kGelu); };
  ops["relu"] = [](Case& c) { gelu_of_one_form(c, Activation::kRelu); };
}

}  // namespace prenorm::cases
