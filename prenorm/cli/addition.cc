#include "prenorm/cli/addition.h"

#include <algorithm>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/json.h"
#include "prenorm/base/utf8.h"
#include "prenorm/cli/addition_problems.h"
#include "prenorm/cli/common.h"
#include "prenorm/cli/format.h"
#include "prenorm/generate/generator.h"

namespace prenorm::cli {
namespace {

class Addition : public Verb {
 public:
  void declare(OptionTable& table) override {
    table.group("Writing");
    table.text("write", write_, "DIR", "folder for train.txt and heldout.txt");
    table.integer("digits", digits_, {1, 3}, "digits of the numbers to add");
    table.seed("seed", seed_, "of the order, and of which sums are held out");
    table.group("Grading");
    table.text("grade", grade_, "DIR", "model folder to ask").short_name('m');
    table.text("data", data_, "FILE", "the sums that were held out");
    table.integer("count", count_, {1, 1 << 20}, "sums to ask, from the file's start");
    table.integer("show", show_, {0, 1 << 20}, "examples to print");
    table.real("at-least", at_least_, {.min = 0, .max = 1},
               "exit with 1 where a smaller share is right");
    common_.declare_machine(table);
    table.group("Output");
    common_.declare_output(table, "print one JSON object: count, right, share");
  }

  int run(const OptionTable&, const Streams& streams) override {
    if (write_.empty() == grade_.empty()) {
      throw ConfigError(std::string("addition: expected --write DIR or --grade DIR, found ") +
                        (write_.empty() ? "neither" : "both"));
    }
    return write_.empty() ? grade(streams) : write(streams);
  }

 private:
  int write(const Streams& streams) const;
  int grade(const Streams& streams) const;
  std::vector<std::string> ask(const Runtime& run, const LoadedModel& loaded,
                               const std::vector<AdditionLine>& problems) const;

  std::string write_, grade_, data_;
  int digits_ = 2;
  std::uint64_t seed_ = 1337;
  Index count_ = 200, show_ = 10;
  double at_least_ = 0.0;
  CommonFlags common_;
};

int Addition::write(const Streams& streams) const {
  const std::filesystem::path folder(write_);
  ensure_directory(folder);
  const AdditionProblems problems = make_addition_problems(digits_, seed_);
  write_file_durably(folder / "train.txt", addition_text(problems.training, digits_));
  write_file_durably(folder / "heldout.txt", addition_text(problems.held_out, digits_));
  streams.log.print("{}: {} problems to train on in train.txt, {} held out in heldout.txt\n",
                    printable(write_), grouped(static_cast<Index>(problems.training.size())),
                    grouped(static_cast<Index>(problems.held_out.size())));
  return kDone;
}

// The model's answer to each problem: what it writes up to the end of the line.
std::vector<std::string> Addition::ask(const Runtime& run, const LoadedModel& loaded,
                                       const std::vector<AdditionLine>& problems) const {
  std::size_t longest = 0;
  std::vector<std::vector<TokenId>> prompts;
  for (const AdditionLine& problem : problems) {
    // In the text that it learned from, a problem follows the end of a line.
    prompts.push_back(loaded.tokenizer->encode("\n" + problem.prompt));
    longest = std::max(longest, problem.answer.size());
  }
  std::vector<GenerateRequest> requests;
  for (const auto& prompt : prompts) requests.push_back({prompt, {}});
  GenerateOptions options;
  options.sampler.temperature = 0.0;
  options.max_new_tokens = static_cast<Index>(longest) + 1;
  options.batch = 64;
  std::vector<std::string> answers(problems.size());
  GenerateCallbacks callbacks;
  callbacks.on_token = [&](const NewToken& token) {
    const std::string text = loaded.tokenizer->decode(token.id);
    if (text == "\n") return false;
    answers[token.request] += text;
    return true;
  };
  static_cast<void>(generate(run, *loaded.model, requests, options, callbacks));
  return answers;
}

int Addition::grade(const Streams& streams) const {
  if (data_.empty()) throw ConfigError("--data: expected a file of sums, found none");
  const Runtime run(common_.runtime());
  const LoadedModel loaded = load_model(run, grade_);
  std::vector<AdditionLine> problems = parse_addition_text(read_file(data_), data_);
  problems.resize(std::min(problems.size(), static_cast<std::size_t>(count_)));
  const std::vector<std::string> answers = ask(run, loaded, problems);
  Index right = 0, shown = 0;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const bool good = answers[i] == problems[i].answer;
    right += good ? 1 : 0;
    if (common_.json || shown >= show_) continue;
    ++shown;
    streams.out.print("{}{}  {}\n", problems[i].prompt, printable(answers[i]),
                      good ? "right" : "wrong: " + printable(problems[i].answer));
  }
  const auto count = static_cast<Index>(problems.size());
  const double share = static_cast<double>(right) / static_cast<double>(count);
  if (common_.json) {
    streams.out.write(dump_json_compact({{"count", count}, {"right", right}, {"share", share}}) +
                      "\n");
  } else {
    streams.out.print("{} of {} unseen sums are exactly right ({:.1f} %)\n", right, count,
                      share * 100.0);
  }
  return share >= at_least_ ? kDone : kDiffers;
}

}  // namespace

std::unique_ptr<Verb> make_addition() { return std::make_unique<Addition>(); }

}  // namespace prenorm::cli
