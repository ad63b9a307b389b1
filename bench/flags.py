"""The flags that the peers' sides of the benchmarks share with `prenorm bench`."""
import argparse


def parser_of(doc, **counts):
    """--threads and --seconds, and a whole number for each of `counts` with its default."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    for name, value in (*counts.items(), ("threads", 0)):
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    parser.add_argument("--seconds", type=float, default=10)
    return parser


def arguments(parser):
    """What was given; PyTorch has the threads and a seed afterwards."""
    import torch  # not every peer has it
    a = parser.parse_args()
    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    return a
