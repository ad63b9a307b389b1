#include "prenorm/cli/verb.h"

#include <array>

#include "prenorm/cli/addition.h"
#include "prenorm/cli/apply.h"
#include "prenorm/cli/bench.h"
#include "prenorm/cli/check.h"
#include "prenorm/cli/convert.h"
#include "prenorm/cli/diagnose.h"
#include "prenorm/cli/diff.h"
#include "prenorm/cli/embed.h"
#include "prenorm/cli/eval.h"
#include "prenorm/cli/fingerprint.h"
#include "prenorm/cli/generate.h"
#include "prenorm/cli/growth.h"
#include "prenorm/cli/inspect.h"
#include "prenorm/cli/lesson.h"
#include "prenorm/cli/tokenize.h"
#include "prenorm/cli/train.h"

namespace prenorm::cli {

std::span<const VerbEntry> all_verbs() {
  static constexpr std::array kVerbs = {
      VerbEntry{"train", "trains a model on text, or goes on with a run",
                "prenorm train FILE… [flags]",
                "prenorm train notes.txt --out-dir run --max-iters 1000", make_train},
      VerbEntry{"generate", "continues a text, or many", "prenorm generate -m DIR -p TEXT [flags]",
                "prenorm generate -m run -p \"Once upon a time\" -n 200", make_generate},
      VerbEntry{"eval", "measures how well a model predicts a text",
                "prenorm eval -m DIR FILE… [flags]", "prenorm eval -m run held-out.txt --json",
                make_eval},
      VerbEntry{"embed", "turns texts into vectors, one a line",
                "prenorm embed -m DIR [FILE…] [flags]",
                "prenorm embed -m all-MiniLM-L6-v2 sentences.txt --json", make_embed},
      VerbEntry{"apply", "applies a layer, block or model to tensors from files, with gradients",
                "prenorm apply LAYER --params FILE --input FILE --output FILE [flags]",
                "prenorm apply block --params block.safetensors --heads 4 --input x.safetensors "
                "--output y.safetensors",
                make_apply},
      VerbEntry{"inspect", "shows what a model folder or a safetensors file holds",
                "prenorm inspect PATH [flags]", "prenorm inspect run", make_inspect},
      VerbEntry{"check", "measures on a model the properties that a Transformer has",
                "prenorm check DIR [flags]", "prenorm check run", make_check},
      VerbEntry{"growth", "shows how large activations and gradients are at each depth",
                "prenorm growth [-m DIR FILE…] [--train] [flags]",
                "prenorm growth --n-layer 24 --html growth.html", make_growth},
      VerbEntry{"convert", "turns a model into another layout or floating-point type",
                "prenorm convert PATH --out-dir DIR [flags]",
                "prenorm convert out/ckpt.pt --out-dir run", make_convert},
      VerbEntry{"diff", "tells what differs between two checkpoints",
                "prenorm diff PATH PATH [flags]", "prenorm diff run1 run2 --tolerance 1e-6",
                make_diff},
      VerbEntry{"diagnose", "names the mistake in code whose numbers differ from the model's",
                "prenorm diagnose -m DIR --input FILE --theirs FILE [flags]",
                "prenorm diagnose -m run --input x.safetensors --theirs dump.safetensors",
                make_diagnose},
      VerbEntry{"tokenize", "turns text into token ids, and back; learns a tokenizer",
                "prenorm tokenize --tokenizer NAME [FILE…] [flags]",
                "prenorm tokenize --tokenizer gpt2:gpt2 notes.txt --json", make_tokenize},
      VerbEntry{"addition", "writes addition problems to train on, and grades the model",
                "prenorm addition --write DIR | --grade RUN --data FILE [flags]",
                "prenorm addition --write sums && prenorm train sums/train.txt --out-dir run && "
                "prenorm addition --grade run --data sums/heldout.txt",
                make_addition},
      VerbEntry{"bench", "measures this machine and how close training comes to its limits",
                "prenorm bench train|matmul|limits [flags]",
                "prenorm bench train --n-layer 4 --n-head 4 --n-embd 128 --block-size 64 "
                "--batch-size 12 --vocab-size 65",
                make_bench},
      VerbEntry{"fingerprint", "checks that this machine gives the bits that every machine gives",
                "prenorm fingerprint [flags]", "prenorm fingerprint --threads 3", make_fingerprint},
      VerbEntry{"lesson", "writes a page that shows how the block works, and breaks",
                "prenorm lesson -o FILE [flags]", "prenorm lesson -o lesson.html", make_lesson},
  };
  return kVerbs;
}

}  // namespace prenorm::cli
