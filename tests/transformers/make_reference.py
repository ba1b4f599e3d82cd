"""Reference values from `transformers` and `peft`: what local models here are held against.

Opt-in: no test and no build runs this; `cargo test` reads what it wrote into `tests/transformers/reference`. `cargo xtask
transformers` runs all of it, in a virtual environment that has `torch` (a CPU build will do), `transformers` and `peft`:

    python3 -m venv .venv && .venv/bin/pip install torch==2.15.0 transformers==5.23.0 peft==0.21.2
    cargo xtask transformers .venv/bin/python

    make_reference.py DIR         writes the reference into DIR
    make_reference.py --check     makes it again and compares it with what is committed
    make_reference.py --ours DIR  loads what clawhost wrote into DIR, and compares logits with those that it computed

Three tiny models with random weights from fixed seeds, one per architecture, each a folder as people download them: Qwen2 in
bf16 with its template in tokenizer_config.json, Qwen3 with chat_template.jinja, Llama in f16 and in shards, untied, with
scaled positions. Beside each `expected.json`: tokens of texts, conversations through the template, logits, a greedy answer.
`keys.json`, `sampling.json` and `snippets.json` are of `differences.py`; the folder `gguf` is of `make_gguf.py`. `adapter` is a LoRA adapter for the Qwen3 model as `peft` writes it, `adapter-rs` one with the scale of rsLoRA.
"""

import argparse
import json
import pathlib
import shutil
import sys
import tempfile

import differences
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 1e-5
# Logits are a list per place; few are enough, and files stay small.
PLACES = [0, 7, 22, 23]

TEXTS = [
    "Hello, world!",
    "The price is 12345.67 euros; isn't it?",
    "  two  spaces\n\n\tand lines \n",
    "Zo\u00eb fa\u00e7ade \u2013 na\u00efve caf\u00e9 \u4f60\u597d \U0001f980",
    "e\u0301 is composed",
    "<|im_start|>user\nSpecial words<|im_end|> <|eot_id|>",
    "",
]

CORPUS = [
    "Hello, world! You are a helpful assistant. What is the weather in Paris today? The user asks, the assistant answers.",
    "Call the function with a name and arguments, then read the response and say what it is. The price is the price.",
]

QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA_SPLIT = QWEN_SPLIT.replace(r"|\p{N}|", r"|\p{N}{1,3}|")

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather of a city, in \u00b0C & <plain> words",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "Its name"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}


def call(name, **arguments):
    return {"type": "function", "id": f"call-{name}", "function": {"name": name, "arguments": arguments}}


CHATS = {
    "a question": {"messages": [{"role": "user", "content": "Hi \u00e9 <b> & 'quotes'"}]},
    "with a system message": {
        "messages": [{"role": "system", "content": "  Be brief.\n"}, {"role": "user", "content": " What is 2+2? "}]
    },
    "several turns": {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello!"},
            {"role": "user", "content": "Bye"},
        ]
    },
    "tools on offer": {"messages": [{"role": "user", "content": "Weather in Paris?"}], "tools": [WEATHER]},
    "tools used": {
        "messages": [
            {"role": "system", "content": "Be exact."},
            {"role": "user", "content": "Weather in Paris and Rome?"},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [call("weather", city="Paris"), call("weather", city="R\u00f4me", days=2)],
            },
            {"role": "tool", "content": '{"sky": "clear"}', "tool_call_id": "call-weather"},
            {"role": "tool", "content": "rain", "tool_call_id": "call-weather"},
        ],
        "tools": [WEATHER],
    },
    "an answer was given": {
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}],
    },
}
# A Llama template speaks of one call at a time.
ONE_CALL = {
    "messages": [
        {"role": "user", "content": "Weather in Paris?"},
        {"role": "assistant", "content": "", "tool_calls": [call("weather", city="Paris", days=3)]},
        {"role": "tool", "content": "rain", "tool_call_id": "call-weather"},
    ],
    "tools": [WEATHER],
}


def tokenizer(split, specials, plain, normalizer=None, beginning=None):
    made = Tokenizer(models.BPE(ignore_merges=beginning is not None))
    if normalizer:
        made.normalizer = normalizer
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    size = 320 - len(specials) - len(plain)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    )
    made.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in specials])
    # Of these a decoder leaves nothing out: they belong to what is said.
    made.add_tokens([AddedToken(word, special=False, normalized=False) for word in plain])
    if beginning:
        made.post_processor = processors.TemplateProcessing(
            single=f"{beginning} $A", special_tokens=[(beginning, made.token_to_id(beginning))]
        )
    return made


def qwen_tokenizer(template):
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    plain = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
    made = tokenizer(QWEN_SPLIT, specials, plain, normalizers.NFC())
    return PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=template
    )


