#!/usr/bin/env python3
"""Hugging Face's GPT-2 in PyTorch beside `prenorm bench generate`: a random model of the 124M shape
reads a prompt and decodes greedily with its cache. Prints one JSON object. Needs PyTorch and
transformers."""
import json
import time

import torch
from flags import arguments, parser_of
from transformers import GPT2Config, GPT2LMHeadModel


def main():
    a = arguments(parser_of(__doc__, prompt_tokens=512, tokens=64, sequences=1))
    model = GPT2LMHeadModel(GPT2Config()).eval()
    prompt = torch.randint(50257, (a.sequences, a.prompt_tokens))
    prompts, decodes, begin = [], [], time.perf_counter()
    with torch.inference_mode():
        while time.perf_counter() - begin < a.seconds or len(prompts) < 2:
            start = time.perf_counter()
            out = model(prompt, use_cache=True, logits_to_keep=1)
            prompts.append(time.perf_counter() - start)
            start = time.perf_counter()
            for _ in range(a.tokens):
                out = model(out.logits[:, -1:].argmax(-1), past_key_values=out.past_key_values,
                            use_cache=True)
            decodes.append(time.perf_counter() - start)
    print(json.dumps({
        "prompt_tokens_per_second": a.sequences * a.prompt_tokens / min(prompts),
        "decode_tokens_per_second": a.sequences * a.tokens / min(decodes),
    }))


if __name__ == "__main__":
    main()
