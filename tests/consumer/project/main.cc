// Trains a small GPT for three steps and lets it write: the README's first program.
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "prenorm/generate/generator.h"
#include "prenorm/model/checkpoint.h"
#include "prenorm/text/byte_tokenizer.h"
#include "prenorm/train/trainer.h"

int main() {
  std::string text;
  while (text.size() < 2000) text += "to be, or not to be: that is the question. ";

  const prenorm::ByteTokenizer tokenizer;
  const std::vector<prenorm::TokenId> tokens = tokenizer.encode(text);
  const std::span all(tokens);
  prenorm::Runtime run;  // all cores, the fastest instruction set
  prenorm::Gpt model(
      {.vocab_size = 256, .block_size = 64, .n_layer = 2, .n_head = 4, .n_embd = 64});
  model.initialize(1);
  prenorm::Trainer trainer(run, model, {.train = all.first(1800), .validation = all.subspan(1800)},
                           {.max_iters = 3});
  trainer.train();
  prenorm::save_pretrained(model, "run");
  const auto prompt = tokenizer.encode("to be");
  const prenorm::GenerateRequest request{.prompt = prompt, .stream = {.seed = 1}};
  const auto result = prenorm::generate(run, model, {&request, 1}, {.max_new_tokens = 40});
  std::cout << tokenizer.decode(result[0].ids) << '\n';
  return result[0].ids.size() == 40 ? 0 : 1;
}