def llama_tokenizer(template):
    specials = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    made = tokenizer(LLAMA_SPLIT, specials, [], beginning="<|begin_of_text|>")
    return PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<|begin_of_text|>", eos_token="<|eot_id|>", chat_template=template
    )


def randomise(model, seed, dtype):
    """Weights that make distinct logits; stored in `dtype`, so both sides compute with the same numbers."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            mean, deviation = (1.0, 0.2) if "norm" in name else (0.0, 0.25)
            weight.copy_((noise * deviation + mean).to(dtype).float())
    return model.eval()


SHAPE = {
    "vocab_size": 320,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": None,
    "pad_token_id": None,
}


def qwen2(template):
    words = qwen_tokenizer(template)
    end = [words.convert_tokens_to_ids(word) for word in ("<|im_end|>", "<|endoftext|>")]
    config = Qwen2Config(**SHAPE, rope_theta=1e6, tie_word_embeddings=True, eos_token_id=end[0])
    model = randomise(Qwen2ForCausalLM(config), 2, torch.bfloat16)
    generation = GenerationConfig(do_sample=True, temperature=0.7, top_p=0.8, top_k=20, eos_token_id=end)
    return model, words, generation, torch.bfloat16


def qwen3(template):
    words = qwen_tokenizer(template)
    end = words.convert_tokens_to_ids("<|im_end|>")
    # A head is wider than its share of the stream, as in Qwen3.
    config = Qwen3Config(**SHAPE, head_dim=16, rope_theta=1e6, tie_word_embeddings=True, eos_token_id=end)
    model = randomise(Qwen3ForCausalLM(config), 3, torch.bfloat16)
    generation = GenerationConfig(do_sample=True, temperature=0.6, top_p=0.95, min_p=0.05, eos_token_id=end)
    return model, words, generation, torch.bfloat16


def llama(template):
    words = llama_tokenizer(template)
    end = words.convert_tokens_to_ids("<|eot_id|>")
    scaling = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    config = LlamaConfig(**SHAPE, rope_parameters=scaling, tie_word_embeddings=False, eos_token_id=end)
    model = randomise(LlamaForCausalLM(config), 4, torch.float16)
    generation = GenerationConfig(do_sample=False, eos_token_id=[end])
    return model, words, generation, torch.float16


def numbers(tensor):
    return [[round(float(value), 7) for value in row] for row in tensor]


def logits(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].float()


def sequence(seed):
    generator = torch.Generator().manual_seed(100 + seed)
    return torch.randint(0, 320, (24,), generator=generator).tolist()


def expected(name, model, words):
    chats = {key: chat for key, chat in CHATS.items() if not (name == "llama" and key == "tools used")}
    if name == "llama":
        chats["tools used"] = ONE_CALL
    rendered = {
        key: {
            **chat,
            "text": words.apply_chat_template(
                chat["messages"], tools=chat.get("tools"), tokenize=False, add_generation_prompt=True
            ),
        }
        for key, chat in chats.items()
    }
    prompt = words(rendered["a question"]["text"], add_special_tokens=False).input_ids
    with torch.no_grad():
        answer = model.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), do_sample=False,
            max_new_tokens=24, temperature=None, top_p=None, top_k=None, min_p=None,
            pad_token_id=model.generation_config.eos_token_id
            if isinstance(model.generation_config.eos_token_id, int)
            else model.generation_config.eos_token_id[0],
        )[0][len(prompt) :].tolist()
    tokens = sequence(len(name))
    return {
        "texts": [
            {"text": text, "tokens": words(text, add_special_tokens=False).input_ids}
            | {
                "decoded": words.decode(words(text, add_special_tokens=False).input_ids, skip_special_tokens=True,
                                        clean_up_tokenization_spaces=False)
            }
            for text in TEXTS
        ],
        "chats": rendered,
        "tokens": tokens,
        "places": PLACES,
        "logits": numbers(logits(model, tokens)[PLACES]),
        "prompt": prompt,
        "answer": answer,
    }


def write(path, document):
    text = json.dumps(document, ensure_ascii=False, indent=None, separators=(",", ":"))
    # A line for each row keeps differences readable.
    path.write_text(text.replace("],[", "],\n[").replace("},{", "},\n{") + "\n")


def make(out):
    for name, builder in (("qwen2", qwen2), ("qwen3", qwen3), ("llama", llama)):
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        template = (HERE / "templates" / f"{name}.jinja").read_text()
        model, words, generation, dtype = builder(template)
        model.generation_config = generation
        document = expected(name, model, words)
        if name == "qwen3":
            adapters(out, model)
        shards = {"max_shard_size": "40KB"} if name == "llama" else {}
        model.to(dtype).save_pretrained(folder, **shards)
        words.save_pretrained(folder)
        if name == "qwen2":
            # As older folders have it.
            (folder / "chat_template.jinja").unlink()
            path = folder / "tokenizer_config.json"
            config = json.loads(path.read_text())
            config["chat_template"] = template
            path.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n")
        write(folder / "expected.json", document)
    differences.make(out)


def adapters(out, model):
    base = {name: weight.clone() for name, weight in model.state_dict().items()}
    every = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    for name, targets, rs in (("adapter", every, False), ("adapter-rs", ["q_proj", "v_proj"], True)):
        torch.manual_seed(5)
        config = LoraConfig(
            r=2, lora_alpha=4, target_modules=targets, lora_dropout=0.0, use_rslora=rs, task_type="CAUSAL_LM",
            init_lora_weights=False,
        )
        with_adapter = get_peft_model(model, config).eval()
        generator = torch.Generator().manual_seed(6)
        with torch.no_grad():
            for weight_name, weight in with_adapter.named_parameters():
                if "lora_" in weight_name:
                    weight.copy_(torch.randn(weight.shape, generator=generator) * 0.2)
        folder = out / name
        with_adapter.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)
        path = folder / "adapter_config.json"
        settings = json.loads(path.read_text())
        settings["base_model_name_or_path"] = "qwen3"
        settings["target_modules"] = sorted(settings["target_modules"])
        path.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n")
        tokens = sequence(5)
        document = {"tokens": tokens, "places": PLACES[1::2], "logits": numbers(logits(with_adapter, tokens)[PLACES[1::2]])}
        write(folder / "expected.json", document)
        with_adapter.unload()
        model.load_state_dict(base)


def worst(one, other):
    return float((torch.tensor(one) - torch.tensor(other)).abs().max())


def same(one, other, path=""):
    """Documents are equal, but for rounding."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return all(same(one[key], other[key], f"{path}/{key}") for key in one)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return all(same(a, b, f"{path}/{place}") for place, (a, b) in enumerate(zip(one, other)))
    if isinstance(one, float) and isinstance(other, float) and abs(one - other) <= LIMIT:
        return True
    if one != other:
        print(f"{path}: {one!r} is not {other!r}")
    return one == other


