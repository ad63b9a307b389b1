// Ops of attention alone: queries, keys and values given, or a whole multi-head layer.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <regex>

#include "prenorm/kernels/attention.h"
#include "prenorm/kernels/matmul.h"
#include "tests/cases/registry.h"

namespace prenorm::cases {
namespace {

// --- Queries, keys and values
// ---------------------------------------------------------------------

// [T, D], [B, T, D] or [B, H, T, D], of which all but the last two axes count as sequences: heads
// do not mix.
struct Sdpa {
  Floats q, k, v;
  kernels::AttentionShape shape;
  std::vector<float> added;            // [T, S] or [B, T, S], or none
  std::vector<unsigned char> padding;  // [B, S], or none
  kernels::AttentionMask mask;
  Floats out;
  std::vector<float> row_max;
  std::vector<double> row_sum;

  void forward(const Runtime& run) {
    out = Floats(q.shape);
    row_max.resize(static_cast<std::size_t>(out.rows()));
    row_sum.resize(row_max.size());
    const Vector max(row_max.data(), {out.rows()});
    const DoubleVector sum(row_sum.data(), {out.rows()});
    kernels::attention_forward(run, shape, inputs(), mask, out.matrix(), max, sum, {});
  }
  kernels::AttentionInputs inputs() const {
    return {std::as_const(q).matrix(), std::as_const(k).matrix(), std::as_const(v).matrix()};
  }
};

Index time_of(const Array& x) { return x.shape[x.shape.size() - 2]; }

Sdpa read_qkv(Case& c, const Array& q, const Array& k, const Array& v) {
  if (q.shape.size() < 2 || q.shape.size() != k.shape.size() || k.shape != v.shape ||
      q.columns() != k.columns() || q.rows() / time_of(q) != k.rows() / time_of(k)) {
    throw BadCase("input: q, k, v: expected [..., T, D] and [..., S, D], found " +
                  shape_name(q.shape) + ", " + shape_name(k.shape) + ", " + shape_name(v.shape));
  }
  Sdpa s;
  s.q = floats_from(q);
  s.k = floats_from(k);
  s.v = floats_from(v);
  s.shape.batch = q.rows() / time_of(q);
  s.shape.time = time_of(q);
  s.shape.keys = time_of(k);
  s.shape.head_width = q.columns();
  s.shape.causal = false;
  s.shape.scale = c.input.number("scale", 1.0 / std::sqrt(static_cast<double>(s.shape.head_width)));
  return s;
}

Sdpa read_qkv(Case& c) {
  return read_qkv(c, *c.input.array("q"), *c.input.array("k"), *c.input.array("v"));
}

// A mask [T, S] or [..., T, S] whose elements `added_for` turns into what is added to the scores.
template <typename AddedFor>
void set_mask(Sdpa& s, const Array& mask, const AddedFor& added_for) {
  const Index rows = s.shape.time, keys = s.shape.keys;
  const Index sheets = mask.size() / (rows * keys);
  if (mask.shape.size() < 2 || mask.columns() != keys || time_of(mask) != rows ||
      (sheets != 1 && sheets != s.shape.batch)) {
    throw BadCase("input: mask: expected [" + std::to_string(rows) + ", " + std::to_string(keys) +
                  "], found " + shape_name(mask.shape));
  }
  s.added.clear();
  for (const double element : mask.values)
    s.added.push_back(static_cast<float>(added_for(element)));
  s.mask.added = View<const float, 4>(s.added.data(), {s.shape.batch, 1, rows, keys},
                                      {sheets == 1 ? 0 : rows * keys, 0, keys, 1});
}

constexpr double kBlocked = -std::numeric_limits<double>::infinity();
double added_if_allowed(double allowed) { return allowed != 0.0 ? 0.0 : kBlocked; }
double added_if_blocked(double blocked) { return blocked != 0.0 ? kBlocked : 0.0; }

bool is_boolean(const Json& mask) {
  return mask.is_array() && !mask.empty() ? is_boolean(mask[0]) : mask.is_boolean();
}

// key_padding_mask [S] or [B, S]: true blocks the key. It goes along with any other mask.
void set_padding(Sdpa& s, const Array& mask) {
  if (mask.size() != s.shape.batch * s.shape.keys) {
    throw BadCase("input.key_padding_mask: expected [B, S], found " + shape_name(mask.shape));
  }
  for (const double blocked : mask.values) s.padding.push_back(blocked != 0.0 ? 1 : 0);
  s.mask.key_blocked = {s.padding.data(), {s.shape.batch, s.shape.keys}};
}

// Runs `use` with each mask of the input: these are one mask in several conventions. mask_allowed
// and mask_blocked say what true means; any other (attn_mask, mask_additive) is that of
// torch.nn.functional.scaled_dot_product_attention: true allows, numbers are added.
template <typename Use>
void with_masks(Case& c, Sdpa& s, const Use& use) {
  s.shape.causal = c.input.flag("is_causal", false);
  if (const auto padding = c.input.array("key_padding_mask")) set_padding(s, *padding);
  bool any = false;
  for (const std::string& key : c.input.keys()) {
    if (!mentions(key, "mask") || key == "key_padding_mask") continue;
    const Json* mask = c.input.find(key);
    if (mask == nullptr) continue;
    if (mentions(key, "blocked")) {
      set_mask(s, array_from(*mask), added_if_blocked);
    } else if (mentions(key, "allowed") || is_boolean(*mask)) {
      set_mask(s, array_from(*mask), added_if_allowed);
    } else {
      set_mask(s, array_from(*mask), [](double x) { return x; });
    }
    use();
    any = true;
  }
  if (!any) use();
}

void check_rows(Case& c, const Sdpa& s) {
  c.check("y", array_of(s.out));
  if (const auto first = c.expected.array("first_row_must_equal_v0")) {
    const Index width = s.shape.head_width;
    c.check_against(
        "first_row_must_equal_v0", c.expected.at("first_row_must_equal_v0"),
        array_of({width}, std::span(s.out.values).first(static_cast<std::size_t>(width))),
        Tolerance{});
  }
}

void sdpa(Case& c) {
  Sdpa s = read_qkv(c);
  with_masks(c, s, [&] {
    s.forward(c.run());
    check_rows(c, s);
  });
}

void sdpa_fwd_bwd(Case& c) {
  Sdpa s = read_qkv(c);
  const auto given = c.input.array("dy", s.q.shape);
  if (!given || given->shape != s.q.shape) throw BadCase("input.dy: expected the shape of y");
  const Floats dy = floats_from(*given);
  with_masks(c, s, [&] {
    s.forward(c.run());
    check_rows(c, s);
    Floats dq(s.q.shape), dk(s.k.shape), dv(s.v.shape);
    const ConstVector max(s.row_max.data(), {s.out.rows()});
    const ConstDoubleVector sum(s.row_sum.data(), {s.out.rows()});
    kernels::attention_backward(c.run(), s.shape, dy.matrix(), s.inputs(), s.mask,
                                std::as_const(s.out).matrix(), max, sum,
                                {dq.matrix(), dk.matrix(), dv.matrix()}, {});
    c.check("dq", array_of(dq));
    c.check("dk", array_of(dk));
    c.check("dv", array_of(dv));
    for (const Floats* finite : {&s.out, &dq, &dk, &dv}) {
      for (const float value : finite->values) {
        if (!std::isfinite(value)) c.require(false, "finite outputs and gradients");
      }
    }
  });
  for (const std::string& key : c.expected.keys()) {  // row0: "zeros ... never NaN ..."
    if (!std::regex_match(key, std::regex(R"(row\d+)"))) continue;
    const auto row = static_cast<Index>(std::stoll(key.substr(3)));
    const std::string promise = c.promise(key);
    if (!mentions(promise, "zeros") || row >= s.out.rows()) throw BadCase(key + ": not understood");
    for (Index i = 0; i < s.out.columns(); ++i) {
      c.require(s.out.matrix()[row][i] == 0.0f, key + " to be zeros");
    }
  }
}

// The position of the first query among the keys.
Index first_position(Case& c, const Sdpa& s) {
  const std::string alignment = c.input.text("alignment", "bottom-right");
  if (alignment != "bottom-right" && alignment != "top-left") {
    throw BadCase("input.alignment: expected bottom-right or top-left, found " + alignment);
  }
  const Index aligned = alignment == "top-left" ? 0 : s.shape.keys - s.shape.time;
  return c.input.integer("past", aligned);
}

void causal_sdpa(Case& c) {
  Sdpa s = read_qkv(c);
  s.shape.causal = true;
  s.shape.past = first_position(c, s);
  s.forward(c.run());
  c.check("y", array_of(s.out));
  c.check("y_decode_bottom_right", array_of(s.out));
  for (const std::string& key : c.expected.keys()) {  // score_TS: the scaled score
    if (!std::regex_match(key, std::regex(R"(score_\d\d)"))) continue;
    const Index t = key[6] - '0', k = key[7] - '0';
    if (t >= s.shape.time || k >= s.shape.keys) throw BadCase(key + ": no such query or key");
    float score = 0.0f;
    kernels::matmul(c.run(), s.inputs().q.rows(t, 1),
                    kernels::Right::transposed(s.inputs().k.rows(k, 1)), Matrix(&score, {1, 1}),
                    {});
    c.check(key, static_cast<double>(score) * s.shape.scale);
  }
  if (c.expected.has("y_torch_is_causal_top_left")) {
    s.shape.past = 0;
    s.forward(c.run());
    c.check("y_torch_is_causal_top_left", array_of(s.out));
  }
}

// "q=val(1300,(T,hd),512), k=val(1301,...), v=val(1302,...)": the number and the divisor of each.
struct Generator {
  std::uint32_t k = 0;
  double den = 1.0;
};

std::map<char, Generator> read_generators(const std::string& text) {
  static const std::regex kOne(
      R"(([qkv])\s*=\s*val\(\s*(\d+)\s*,\s*(?:\.\.\.|\([^)]*\)\s*,\s*([\d.]+))\s*\))");
  std::map<char, Generator> found;
  double den = 0.0;
  for (std::sregex_iterator it(text.begin(), text.end(), kOne), end; it != end; ++it) {
    if ((*it)[3].matched) den = std::stod((*it)[3]);
    found[(*it)[1].str()[0]] = {static_cast<std::uint32_t>(std::stoul((*it)[2])), den};
  }
  if (found.size() != 3 || den == 0.0) throw BadCase("input.generator: not understood");
  return found;
}

// The tolerance of single values, where the note gives one beside that of sums.
Tolerance row_tolerance(const Case& c) {
  std::smatch found;
  if (std::regex_search(c.tolerance_note, found, std::regex(R"(row values: abs ([\d.e-]+))"))) {
    return {.abs = std::stod(found[1]), .rel = 0.0};
  }
  return c.tolerance;
}

void causal_sdpa_generated(Case& c) {
  const auto generators = read_generators(c.input.text("generator"));
  const Json& sizes = c.input.at("sizes");
  const Json& results = c.expected.at("results");
  if (sizes.size() != results.size()) throw BadCase("expected.results: not one for each size");
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Shape shape = shape_from(sizes[i]);
    const auto make = [&](char which) {
      const Generator& g = generators.at(which);
      return val(g.k, shape, g.den);
    };
    Sdpa s = read_qkv(c, make('q'), make('k'), make('v'));
    s.shape.causal = true;
    s.forward(c.run());
    double sum = 0.0, abs_sum = 0.0;
    for (const float value : s.out.values) {
      sum += value;
      abs_sum += std::abs(static_cast<double>(value));
    }
    const std::string name = "results[" + std::to_string(i) + "]";
    Fields expected(results[i], name);
    c.check_against(name + ".T", expected.at("T"), {{}, {static_cast<double>(shape[0])}});
    c.check_against(name + ".head_dim", expected.at("head_dim"),
                    {{}, {static_cast<double>(shape[1])}});
    c.check_against(name + ".sum", expected.at("sum"), {{}, {sum}});
    c.check_against(name + ".abs_sum", expected.at("abs_sum"), {{}, {abs_sum}});
    const Json& first = expected.at("last_row_first_3");
    const auto row = std::span(s.out.values).last(static_cast<std::size_t>(shape[1]));
    c.check_against(
        name + ".last_row_first_3", first,
        array_of({static_cast<Index>(first.size())}, row.first(std::min(first.size(), row.size()))),
        row_tolerance(c));
    for (const std::string& key : expected.unread()) throw BadCase(key + ": not known");
  }
}

}  // namespace

void add_attention_ops(Registry& ops) {
  ops["sdpa"] = sdpa;
  ops["sdpa_fwd_bwd"] = sdpa_fwd_bwd;
  ops["causal_sdpa"] = causal_sdpa;
  ops["causal_sdpa_generated"] = causal_sdpa_generated;
}

}  // namespace prenorm::cases
