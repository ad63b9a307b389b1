// One case of a case file while an op runs it: what it reads, what it checks, what came of it.
//
//   void softmax(Case& c) {
//     const Array x = array_from(c.input.at("x"));
//     ...
//     c.check("y", y);   // against expected.y within the case's tolerance
//   }
//
// A key that the op never reads, and a case of which nothing was checked, fail: what is not
// understood is not passed over.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "prenorm/kernels/runtime.h"
#include "prenorm/text/tokenizer.h"
#include "tests/cases/values.h"

namespace prenorm::cases {

// What the cases run with. Things that are slow to make are made when first asked for.
class Session {
 public:
  struct Paths {
    std::filesystem::path folder;      // of the case file: its paths are relative to this
    std::filesystem::path program;     // the built `prenorm`
    std::filesystem::path gpt2_vocab;  // folder with GPT-2's vocab.json and merges.txt
  };

  explicit Session(Paths paths) : paths_(std::move(paths)) {}
  const Paths& paths() const { return paths_; }
  const Runtime& run();
  const Tokenizer& gpt2();  // throws Skipped where the vocabulary is absent

 private:
  Paths paths_;
  std::unique_ptr<Runtime> run_;
  std::unique_ptr<Tokenizer> gpt2_;
};

struct Outcome {
  enum class Kind { kPassed, kFailed, kLater, kSkipped };
  Kind kind = Kind::kPassed;
  std::string text;  // one line: why not passed
};

// What a case needs and this machine does not have.
struct Skipped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// An object of a case whose keys are read one by one.
class Fields {
 public:
  Fields(const Json& object, std::string name);

  // Each of these counts the key as read. at() and the typed ones without a default throw BadCase
  // where there is no such key; find() is null for an absent key and for null.
  const Json& at(const std::string& key);
  const Json* find(const std::string& key);
  bool has(const std::string& key) const { return object_.contains(key); }
  double number(const std::string& key);
  double number(const std::string& key, double otherwise);
  Index integer(const std::string& key);
  Index integer(const std::string& key, Index otherwise);
  bool flag(const std::string& key, bool otherwise);
  std::string text(const std::string& key);
  std::string text(const std::string& key, const std::string& otherwise);
  std::optional<Array> array(const std::string& key, const Shape& like = {});

  std::vector<std::string> keys() const;
  std::vector<std::string> unread() const;  // but for documentation
  const Json& json() const { return object_; }

 private:
  const Json& object_;
  std::string name_;  // "input", "expected"
  std::set<std::string> read_;
};

// Keys that explain and expect nothing: wrong_*, torch_*, reference_*, note, acceptable, ...
bool is_documentation(std::string_view key);

struct Tolerance {
  double abs = 0.0, rel = 0.0;  // |got − want| <= abs + rel |want|

  static Tolerance from(const Json& value);
  // A float that is the expected number rounded to float is right whatever the tolerance; not so
  // for whole numbers, which may be counts.
  bool admits(double got, double want) const;
};

class Case {
 public:
  Case(const Json& json, Session& session);
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  const std::string& id() const { return id_; }
  const std::string& op() const { return op_; }
  Session& session() const { return session_; }
  const Runtime& run() const { return session_.run(); }
  // A path of the input, relative to the case file's folder.
  std::filesystem::path file(const std::string& name) const;

  Fields input, expected;
  Tolerance tolerance;
  std::string tolerance_note;

  // Compares with expected[key] if there is one. A text there may be "zeros", "ones" or "all nan".
  void check(const std::string& key, const Array& got);
  void check(const std::string& key, double got) { check(key, Array{{}, {got}}); }
  void check(const std::string& key, std::span<const TokenId> got);
  void check_text(const std::string& key, const std::string& got);
  // Compares with a number that stands elsewhere in the case.
  void check_against(const std::string& what, const Json& want, const Array& got);
  void check_against(const std::string& what, const Json& want, const Array& got,
                     const Tolerance& within);
  // A check of another kind: one that does not hold fails the case.
  void require(bool holds, const std::string& what, const std::string& got = "");
  // The call throws an Error; its message, one line of which holds all of `words`. A crash or
  // another exception is a failure like no error at all.
  std::string require_error(const std::string& what, const std::function<void()>& call,
                            const std::vector<std::string>& words = {});
  // expected[key] as a text that the op tests as behaviour; empty where absent.
  std::string promise(const std::string& key);

  // Call last.
  Outcome outcome() const;

 private:
  void fail(std::string text);
  std::string matching_fault(const Array& got) const;

  Session& session_;
  std::string id_, op_;
  int checks_ = 0;
  std::optional<std::string> failure_;  // the first
};

using Op = std::function<void(Case&)>;

}  // namespace prenorm::cases
