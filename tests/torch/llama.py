"""Loading and answering of a model with 0.6 B weights on this processor: clawhost beside llama.cpp and PyTorch, in turns.

    pip install gguf numpy torch
    CMAKE_ARGS=-DGGML_NATIVE=ON pip install --no-binary llama-cpp-python llama-cpp-python
    cargo bench -p clawhost-model --bench inference --no-run
    python tests/torch/llama.py <the program that it names> FOLDER [rounds]

FOLDER gets the model once: random weights in the shape of Qwen3 0.6B, as Q8_0. clawhost and llama.cpp read the same file, and take the same prompt with the
same number of threads; llama.cpp's evaluation is timed without Python's sampling. PyTorch computes the same shape in f32, eager. Each part runs in a process of its own, one after the
other, `rounds` times. Printed are medians and ratios: above 1 clawhost is faster.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

VOCABULARY, WIDTH, LAYERS, HEADS, SHARED, HEAD, MLP = 151_936, 1024, 28, 16, 8, 128, 3072
PROMPT, SHORT, ANSWER, BATCH = 512, 32, 64, 16
THREADS = len(os.sched_getaffinity(0))


def make(path):
    import gguf
    import numpy as np

    random = np.random.default_rng(7)
    out = gguf.GGUFWriter(str(path), "qwen3")
    out.add_context_length(4096)
    out.add_embedding_length(WIDTH)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(MLP)
    out.add_head_count(HEADS)
    out.add_head_count_kv(SHARED)
    out.add_key_length(HEAD)
    out.add_value_length(HEAD)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_rope_freq_base(1e6)
    out.add_vocab_size(VOCABULARY)
    # A byte is a printable character: those that are none, and the space, are moved up, one after the other.
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = [byte for byte in range(256) if byte not in plain]
    bytes_of = [chr(byte) if byte in plain else chr(256 + moved.index(byte)) for byte in range(256)]
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("qwen2")
    out.add_token_list(bytes_of + ["ab"] + [f"[unused {number}]" for number in range(VOCABULARY - 257)])
    out.add_token_types([1] * 257 + [5] * (VOCABULARY - 257))
    out.add_token_merges(["a b"])
    out.add_eos_token_id(VOCABULARY - 1)

    def matrix(name, rows, columns):
        values = random.standard_normal((rows, columns), dtype=np.float32) * 0.02
        form = gguf.GGMLQuantizationType.Q8_0
        out.add_tensor(name, gguf.quants.quantize(values, form), raw_dtype=form)

    def ones(name, length):
        out.add_tensor(name, np.ones(length, dtype=np.float32))

    matrix("token_embd.weight", VOCABULARY, WIDTH)
    ones("output_norm.weight", WIDTH)
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        ones(f"{block}.attn_norm.weight", WIDTH)
        ones(f"{block}.ffn_norm.weight", WIDTH)
        ones(f"{block}.attn_q_norm.weight", HEAD)
        ones(f"{block}.attn_k_norm.weight", HEAD)
        matrix(f"{block}.attn_q.weight", HEADS * HEAD, WIDTH)
        matrix(f"{block}.attn_k.weight", SHARED * HEAD, WIDTH)
        matrix(f"{block}.attn_v.weight", SHARED * HEAD, WIDTH)
        matrix(f"{block}.attn_output.weight", WIDTH, HEADS * HEAD)
        matrix(f"{block}.ffn_gate.weight", MLP, WIDTH)
        matrix(f"{block}.ffn_up.weight", MLP, WIDTH)
        matrix(f"{block}.ffn_down.weight", WIDTH, MLP)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def text(length, salt):
    return [(place * 7919 + salt * 104_729 + 13) % 300 for place in range(length)]


def llama(path, part):
    from llama_cpp import Llama

    start = time.perf_counter()
    model = Llama(str(path), n_ctx=1024, n_batch=512, n_threads=THREADS, n_threads_batch=THREADS, verbose=False)
    load = time.perf_counter() - start

    def evaluated(tokens):
        start = time.perf_counter()
        model.eval(tokens)
        return time.perf_counter() - start

    if part == "load":
        evaluated([5])
        return {"load_s": load}
    if part == "prefill":
        times = []
        for _ in range(3):
            model.reset()
            times.append(evaluated(text(PROMPT, 1)))
        return {"tokens_per_s": PROMPT / min(times)}
    evaluated(text(SHORT, 2))
    evaluated([5])
    return {"tokens_per_s": 1 / statistics.median(evaluated([token]) for token in text(ANSWER, 3))}


def torch_batch():
    import torch
    from bench import network

    torch.set_grad_enabled(False)
    torch.set_num_threads(THREADS)
    model = network(torch, VOCABULARY, WIDTH, LAYERS, HEADS, SHARED, HEAD, MLP)
    caches = model.cache(BATCH, SHORT + ANSWER)
    step = lambda tokens: (model.hidden(tokens, caches)[:, -1] @ model.embedding.T).argmax(-1, keepdim=True) % 300
    next = step(torch.tensor([text(SHORT, salt) for salt in range(BATCH)]))
    start = time.perf_counter()
    for _ in range(ANSWER // 4):
        next = step(next)
    return {"tokens_per_s": BATCH * (ANSWER // 4) / (time.perf_counter() - start)}


def child(*arguments):
    run = subprocess.run([sys.executable, __file__, *map(str, arguments)], capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def main():
    if sys.argv[1] == "part":
        what = sys.argv[2]
        return print(json.dumps(torch_batch() if what == "torch" else llama(sys.argv[3], what)))
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "qwen3-0.6b-q8_0.gguf"
    if not path.exists():
        make(path)
    found = {}

    def note(name, value):
        found.setdefault(name, []).append(value)

    for _ in range(rounds):
        for what in ("word", "decode", "prefill", "batch", "copy"):
            run = subprocess.run([program, str(path), "stored", what], capture_output=True, text=True, check=True)
            told = json.loads(run.stdout.splitlines()[-1])
            for key in ("tokens_per_s", "gb_per_s", "load_s", "peak_share", "peak_mib"):
                if key in told:
                    note(("clawhost", what, key), told[key])
        note(("llama.cpp", "word", "load_s"), child("part", "load", path)["load_s"])
        for what in ("decode", "prefill"):
            note(("llama.cpp", what, "tokens_per_s"), child("part", what, path)["tokens_per_s"])
        note(("PyTorch", "batch", "tokens_per_s"), child("part", "torch")["tokens_per_s"])
    middle = {key: statistics.median(values) for key, values in found.items()}
    print(f"{THREADS} threads, medians of {rounds} rounds\n\n| what | clawhost | peer | times as good |\n|---|---|---|---|")
    for title, what, peer in (("decoding, batch 1, tokens/s", "decode", "llama.cpp"), ("prompt of 512, tokens/s", "prefill", "llama.cpp"), ("decoding, batch 16, tokens/s", "batch", "PyTorch")):
        ours, theirs = (middle[side, what, "tokens_per_s"] for side in ("clawhost", peer))
        print(f"| {title} | {ours:.1f} | {theirs:.1f} ({peer}) | {ours / theirs:.2f} |")
    ours, theirs = (middle[side, "word", "load_s"] for side in ("clawhost", "llama.cpp"))
    print(f"| loading, s | {ours:.2f} | {theirs:.2f} (llama.cpp, mapped) | {theirs / ours:.2f} |")
    share = middle["clawhost", "decode", "gb_per_s"] / middle["clawhost", "copy", "gb_per_s"]
    print(f"\nweights read while decoding: {middle['clawhost', 'decode', 'gb_per_s']:.1f} GB/s, {share:.0%} of what a plain sum of as many bytes reads")
    print(f"peak memory for a word: {middle['clawhost', 'word', 'peak_mib']:.0f} MiB, {middle['clawhost', 'word', 'peak_share']:.2f} times the stored size")


if __name__ == "__main__":
    main()
