"""How fast PyTorch answers and learns: the other side of `figures_of_decoding` and `figures_of_training`.

    python torch_figures.py decode|train small|qwen3-0.6b DEVICE f32|tf32 ROUNDS

One line per round, in the words of the other side. Round 0 is not for medians. Eager mode. `f32` multiplies with 24 bits of mantissa, `tf32`
with 11, as tensor cores do; everything else is f32 in both. The network is that of bench.py.
"""

import json
import sys
import time

import bench

SHAPES = {
    "small": dict(vocabulary=4096, width=384, layers=6, heads=6, shared=2, head=64, mlp=1024),
    "qwen3-0.6b": dict(vocabulary=151_936, width=1024, layers=28, heads=16, shared=8, head=128, mlp=3072),
}
PROMPT, ANSWER = 32, 64
TEXTS, LENGTH = 8, 256


def rounds_of(torch, device, count, run):
    """Seconds of each round: what the device has been told is waited for."""
    for round in range(count + 1):
        wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
        wait()
        start = time.perf_counter()
        run()
        wait()
        yield round, time.perf_counter() - start


def decode(torch, model, vocabulary, batch):
    next = (torch.arange(PROMPT)[None] * 97 % vocabulary).expand(batch, PROMPT)
    with torch.no_grad():
        caches = model.cache(batch, PROMPT + ANSWER)
        for _ in range(ANSWER):
            next = (model.hidden(next, caches)[:, -1] @ model.embedding.T).argmax(-1, keepdim=True)
    return next.tolist()


def train_step(torch, model, optimizer, vocabulary):
    tokens = (torch.arange(LENGTH)[None] * 97 + torch.arange(TEXTS)[:, None] * 1009) % vocabulary
    logits = model.hidden(tokens)[:, :-1] @ model.embedding.T
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, vocabulary), tokens[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def main(figure, name, device, precision, count):
    import torch

    torch.manual_seed(1)
    torch.set_default_device(device)
    torch.set_float32_matmul_precision({"f32": "highest", "tf32": "high"}[precision])
    shape = SHAPES[name]
    model, vocabulary = bench.network(torch, **shape), shape["vocabulary"]
    if figure == "decode":
        runs = [(batch, batch * ANSWER, lambda batch=batch: decode(torch, model, vocabulary, batch)) for batch in (1, 16)]
    else:
        optimizer = torch.optim.AdamW(model.parameters(), 1e-4, betas=(0.9, 0.95), weight_decay=0)
        runs = [(TEXTS, TEXTS * LENGTH, lambda: train_step(torch, model, optimizer, vocabulary))]
    for batch, tokens, run in runs:
        for round, seconds in rounds_of(torch, device, count, run):
            line = {"figure": figure, "model": name, "batch": batch, "round": round, "tokens": tokens, "seconds": seconds}
            print("figure:", json.dumps(line), flush=True)


if __name__ == "__main__":
    figure, name, device, precision, count = sys.argv[1:]
    main(figure, name, device, precision, int(count))
