#!/usr/bin/env python3
"""Hugging Face's GPT-2 in PyTorch beside `prenorm bench generate`: a random model of the 124M shape
reads a prompt and decodes greedily with its cache. Prints one JSON object. Needs PyTorch and
transformers."""
import argparse
import json
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--sequences", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10)
    a = parser.parse_args()
    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(0)
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
