"""Answering and learning on this processor: clawhost beside PyTorch, in turns.

    cargo bench -p clawhost-model --bench training --profile dev --no-run
    python tests/torch/bench.py <the program it names> [rounds]

Needs PyTorch (its build for processors is enough). Both sides have the same shapes, the same number of threads (PyTorch's own
choice, one per core) and f32; each part runs in a process of its own, the two sides one after the other, `rounds` times. Printed are
medians of rounds and their ratio: above 1 clawhost is faster, or takes less.
"""

import json
import math
import resource
import statistics
import subprocess
import sys
import time

GAMES, TURNS = 512, 6


def network(torch, vocabulary, width, layers, heads, shared, head, mlp):
    """A Qwen3 decoder as one would write it by hand; weights in a dictionary."""
    nn, F = torch.nn, torch.nn.functional

    def weight(*shape):
        return nn.Parameter(torch.randn(*shape) * 0.02)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))
            self.qn, self.kn = nn.Parameter(torch.ones(head)), nn.Parameter(torch.ones(head))
            self.q, self.k, self.v = weight(heads * head, width), weight(shared * head, width), weight(shared * head, width)
            self.o = weight(width, heads * head)
            self.gate, self.up, self.down = weight(mlp, width), weight(mlp, width), weight(width, mlp)

        def forward(self, x, cos, sin, cache):
            n, length, _ = x.shape
            y = F.rms_norm(x, (width,), self.norm1, 1e-6)
            q = F.rms_norm(F.linear(y, self.q).view(n, length, heads, head), (head,), self.qn, 1e-6).transpose(1, 2)
            k = F.rms_norm(F.linear(y, self.k).view(n, length, shared, head), (head,), self.kn, 1e-6).transpose(1, 2)
            v = F.linear(y, self.v).view(n, length, shared, head).transpose(1, 2)
            q, k = turn(q, cos, sin), turn(k, cos, sin)
            start = 0
            if cache is not None:
                start = cache[2]
                cache[0][:, :, start : start + length] = k
                cache[1][:, :, start : start + length] = v
                cache[2] = start + length
                k, v = cache[0][:, :, : start + length], cache[1][:, :, : start + length]
            causal = length > 1 and start == 0
            mask = None
            if length > 1 and start > 0:
                mask = torch.ones(length, start + length, dtype=torch.bool).tril(start)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=heads != shared)
            x = x + F.linear(y.transpose(1, 2).reshape(n, length, heads * head), self.o)
            y = F.rms_norm(x, (width,), self.norm2, 1e-6)
            return x + F.linear(F.silu(F.linear(y, self.gate)) * F.linear(y, self.up), self.down)

    def turn(x, cos, sin):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.norm = weight(vocabulary, width), nn.Parameter(torch.ones(width))
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            angles = torch.arange(512)[:, None] * 10000.0 ** (-torch.arange(head // 2) * 2.0 / head)
            self.cos, self.sin = angles.cos(), angles.sin()

        def cache(self, n, length):
            return [[torch.empty(n, shared, length, head), torch.empty(n, shared, length, head), 0] for _ in self.blocks]

        def hidden(self, tokens, caches=None):
            start = caches[0][2] if caches else 0
            place = slice(start, start + tokens.shape[1])
            x = self.embedding[tokens]
            for number, block in enumerate(self.blocks):
                x = block(x, self.cos[place], self.sin[place], caches[number] if caches else None)
            return F.rms_norm(x, (width,), self.norm, 1e-6)

    return Model()


def tiny(torch):
    return network(torch, 16, 64, 2, 4, 4, 16, 170)


def larger(torch):
    return network(torch, 4096, 384, 6, 6, 2, 64, 1024)


class Muon:
    """Muon for matrices inside, matrices of one shape at once; AdamW for the rest."""

    def __init__(self, torch, model, rate):
        self.torch, self.rate = torch, rate
        inside = [p for p in model.blocks.parameters() if p.ndim == 2]
        known = {id(p) for p in inside}
        self.rest = torch.optim.AdamW([p for p in model.parameters() if id(p) not in known], rate, betas=(0.9, 0.95), weight_decay=0)
        self.shapes = {}
        for p in inside:
            self.shapes.setdefault(tuple(p.shape), []).append(p)
        self.momentum = {shape: torch.zeros(len(all), *shape) for shape, all in self.shapes.items()}

    def step(self):
        torch = self.torch
        self.rest.step()
        for shape, all in self.shapes.items():
            slope = torch.stack([p.grad for p in all])
            momentum = self.momentum[shape].mul_(0.95).add_(slope)
            x = slope + 0.95 * momentum
            upright = shape[0] > shape[1]
            x = x.transpose(1, 2) if upright else x
            x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
            for _ in range(5):
                square = x @ x.transpose(1, 2)
                x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
            x = x.transpose(1, 2) if upright else x
            for p, way in zip(all, x):
                p.sub_(way, alpha=2 * self.rate * math.sqrt(max(1, shape[0] / shape[1])))


def grpo(torch):
    F = torch.nn.functional
    model = tiny(torch)
    optimizer = Muon(torch, model, 1e-3)
    length = 2 + 5 * TURNS
    mask = torch.zeros(GAMES, length, dtype=torch.bool)
    for turn in range(TURNS):
        mask[:, 2 + 5 * turn : 5 + 5 * turn] = True
    advantage = torch.where((torch.arange(GAMES) * 7 + 3) % 16 < 8, 1.0, -1.0)[:, None]
    times = []
    for _ in range(16):
        start = time.perf_counter()
        with torch.no_grad():
            caches = model.cache(GAMES, length)
            tokens = torch.stack((torch.ones(GAMES, dtype=torch.long), torch.arange(GAMES) % 16), 1)
            old, next = [], tokens
            for _ in range(TURNS):
                for written in range(3):
                    logits = model.hidden(next, caches)[:, -1] @ model.embedding.T
                    shares = F.log_softmax(logits, -1)
                    next = torch.multinomial(shares.exp(), 1)
                    old.append(shares.gather(1, next))
                    tokens = torch.cat((tokens, next), 1)
                answer = torch.tensor([[2, 3]]).expand(GAMES, 2)
                tokens = torch.cat((tokens, answer), 1)
                next = torch.cat((next, answer), 1)
            old = torch.cat(old, 1)
        logits = model.hidden(tokens)[:, :-1] @ model.embedding.T
        new = F.log_softmax(logits, -1).gather(2, tokens[:, 1:, None])[..., 0][mask[:, 1:]].view(GAMES, -1)
        ratio = (new - old).exp()
        loss = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.28) * advantage).mean()
        for p in model.parameters():
            p.grad = None
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with torch.no_grad():
            optimizer.step()
        times.append((time.perf_counter() - start) * 1e3)
    return {"ms": statistics.median(times[1:])}