def check():
    committed = HERE / "reference"
    fine = True
    with tempfile.TemporaryDirectory() as folder:
        again = pathlib.Path(folder)
        make(again)
        files = lambda root: sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.parent.name != "gguf")
        if files(committed) != files(again):
            print(f"files differ: {set(files(committed)) ^ set(files(again))}")
            fine = False
        for name in files(committed):
            one, other = committed / name, again / name
            if not other.exists():
                continue
            if name.endswith(".safetensors"):
                left, right = load_file(one), load_file(other)
                equal = left.keys() == right.keys() and all(torch.equal(left[key], right[key]) for key in left)
            elif name.endswith(".json"):
                left, right = json.loads(one.read_text()), json.loads(other.read_text())
                for document in (left, right):
                    # Versions of the libraries that wrote it.
                    for key in ("transformers_version", "peft_version"):
                        if isinstance(document, dict):
                            document.pop(key, None)
                equal = same(left, right, name)
            else:
                equal = one.read_bytes() == other.read_bytes()
            if not equal:
                print(f"{name} differs from what is committed")
                fine = False
    print("the reference is as committed" if fine else "the reference differs")
    return fine


def ours(root):
    """Each folder with `computed.json` is a model of ours, or an adapter with its model beside it."""
    fine = True
    found = sorted(path.parent for path in root.rglob("computed.json"))
    for folder in found:
        told = json.loads((folder / "computed.json").read_text())
        if "base" in told:
            base = AutoModelForCausalLM.from_pretrained(folder.parent / told["base"], dtype=torch.float32).eval()
            before = logits(base, told["tokens"])
            model = PeftModel.from_pretrained(base, folder).eval()
            moved = f", the adapter moves them by {worst(logits(model, told['tokens']), before):.2}"
        else:
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
            words = AutoTokenizer.from_pretrained(folder)
            if "text" in told and words(told["text"], add_special_tokens=False).input_ids != told["text_tokens"]:
                print(f"{folder.name}: the tokenizer comes to other tokens")
                fine = False
            moved = ""
        difference = worst(logits(model, told["tokens"]).tolist(), told["logits"])
        print(f"{folder.name}: logits differ by {difference:.2e} at most{moved}")
        fine = fine and difference <= told.get("limit", LIMIT)
    if not found:
        print(f"nothing of ours is in {root}")
    return fine and bool(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--ours", type=pathlib.Path, metavar="DIR")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.check:
        sys.exit(not check())
    if arguments.ours:
        sys.exit(not ours(arguments.ours))
    if not arguments.out:
        parser.error("name a folder, --check or --ours DIR")
    if arguments.out.exists():
        shutil.rmtree(arguments.out)
    make(arguments.out)


if __name__ == "__main__":
    main()
