"""GGUF files for tests, and what `transformers` computes with them.

Opt-in, as `make_reference.py`. The files are written by the PyPI package `gguf`, and the K formats by llama.cpp's quantiser:

    .venv/bin/pip install gguf llama-cpp-python
    make_gguf.py DIR            writes the files, and what is expected of them
    make_gguf.py --written FILE writes what files that we write of the models in `reference` must hold
    make_gguf.py --ours DIR     reads files that we wrote: numbers with the package `gguf`, answers with llama.cpp

Each file is a tiny model with random weights; `transformers` computes with the numbers that the package `gguf` reads from it, as f32. `expected.json` has tokens of texts by the tokenizer
that the metadata was written from, logits at some places, and the template. `written.json` has the metadata, and a digest of every tensor in every format that we write.
"""

import hashlib
import json
import pathlib
import sys
import tempfile

import gguf
import numpy as np
import torch
from make_reference import SHAPE, TEXTS, PLACES, llama_tokenizer, logits, numbers, qwen_tokenizer, randomise, write
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

HERE = pathlib.Path(__file__).resolve().parent
KIND = gguf.GGMLQuantizationType

# Rows of whole blocks: of 32, and of 256 for the K formats.
SMALL = SHAPE | {"hidden_size": 64, "intermediate_size": 96}
LARGE = SHAPE | {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1}


def models():
    template = lambda name: (HERE / "templates" / f"{name}.jinja").read_text()
    scaling = {
        "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    llama = lambda shape, **more: LlamaForCausalLM(LlamaConfig(**shape, tie_word_embeddings=False, eos_token_id=4, **more))
    qwen2 = lambda shape: Qwen2ForCausalLM(Qwen2Config(**shape, rope_theta=1e6, tie_word_embeddings=True, eos_token_id=2))
    qwen3 = lambda shape: Qwen3ForCausalLM(Qwen3Config(**shape, head_dim=32, rope_theta=1e6, tie_word_embeddings=True, eos_token_id=2))
    of_llama, of_qwen = llama_tokenizer(template("llama")), qwen_tokenizer(template("qwen3"))
    return [
        ("llama-f16", llama(SMALL, rope_parameters=scaling), of_llama, KIND.F16, None),
        ("qwen2-bf16", qwen2(SMALL), of_qwen, KIND.BF16, None),
        ("qwen3-q8_0", qwen3(SMALL), of_qwen, KIND.Q8_0, None),
        ("llama-q8_0", llama(SMALL, rope_theta=10000.0), of_llama, KIND.Q8_0, None),
        ("qwen2-q4_0", qwen2(SMALL), of_qwen, KIND.Q4_0, None),
        ("llama-q4_k", llama(LARGE, rope_theta=10000.0), of_llama, KIND.F32, "LLAMA_FTYPE_MOSTLY_Q4_K_M"),
        ("qwen3-q6_k", qwen3(LARGE), of_qwen, KIND.F32, "LLAMA_FTYPE_MOSTLY_Q6_K"),
    ]


def paired(weight, heads):
    """Rows as llama.cpp's converter writes those of queries and keys."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def write_file(path, model, words, kind):
    config = model.config
    name = config.model_type
    out = gguf.GGUFWriter(str(path), name)
    out.add_context_length(config.max_position_embeddings)
    out.add_embedding_length(config.hidden_size)
    out.add_block_count(config.num_hidden_layers)
    out.add_feed_forward_length(config.intermediate_size)
    out.add_head_count(config.num_attention_heads)
    out.add_head_count_kv(config.num_key_value_heads)
    out.add_layer_norm_rms_eps(config.rms_norm_eps)
    out.add_rope_freq_base(config.rope_parameters["rope_theta"])
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    out.add_key_length(head)
    out.add_value_length(head)
    out.add_vocab_size(config.vocab_size)
    out.add_rope_dimension_count(head)
    document = json.loads(words.backend_tokenizer.to_str())
    tokens = sorted(words.get_vocab(), key=words.get_vocab().get)
    special = {one["content"]: one["special"] for one in document["added_tokens"]}
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("llama-bpe" if name == "llama" else "qwen2")
    out.add_token_list(tokens)
    out.add_token_types([1 if token not in special else 3 if special[token] else 4 for token in tokens])
    out.add_token_merges([" ".join(pair) for pair in document["model"]["merges"]])
    out.add_eos_token_id(words.eos_token_id)
    if words.bos_token_id is not None:
        out.add_bos_token_id(words.bos_token_id)
    if words.pad_token_id is not None:
        out.add_pad_token_id(words.pad_token_id)
    out.add_chat_template(words.chat_template)
    for into, value in tensors(model):
        form = form_of(value, kind)
        out.add_tensor(into, gguf.quants.quantize(value, form), raw_dtype=form)
    if config.rope_parameters.get("rope_type") == "llama3":
        out.add_tensor("rope_freqs.weight", factors(config, head), raw_dtype=KIND.F32)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def tensors(model):
    """By the names of ggml, as llama.cpp's converter writes them."""
    config = model.config
    names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, config.model_type.upper()), config.num_hidden_layers)
    for key, value in model.state_dict().items():
        if key == "lm_head.weight" and config.tie_word_embeddings:
            continue
        value = value.float().numpy()
        if config.model_type == "llama" and key.endswith(("q_proj.weight", "k_proj.weight")):
            heads = config.num_attention_heads if "q_proj" in key else config.num_key_value_heads
            value = paired(value, heads)
        yield names.get_name(key, try_suffixes=(".weight", ".bias")), np.ascontiguousarray(value)


