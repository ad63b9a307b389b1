#!/usr/bin/env python3
"""CTranslate2's GPT-2 beside `prenorm bench generate`: a model folder of its own format reads a
prompt and decodes greedily. Prints one JSON object. Needs ctranslate2 and numpy; the folder is made
by `ct2-transformers-converter --model GPT2 --output_dir FOLDER`."""
import json
import pathlib
import time

import ctranslate2
import numpy
from flags import parser_of


def main():
    parser = parser_of(__doc__, prompt_tokens=512, tokens=64, sequences=1)
    parser.add_argument("folder", type=pathlib.Path)
    a = parser.parse_args()
    model = ctranslate2.Generator(str(a.folder), device="cpu", compute_type="float32",
                                  intra_threads=a.threads)
    vocabulary = json.loads((a.folder / "vocabulary.json").read_text(encoding="utf-8"))
    ids = numpy.random.default_rng(0).integers(0, 50256, (a.sequences, a.prompt_tokens))
    prompts = [[vocabulary[i] for i in row] for row in ids]

    def seconds(tokens):
        start = time.perf_counter()
        out = model.generate_batch(prompts, max_batch_size=a.sequences, sampling_topk=1,
                                   min_length=tokens, max_length=tokens,
                                   include_prompt_in_result=False)
        assert all(len(r.sequences_ids[0]) == tokens for r in out)
        return time.perf_counter() - start

    first, all_of_them, begin = [], [], time.perf_counter()
    while time.perf_counter() - begin < a.seconds or len(first) < 2:
        first.append(seconds(1))
        all_of_them.append(seconds(1 + a.tokens))
    print(json.dumps({
        "prompt_tokens_per_second": a.sequences * a.prompt_tokens / min(first),
        "decode_tokens_per_second": a.sequences * a.tokens / (min(all_of_them) - min(first)),
    }))


if __name__ == "__main__":
    main()