def train(torch):
    F = torch.nn.functional
    model = larger(torch)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, betas=(0.9, 0.95), weight_decay=0)
    tokens = (torch.arange(256)[None] * 97 + torch.arange(8)[:, None] * 1009) % 4096
    times = []
    for _ in range(6):
        start = time.perf_counter()
        logits = model.hidden(tokens)[:, :-1] @ model.embedding.T
        loss = F.cross_entropy(logits.reshape(-1, 4096), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"tokens": 2048 / statistics.median(times[1:]), "peak": peak}


def decode(torch):
    model = larger(torch)

    def speed(batch):
        times = []
        for _ in range(6):
            next = (torch.arange(32)[None] * 97 % 4096).expand(batch, 32)
            start = time.perf_counter()
            with torch.no_grad():
                caches = model.cache(batch, 96)
                for _ in range(64):
                    next = (model.hidden(next, caches)[:, -1] @ model.embedding.T).argmax(-1, keepdim=True)
            times.append(time.perf_counter() - start)
        return batch * 64 / statistics.median(times[1:])

    return {"alone": speed(1), "sixteen": speed(16)}


PARTS = {"grpo": grpo, "train": train, "decode": decode}
ROWS = [
    ("GRPO step, 99 k weights, 512 games of 6 turns, ms", "grpo", "ms", False),
    ("training, 11 M weights, 8 x 256, tokens/s", "train", "tokens", True),
    ("training, 11 M weights, peak of memory, MiB", "train", "peak", False),
    ("decoding, 11 M weights, batch 1, tokens/s", "decode", "alone", True),
    ("decoding, 11 M weights, batch 16, tokens/s", "decode", "sixteen", True),
]


def main():
    if sys.argv[1] == "--part":
        import torch

        print(json.dumps(PARTS[sys.argv[2]](torch)))
        return
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    found = {}
    for _ in range(rounds):
        for part in PARTS:
            sides = {"clawhost": [program, part], "torch": [sys.executable, __file__, "--part", part]}
            for side, command in sides.items():
                answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                print(side, part, answer, file=sys.stderr)
                for name, value in answer.items():
                    found.setdefault((side, part, name), []).append(value)
    print("| what | clawhost | PyTorch | times as good |\n|---|---|---|---|")
    for title, part, name, more in ROWS:
        ours, theirs = (statistics.median(found[side, part, name]) for side in ("clawhost", "torch"))
        print(f"| {title} | {ours:,.0f} | {theirs:,.0f} | {(ours / theirs) if more else (theirs / ours):.2f} |")


if __name__ == "__main__":
    main()
