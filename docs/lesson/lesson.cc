// The functions that the lesson page calls in its WebAssembly module. Text and numbers go in
// through two buffers, results come out as a list of named tensors; there is one caller at a time.
// Built by build.py; the same file compiles natively, and tests/python/test_lesson.py compares the
// two.
#include "docs/lesson/lesson.h"

// A function of the page's: its name in the module, and in a shared library, is its name here.
#ifdef __wasm__
#define LESSON_EXPORT(type, name) extern "C" __attribute__((export_name(#name))) type name
#else
#define LESSON_EXPORT(type, name) extern "C" type name
#endif

namespace prenorm::lesson {
namespace {

// What lies between two calls.
struct Desk {
  std::vector<char> text;
  std::vector<double> numbers;
  ModelRun run;
  Results results;

  std::string_view text_in() const { return {text.data(), text.size()}; }
  // The next numbers of the buffer as a tensor.
  Tensor<double> take(std::vector<Index> shape, std::size_t& next) const {
    Tensor<double> out(std::move(shape));
    for (double& element : out) element = numbers.at(next++);
    return out;
  }
};

Desk& desk() {
  static Desk the_desk;
  return the_desk;
}

int keep(Results results) {
  desk().results = std::move(results);
  return static_cast<int>(desk().results.entries().size());
}

const Results::Entry& result(int i) {
  return desk().results.entries().at(static_cast<std::size_t>(i));
}
const reference::Mistake& mistake(int i) {
  return reference::mistakes()[static_cast<std::size_t>(i)];
}

// "name\nwhere\ntext": the parts of a mistake that are text.
reference::MistakeChoice choice_of(std::string_view lines) {
  const auto next = [&lines] {
    const std::string line(lines.substr(0, lines.find('\n')));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    return line;
  };
  reference::MistakeChoice choice;
  choice.name = next();
  choice.where = next();
  choice.text = next();
  return choice;
}

// Numbers that count tokens. Throws ConfigError.
void check_number(const reference::MistakeChoice& choice) {
  const double least = choice.name == "position.offset" ? 0.0 : -kContext;
  const bool counts = choice.name == "position.offset" || choice.name == "attention.mask-shifted";
  const double n = choice.number.value_or(1.0);
  if (counts && !(n >= least && n <= kContext && n == std::floor(n))) {
    throw ConfigError(choice.name + ": expected a whole number from " +
                      std::to_string(static_cast<int>(least)) + " to " + std::to_string(kContext) +
                      ", found another number");
  }
}

}  // namespace

// --- Buffers: the caller writes here before a call ----------------------------------------------

LESSON_EXPORT(char*, lesson_text)(int bytes) {
  desk().text.assign(static_cast<std::size_t>(bytes), 0);
  return desk().text.data();
}
LESSON_EXPORT(double*, lesson_numbers)(int count) {
  desk().numbers.assign(static_cast<std::size_t>(count), 0.0);
  return desk().numbers.data();
}

// --- Results of the last call; each function that computes returns how many ---------------------

LESSON_EXPORT(const char*, lesson_result_name)(int i) { return result(i).first.c_str(); }
LESSON_EXPORT(int, lesson_result_rows)(int i) { return static_cast<int>(result(i).second.rows()); }
LESSON_EXPORT(int, lesson_result_columns)(int i) {
  return static_cast<int>(result(i).second.columns());
}
LESSON_EXPORT(const double*, lesson_result_values)(int i) {
  return result(i).second.values().data();
}

// --- The table of mistakes; strings end in a zero -----------------------------------------------

LESSON_EXPORT(int, lesson_mistake_count)() {
  return static_cast<int>(reference::mistakes().size());
}
LESSON_EXPORT(const char*, lesson_mistake_name)(int i) { return mistake(i).name.data(); }
LESSON_EXPORT(const char*, lesson_mistake_says)(int i) { return mistake(i).says.data(); }
// 0: nothing is given beside the name, 1: a number, 2: a packing such as kqv, 3: a module.
LESSON_EXPORT(int, lesson_mistake_value)(int i) { return static_cast<int>(mistake(i).value); }
// Bits: 1, it may be made in one norm; 2, in one block.
LESSON_EXPORT(int, lesson_mistake_places)(int i) {
  return (mistake(i).in_norm != nullptr ? 1 : 0) +
         (mistake(i).in_norm != nullptr || mistake(i).in_block != nullptr ? 2 : 0);
}

// --- What is computed ---------------------------------------------------------------------------

// Settings of the next run, with no mistake and the sub-layers at full strength.
LESSON_EXPORT(void, lesson_begin)(int post_norm, int activation, int tied, double eps) {
  desk().run = {};
  reference::GptSettings& settings = desk().run.settings;
  settings.norm = post_norm != 0 ? reference::NormPlacement::kPost : reference::NormPlacement::kPre;
  settings.activation = static_cast<reference::Activation>(activation);
  settings.tied = tied != 0;
  settings.eps = eps;
}

// The mistake of the text buffer, "name\nwhere\ntext", with a number where `has_number` is not 0.
LESSON_EXPORT(void, lesson_add_mistake)(int has_number, double number) {
  reference::MistakeChoice choice = choice_of(desk().text_in());
  if (has_number != 0) choice.number = number;
  reference::find_mistake(choice.name);  // throws for an unknown one
  check_number(choice);
  desk().run.mistakes.push_back(std::move(choice));
}

// The model's stages for the letters of the text buffer.
LESSON_EXPORT(int, lesson_model)(double strength) {
  desk().run.strength = strength;
  return keep(model_stages(small_model(), desk().text_in(), desk().run));
}

// Every parameter of the model, by name.
LESSON_EXPORT(int, lesson_parameters)() {
  Results out;
  for (const auto& [name, tensor] : reference::to_map(small_model())) out.set(name, tensor);
  return keep(std::move(out));
}

// Layer norm of the buffer's numbers: x [rows, columns], γ [columns], β [columns].
LESSON_EXPORT(int, lesson_layer_norm)(int rows, int columns) {
  std::size_t next = 0;
  const Tensor<double> x = desk().take({rows, columns}, next);
  const Tensor<double> weight = desk().take({columns}, next);
  const Tensor<double> bias = desk().take({columns}, next);
  reference::GptOptions options = reference::gpt_options(desk().run.settings);
  for (const auto& choice : desk().run.mistakes) reference::make_mistake(options, choice);
  return keep(layer_norm_steps(x, {weight, bias}, options.ln_f));
}

LESSON_EXPORT(int, lesson_growth)(int depth, double gain) {
  return keep(growth_by_depth({.depth = depth, .gain = gain}));
}

}  // namespace prenorm::lesson
