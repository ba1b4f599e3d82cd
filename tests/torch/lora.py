"""Learning an adapter beside 0.6 billion weights on this processor: PyTorch with transformers and peft, beside clawhost's bench.

    cargo bench -p clawhost-model --bench training -- lora FOLDER bf16 TEXTS
    python tests/torch/lora.py TEXTS [f32 | bf16] [plain | recomputed] [texts at once]

Texts have 256 tokens, of which the last 128 are trained; the adapter has rank 16 on all seven projections; one step of AdamW. `recomputed` is gradient
checkpointing. The weights are random, in the shape of Qwen3 with 0.6 billion. Printed is one line of JSON: tokens per second of the second step, and the
peak memory of the process in MiB.
"""

import json
import resource
import sys
import time

import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen3Config, Qwen3ForCausalLM


def main():
    texts = int(sys.argv[1])
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[sys.argv[2] if len(sys.argv) > 2 else "f32"]
    recomputed = len(sys.argv) > 3 and sys.argv[3] == "recomputed"
    at_once = int(sys.argv[4]) if len(sys.argv) > 4 else 2
    config = Qwen3Config(
        vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16,
        num_key_value_heads=8, head_dim=128, tie_word_embeddings=True, use_cache=False,
    )
    torch.manual_seed(1)
    torch.set_default_dtype(dtype)
    base = Qwen3ForCausalLM(config)
    if recomputed:
        base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        base.enable_input_require_grads()
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    model = get_peft_model(base, LoraConfig(r=16, lora_alpha=32, target_modules=targets, lora_dropout=0.0))
    model.train()
    learned = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(learned, 1e-4, betas=(0.9, 0.95), weight_decay=0)
    tokens = (torch.arange(256)[None] * 97 + torch.arange(texts)[:, None] * 1009) % 300
    labels = tokens.clone()
    labels[:, :128] = -100
    times = []
    for _ in range(2):
        start = time.perf_counter()
        optimizer.zero_grad()
        for first in range(0, texts, at_once):
            part = slice(first, first + at_once)
            (model(input_ids=tokens[part], labels=labels[part]).loss * at_once / texts).backward()
        torch.nn.utils.clip_grad_norm_(learned, 1.0)
        optimizer.step()
        times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"tokens": texts * 256 / times[1], "peak": peak}))


if __name__ == "__main__":
    main()
