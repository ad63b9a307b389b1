#include "tests/cases/case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "prenorm/base/error.h"
#include "prenorm/base/utf8.h"

namespace prenorm::cases {
namespace {

// Where element `at` of an array of this shape is: "[1, 0]".
std::string place(const Shape& shape, Index at) {
  Shape index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = at % shape[axis];
    at /= shape[axis];
  }
  return shape.empty() ? "" : shape_name(index);
}

bool admits_all(const Tolerance& tolerance, std::span<const double> got,
                std::span<const double> want) {
  return std::ranges::equal(got, want, [&](double g, double w) { return tolerance.admits(g, w); });
}

// "zeros", "ones", "all nan" as an array of the shape that was got.
Array expected_array(const Json& want, const Shape& like) {
  if (!want.is_string()) return array_from(want);
  const std::string word = want.get<std::string>();
  if (word == "all nan") return array_from(Json{{"fill", "nan"}, {"shape", like}});
  return array_from(want, like);
}

}  // namespace

const Runtime& Session::run() {
  if (!run_) run_ = std::make_unique<Runtime>();
  return *run_;
}

// --- Fields
// ---------------------------------------------------------------------------------------

bool is_documentation(std::string_view key) {
  for (const std::string_view prefix : {"wrong", "torch_", "reference_", "note", "acceptable"}) {
    if (key.starts_with(prefix)) return true;
  }
  return key == "trap" || key == "comment" || key == "op";
}

Fields::Fields(const Json& object, std::string name) : object_(object), name_(std::move(name)) {
  if (!object.is_object()) throw BadCase(name_ + ": expected an object, found another value");
}

const Json& Fields::at(const std::string& key) {
  read_.insert(key);
  const auto found = object_.find(key);
  if (found == object_.end()) {
    throw BadCase(name_ + ": expected a key '" + key + "', found none");
  }
  return *found;
}

const Json* Fields::find(const std::string& key) {
  read_.insert(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

double Fields::number(const std::string& key) {
  const Json& value = at(key);
  if (!value.is_number())
    throw BadCase(name_ + "." + key + ": expected a number, found another value");
  return value.get<double>();
}

double Fields::number(const std::string& key, double otherwise) {
  return find(key) == nullptr ? otherwise : number(key);
}

Index Fields::integer(const std::string& key) {
  const double value = number(key);
  if (value != std::floor(value)) {
    throw BadCase(name_ + "." + key + ": expected a whole number, found another");
  }
  return static_cast<Index>(value);
}

Index Fields::integer(const std::string& key, Index otherwise) {
  return find(key) == nullptr ? otherwise : integer(key);
}

bool Fields::flag(const std::string& key, bool otherwise) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) throw BadCase(name_ + "." + key + ": expected true or false");
  return value->get<bool>();
}

std::string Fields::text(const std::string& key) {
  const Json& value = at(key);
  if (!value.is_string())
    throw BadCase(name_ + "." + key + ": expected a text, found another value");
  return value.get<std::string>();
}

std::string Fields::text(const std::string& key, const std::string& otherwise) {
  return find(key) == nullptr ? otherwise : text(key);
}

std::optional<Array> Fields::array(const std::string& key, const Shape& like) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  try {
    return array_from(*value, like);
  } catch (const BadCase& error) {
    throw BadCase(name_ + "." + key + ": " + error.what());
  }
}

std::vector<std::string> Fields::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object_.items()) keys.push_back(key);
  return keys;
}

std::vector<std::string> Fields::unread() const {
  std::vector<std::string> left;
  for (const std::string& key : keys()) {
    if (!read_.contains(key) && !is_documentation(key)) left.push_back(name_ + "." + key);
  }
  return left;
}

// --- Tolerance
// ------------------------------------------------------------------------------------

Tolerance Tolerance::from(const Json& value) {
  Tolerance tolerance;
  if (value.is_null()) return tolerance;
  Fields fields(value, "tolerance");
  tolerance.abs = fields.number("abs", 0.0);
  tolerance.rel = fields.number("rel", 0.0);
  for (const std::string& key : fields.unread()) throw BadCase(key + ": not known");
  return tolerance;
}

bool Tolerance::admits(double got, double want) const {
  if (std::isnan(want)) return std::isnan(got);
  const bool countable = std::floor(want) == want && std::abs(want) < 0x1p53;
  if (got == want || (!countable && got == static_cast<double>(static_cast<float>(want)))) {
    return true;
  }
  return std::isfinite(want) && std::abs(got - want) <= abs + rel * std::abs(want);
}