def form_of(value, kind):
    """Vectors are f32. Rows that are not made of whole blocks are f16, as llama.cpp's converter writes them."""
    if value.ndim == 1:
        return KIND.F32
    return KIND.F16 if kind == KIND.Q8_0 and value.shape[1] % 32 else kind


def factors(config, head):
    """As llama.cpp's converter computes them."""
    rope = config.rope_parameters
    low, high, factor, context = (rope[key] for key in ("low_freq_factor", "high_freq_factor", "factor", "original_max_position_embeddings"))
    freqs = 1.0 / (rope["rope_theta"] ** (torch.arange(0, head, 2, dtype=torch.float32) / head))
    found = []
    for freq in freqs.tolist():
        length = 2 * np.pi / freq
        if length < context / high:
            found.append(1.0)
        elif length > context / low:
            found.append(factor)
        else:
            smooth = (context / length - low) / (high - low)
            found.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(found, dtype=np.float32)


def dequantised(path, model):
    """The model with the numbers of the file, in f32, as the package `gguf` reads them."""
    config = model.config
    names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, config.model_type.upper()), config.num_hidden_layers)
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    state = {}
    for key in model.state_dict():
        if key == "lm_head.weight" and config.tie_word_embeddings:
            continue
        tensor = tensors.pop(names.get_name(key, try_suffixes=(".weight", ".bias")))
        value = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if config.model_type == "llama" and key.endswith(("q_proj.weight", "k_proj.weight")):
            heads = config.num_attention_heads if "q_proj" in key else config.num_key_value_heads
            value = value.reshape(heads, value.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(value.shape)
        state[key] = torch.from_numpy(np.array(value))
    assert set(tensors) <= {"rope_freqs.weight"}, tensors.keys()
    model.load_state_dict(state, strict=False)
    return model.eval()


def quantised(path, ftype):
    import llama_cpp

    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = getattr(llama_cpp, ftype)
    params.nthread = 1
    plain = path.with_suffix(".f32")
    path.rename(plain)
    assert llama_cpp.llama_model_quantize(str(plain).encode(), str(path).encode(), params) == 0
    plain.unlink()


def make(out):
    out.mkdir(parents=True, exist_ok=True)
    expected = {}
    for seed, (name, model, words, kind, ftype) in enumerate(models()):
        path = out / f"{name}.gguf"
        randomise(model, 20 + seed, torch.float32)
        write_file(path, model, words, kind)
        if ftype:
            quantised(path, ftype)
        read = dequantised(path, model)
        generator = torch.Generator().manual_seed(40 + seed)
        tokens = torch.randint(0, 320, (24,), generator=generator).tolist()
        kinds = sorted({tensor.tensor_type.name for tensor in gguf.GGUFReader(path).tensors})
        expected[name] = {
            "kinds": kinds,
            "texts": [{"text": text, "tokens": words(text, add_special_tokens=False).input_ids} for text in TEXTS],
            "words": {key: str(value) for key, value in words.special_tokens_map.items()},
            "tokens": tokens,
            "places": PLACES,
            "logits": numbers(logits(read, tokens)[PLACES]),
        }
        print(name, kinds, path.stat().st_size)
    write(out / "expected.json", expected)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def written(to):
    """What files of the models in `reference` hold."""
    found = {}
    for name in ["llama", "qwen2", "qwen3"]:
        folder = HERE / "reference" / name
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        words = AutoTokenizer.from_pretrained(folder)
        with tempfile.TemporaryDirectory() as place:
            path = pathlib.Path(place) / "one.gguf"
            write_file(path, model, words, KIND.F32)
            fields = {key: field.contents() for key, field in gguf.GGUFReader(path).fields.items() if not key.startswith("GGUF.")}
        values = {key: sha256("\n".join(map(str, value)).encode()) if isinstance(value, list) else value for key, value in fields.items()}
        digests = {
            kind.name.lower(): {
                into: [form_of(value, kind).name, list(value.shape), sha256(gguf.quants.quantize(value, form_of(value, kind)).tobytes())]
                for into, value in tensors(model)
            }
            for kind in (KIND.F32, KIND.F16, KIND.BF16, KIND.Q8_0)
        }
        config = model.config
        scaled = config.rope_parameters["rope_type"] == "llama3"
        found[name] = {"values": values, "tensors": digests, "factors": factors(config, config.head_dim).tolist() if scaled else None}
    write(to, found)


def ours(root):
    """Each `NAME.json` is about `NAME.gguf`, which we wrote: tokens, logits at some places, and a greedy answer. `lora`: about the adapter in that file beside this one."""
    import llama_cpp

    fine = True
    found = sorted(path for path in root.glob("*.json") if path.with_suffix(".gguf").exists())
    for path in found:
        said = json.loads(path.read_text())
        file = path.with_suffix(".gguf")
        kinds = sorted({tensor.tensor_type.name for tensor in gguf.GGUFReader(file).tensors})
        more = {"lora_path": str(path.with_name(said["lora"]))} if "lora" in said else {}
        # Keys and values in f32, as here.
        exact = {"type_k": llama_cpp.GGML_TYPE_F32, "type_v": llama_cpp.GGML_TYPE_F32}
        model = llama_cpp.Llama(str(file), n_ctx=256, n_threads=1, logits_all=True, verbose=False, **exact, **more)
        words = model.tokenize(said["text"].encode(), add_bos=False, special=False)
        if words != said["text_tokens"]:
            print(f"{path.stem}: llama.cpp comes to other tokens: {words}, {said['text_tokens']}")
            fine = False
        model.reset()
        model.eval(said["tokens"])
        logits = model.scores[: len(said["tokens"])][said["places"]]
        worst = np.abs(logits - np.array(said["logits"], dtype=np.float32)).max()
        largest = np.abs(np.array(said["logits"])).max()
        answer = list(said["tokens"])
        for _ in said["answer"]:
            model.reset()
            model.eval(answer)
            answer.append(int(model.scores[len(answer) - 1].argmax()))
        same = answer[len(said["tokens"]) :] == said["answer"]
        print(f"{path.stem}: {kinds}, logits of llama.cpp differ by {worst:.2e} of {largest:.2}, greedy tokens are {'equal' if same else 'other ones'}")
        fine = fine and same and worst <= said["limit"] * largest
    if not found:
        print(f"nothing of ours is in {root}")
    return fine and bool(found)


if __name__ == "__main__":
    torch.set_num_threads(1)
    match sys.argv[1:]:
        case ["--written", file]:
            written(pathlib.Path(file))
        case ["--ours", folder]:
            sys.exit(not ours(pathlib.Path(folder)))
        case [folder]:
            make(pathlib.Path(folder))
        case _:
            sys.exit(__doc__)
