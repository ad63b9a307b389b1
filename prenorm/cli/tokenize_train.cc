#include "prenorm/cli/tokenize_train.h"

#include <chrono>
#include <iostream>
#include <utility>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/json.h"
#include "prenorm/base/utf8.h"
#include "prenorm/cli/format.h"
#include "prenorm/cli/interrupt.h"
#include "prenorm/text/bpe_tokenizer.h"
#include "prenorm/text/bpe_trainer.h"

namespace prenorm::cli {
namespace {

constexpr std::string_view kEndOfText = "<|endoftext|>";

void check(const TokenizeTraining& options) {
  if (options.out_dir.empty()) throw ConfigError("--out-dir: expected a folder, found none");
  if (!options.force && has_tokenizer(options.out_dir)) {
    throw ConfigError(
        "--out-dir: expected a folder without a tokenizer, or --force, found one in '" +
        printable(options.out_dir) + "'");
  }
}

void add(BpeTrainer& trainer, std::string_view text, bool special) {
  while (special) {
    const std::size_t end = text.find(kEndOfText);
    if (end == std::string_view::npos) break;
    trainer.add(text.substr(0, end));
    text.remove_prefix(end + kEndOfText.size());
  }
  trainer.add(text);
}

}  // namespace

int train_tokenizer(const TokenizeTraining& options, const Streams& streams) {
  check(options);
  BpeTrainer trainer({.vocab_size = options.vocab_size, .min_frequency = options.min_frequency});
  ensure_directory(options.out_dir);
  const InterruptGuard interrupt;
  std::size_t bytes = 0;
  for (const std::string& path : options.files) {
    const std::string text =
        path == "-" ? read_stream(std::cin, "standard input") : read_file(path);
    bytes += text.size();
    add(trainer, text, options.special);
  }
  if (bytes == 0) throw DataError("--data: expected a text to learn from, found an empty one");
  StatusLine status(streams.log);
  const BpeTraining trained = trainer.train([&](Index size) {
    status.show_after(std::chrono::seconds(1), [&] {
      return fmt::format("{}/{} tokens", grouped(size), grouped(options.vocab_size));
    });
    return !interrupt.requested();
  });
  status.finish();
  if (trained.interrupted) return interrupt.exit_code();
  const BpeTokenizer tokenizer(trained.model);
  if (tokenizer.vocab_size() < options.vocab_size) {
    streams.log.print("notice: the text has no more to merge after {} tokens\n",
                      grouped(tokenizer.vocab_size()));
  }
  tokenizer.save(options.out_dir);
  if (options.json) {
    streams.out.write(dump_json_compact({{"out_dir", options.out_dir},
                                         {"vocab_size", tokenizer.vocab_size()},
                                         {"merges", trained.model.merges.size()},
                                         {"bytes", bytes}}) +
                      "\n");
  } else {
    streams.out.print("{}: {} tokens, {} merges, from {} of text\n", printable(options.out_dir),
                      grouped(tokenizer.vocab_size()),
                      grouped(static_cast<Index>(trained.model.merges.size())), bytes_text(bytes));
  }
  return kDone;
}

}  // namespace prenorm::cli