// --- Case
// -----------------------------------------------------------------------------------------

Case::Case(const Json& json, Session& session)
    : input(json.at("input"), "input"),
      expected(json.at("expected"), "expected"),
      session_(session),
      id_(json.at("id").get<std::string>()),
      op_(json.at("input").at("op").get<std::string>()) {
  const Json none;
  const Json& within = json.contains("tolerance") ? json.at("tolerance") : none;
  tolerance = Tolerance::from(within);
  if (within.is_object()) tolerance_note = within.value("note", "");
}

std::filesystem::path Case::file(const std::string& name) const {
  return session_.paths().folder / name;
}

void Case::fail(std::string text) {
  if (!failure_) failure_ = std::move(text);
}

void Case::require(bool holds, const std::string& what, const std::string& got) {
  ++checks_;
  if (!holds) fail("expected " + what + (got.empty() ? "" : ", got " + got));
}

void Case::check_against(const std::string& what, const Json& want, const Array& got) {
  check_against(what, want, got, tolerance);
}

void Case::check_against(const std::string& what, const Json& want, const Array& got,
                         const Tolerance& within) {
  ++checks_;
  const Array right = expected_array(want, got.shape);
  if (right.shape != got.shape) {
    return fail(fmt::format("{}: got {}, expected {}", what, shape_name(got.shape),
                            shape_name(right.shape)));
  }
  for (Index i = 0; i < right.size(); ++i) {
    if (within.admits(got[i], right[i])) continue;
    return fail(fmt::format("{}{}: got {:.9g}, expected {:.9g} within {:.3g}{}", what,
                            place(right.shape, i), got[i], right[i],
                            within.abs + within.rel * std::abs(right[i]), matching_fault(got)));
  }
}

void Case::check(const std::string& key, const Array& got) {
  const Json* want = expected.find(key);
  if (want != nullptr) check_against(key, *want, got);
}

void Case::check(const std::string& key, std::span<const TokenId> got) {
  check(key, Array{{static_cast<Index>(got.size())}, {got.begin(), got.end()}});
}

void Case::check_text(const std::string& key, const std::string& got) {
  if (expected.find(key) == nullptr) return;
  const std::string want = expected.text(key);
  require(want == got, key + " '" + printable(want) + "'", "'" + printable(got) + "'");
}

// The fault among expected.wrong_* whose numbers these are: all of them, or their last row's.
std::string Case::matching_fault(const Array& got) const {
  const auto matches = [&](const Json& wrong) {
    if (!is_numeric(wrong)) return false;
    const Array numbers = array_from(wrong);
    const std::size_t count = numbers.values.size(), have = got.values.size();
    if (count == 0 || count > have ||
        (count < have && count != static_cast<std::size_t>(got.columns()))) {
      return false;
    }
    const std::span<const double> all(got.values);
    return admits_all(tolerance, all.last(count), numbers.values) ||
           admits_all(tolerance, all.first(count), numbers.values);
  };
  for (const auto& [key, value] : expected.json().items()) {
    if (!key.starts_with("wrong")) continue;
    if (matches(value)) return "; matches the fault '" + key + "'";
    if (!value.is_object()) continue;
    for (const auto& [name, numbers] : value.items()) {
      if (matches(numbers)) return "; matches the fault '" + name + "'";
    }
  }
  return "";
}

std::string Case::require_error(const std::string& what, const std::function<void()>& call,
                                const std::vector<std::string>& words) {
  std::string message;
  try {
    call();
    require(false, what + " to be an error", "none");
    return message;
  } catch (const Error& error) {
    message = error.what();
  }
  require(!message.empty(), what + " to be an error with a message");
  for (const std::string& word : words) {
    require(mentions(message, word), what + " to name " + word,
            "'" + printable(message, 200) + "'");
  }
  return message;
}

std::string Case::promise(const std::string& key) { return expected.text(key, ""); }

Outcome Case::outcome() const {
  if (failure_) return {Outcome::Kind::kFailed, *failure_};
  std::vector<std::string> left = input.unread();
  for (const std::string& key : expected.unread()) left.push_back(key);
  if (!left.empty()) {
    return {Outcome::Kind::kFailed, fmt::format("{}: a key that '{}' does not know", left[0], op_)};
  }
  if (checks_ == 0) return {Outcome::Kind::kFailed, "nothing was checked"};
  return {Outcome::Kind::kPassed, ""};
}

}  // namespace prenorm::cases
