// `prenorm tokenize --train`: learns a byte-level BPE and writes it where AutoTokenizer finds it.
#pragma once
#include <string>
#include <vector>

#include "prenorm/base/index.h"
#include "prenorm/cli/verb.h"

namespace prenorm::cli {

struct TokenizeTraining {
  std::vector<std::string> files;  // "-" is standard input
  std::string out_dir;
  Index vocab_size = 50257;
  Index min_frequency = 1;
  bool special = false;  // <|endoftext|> in the text ends a document instead of being text
  bool force = false;    // also over a tokenizer that is there
  bool json = false;
};

// Tells of its progress on streams.log. Returns an exit code. Throws ConfigError, IoError,
// DataError.
int train_tokenizer(const TokenizeTraining& options, const Streams& streams);

}  // namespace prenorm::cli
