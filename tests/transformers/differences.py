"""Reference values of `transformers` for what differs silently: keys of config.json, restrictions of sampling, templates.

`make_reference.py` calls `make`. Each document lists inputs with what `transformers` made of them.
"""

import copy
import json
import pathlib
import tempfile
import warnings

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast
from transformers.generation import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

# Logits at the last place: enough to see whether a key changed them, and files stay small.
SHOWN = 12

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LINEAR = {"rope_type": "linear", "factor": 4.0}
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}

# What else a key may say, beside the values that `others` makes of the one in the file.
MORE = [
    {"rope_scaling": YARN},
    {"rope_scaling": YARN, "rope_parameters": None},
    {"rope_scaling": {"type": "linear", "factor": 4.0}},
    {"rope_scaling": {"type": "linear", "factor": 4.0, "rope_theta": 1000.0}},
    {"rope_scaling": LINEAR, "rope_parameters": None, "rope_theta": 5000.0},
    {"rope_scaling": LLAMA3},
    {"rope_scaling": LLAMA3, "rope_parameters": {"rope_type": "default", "rope_theta": 3000.0}},
    {"rope_scaling": {}, "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 7000.0}},
    {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}},
    {"rope_scaling": {"rope_type": "default", "partial_rotary_factor": 0.5}},
    {"rope_scaling": {"rope_type": "linear", "factor": 4.0, "partial_rotary_factor": 0.5}},
    {"rope_parameters": LINEAR | {"rope_theta": 9000.0}},
    {"rope_parameters": YARN | {"rope_theta": 9000.0}},
    {"rope_parameters": None, "rope_theta": 2500.0},
    {"rope_parameters": None},
    {"partial_rotary_factor": 0.5},
    {"layer_types": None, "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 0},
    {"layer_types": None, "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1},
    {"layer_types": None, "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 2},
    {"layer_types": None, "use_sliding_window": True, "sliding_window": 512, "max_window_layers": 0},
    {"layer_types": None, "use_sliding_window": True, "sliding_window": None, "max_window_layers": 0},
    {"layer_types": ["full_attention", "sliding_attention"], "use_sliding_window": True, "sliding_window": 8},
    {"layer_types": ["full_attention", "full_attention"], "use_sliding_window": True, "sliding_window": 8},
    {"sliding_window": 8},
    {"attention_bias": True},
    {"mlp_bias": True},
    {"hidden_act": "swish"},
    {"hidden_act": "gelu"},
    {"hidden_act": "relu"},
    {"final_logit_softcapping": 30.0},
    {"logit_scale": 0.5},
    {"head_dim": None},
    {"num_key_value_heads": None},
    {"tie_word_embeddings": None},
    {"architectures": ["Another"]},
]


def others(value):
    """Other values of the same kind."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, (int, float)):
        return [other for other in (value * 2, value / 2 if isinstance(value, float) else value // 2) if other != value]
    return []


def first_logits(folder, config, tokens):
    """The first logits at the last place, or why there are none."""
    with tempfile.TemporaryDirectory() as changed:
        changed = pathlib.Path(changed)
        for path in folder.glob("*.safetensors*"):
            (changed / path.name).write_bytes(path.read_bytes())
        (changed / "config.json").write_text(json.dumps(config))
        try:
            model, info = AutoModelForCausalLM.from_pretrained(changed, dtype=torch.float32, output_loading_info=True)
        except Exception as error:
            return {"refused": type(error).__name__}
        wrong = [key for key in ("mismatched_keys", "missing_keys", "unexpected_keys") if info.get(key)]
        if wrong:
            # Weights that the file lacks are random then, and others are ignored.
            return {"refused": ", ".join(wrong)}
        with torch.no_grad():
            try:
                row = model.eval()(torch.tensor([tokens])).logits[0, -1].float()
            except Exception as error:
                return {"refused": type(error).__name__}
        return {"logits": [round(float(value), 6) for value in row[:SHOWN]]}


def keys(out):
    for name in ("qwen2", "qwen3", "llama"):
        folder = out / name
        tokens = json.loads((folder / "expected.json").read_text())["tokens"]
        written = json.loads((folder / "config.json").read_text())
        # With all keys that the library knows, whatever it left out of the file.
        whole = json.loads(AutoConfig.from_pretrained(folder).to_json_string(use_diff=False)) | written
        changes = [{key: value} for key, known in sorted(whole.items()) for value in others(known)]
        changes += [{key: None} for key, known in sorted(whole.items()) if known is not None and key != "model_type"]
        removed = [key for key in sorted(written) if key != "model_type"]
        found = []
        for change in changes + MORE:
            config = copy.deepcopy(written) | change
            found.append({"change": change} | first_logits(folder, config, tokens))
        for key in removed:
            config = {known: value for known, value in written.items() if known != key}
            found.append({"removed": key} | first_logits(folder, config, tokens))
        write(folder / "keys.json", found)


def sampling(out):
    generator = torch.Generator().manual_seed(9)
    settings = [
        {"top_k": 5, "top_p": 0.7}, {"top_k": 20, "top_p": 0.8}, {"top_k": 3, "top_p": 0.5}, {"top_k": 40, "top_p": 0.95, "min_p": 0.05},
        {"top_p": 0.9}, {"top_k": 7}, {"min_p": 0.1}, {"temperature": 0.7, "top_k": 20, "top_p": 0.8}, {"temperature": 1.5, "top_p": 0.6, "min_p": 0.02},
        {"repetition_penalty": 1.3}, {"repetition_penalty": 0.8, "temperature": 0.7, "top_k": 20}, {"bias": [[3, 2.5], [7, -1.0]], "repetition_penalty": 2.0, "top_p": 0.8},
    ]
    prompt = [3, 5, 5, 40]
    found = []
    for one in settings:
        for _ in range(6):
            logits = [round(float(value), 4) for value in torch.randn(48, generator=generator) * 2]
            chain = LogitsProcessorList()
            if "bias" in one:
                chain.append(SequenceBiasLogitsProcessor([[[token], value] for token, value in one["bias"]]))
            if "repetition_penalty" in one:
                chain.append(RepetitionPenaltyLogitsProcessor(one["repetition_penalty"]))
            if "temperature" in one:
                chain.append(TemperatureLogitsWarper(one["temperature"]))
            if "top_k" in one:
                chain.append(TopKLogitsWarper(one["top_k"]))
            if "top_p" in one:
                chain.append(TopPLogitsWarper(one["top_p"]))
            if "min_p" in one:
                chain.append(MinPLogitsWarper(one["min_p"]))
            left = chain(torch.tensor([prompt]), torch.tensor([logits]))[0]
            kept = [token for token, value in enumerate(left.tolist()) if value != float("-inf")]
            logprobs = torch.log_softmax(left.double(), -1)[kept]
            found.append({"sampling": one, "logits": logits, "kept": kept, "logprobs": [round(float(value), 6) for value in logprobs]} | ({"prompt": prompt} if "repetition_penalty" in one else {}))
    write(out / "sampling.json", found)


SNIPPETS = [
    "{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined else '-' }}>{{ m.role }}>{{ loop.nextitem.role if loop.nextitem is defined else '-' }};{% endfor %}",
    "{% for m in messages %}{% if loop.nextitem and loop.nextitem.role == 'assistant' %}{{ m.content }}{% endif %}{% endfor %}",
    "{% for m in messages %}\n{% if m.role == 'assistant' %}\n{% generation %}\n{{ m.content }}{{ eos_token }}\n{% endgeneration %}\n{% else %}\n{{ m.content }}\n{% endif %}\n{% endfor %}",
    "{% for m in messages %}{%- generation -%} {{ m.content }} {%- endgeneration -%} .{% endfor %}",
    "[{{ bos_token }}|{{ eos_token }}|{{ pad_token }}|{{ unk_token }}|{{ sep_token }}|{{ mask_token }}]",
    "{{ 'no bos' if bos_token is not defined else bos_token }}{{ 'no mask' if mask_token is not defined else 'mask' }}",
    "{{ ['a', 'it\\'s', 1, 1.0, 1e20, true, false, none, ['\\n']] }}",
    "{{ true }} {{ false }} {{ none }} {{ 1.0 }} {{ 3 }} {{ {'a': [true], 'b': {}} }}",
    "{{ [1, true, none]|join(', ') }} {{ true|string }} {{ [1]|string }}",
    "{{ messages[0].keys()|list }} {{ messages|length }}",
    "{{ tools is none }}{{ tools is defined }} {{ missing }}",
    "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + m.content|length %}{% endfor %}{{ ns.n }} {{ ns.n / 2 }} {{ ns.n // 2 }}",
    "{{ messages[0].content[:1] }}{{ messages[-1]['content'][1:] }} {{ 'a b'.split() }} {{ 'Ab'.upper() }}",
]


def snippets(out):
    words = PreTrainedTokenizerFast(
        tokenizer_file=str(out / "llama" / "tokenizer.json"), bos_token="<|begin_of_text|>", eos_token="<|eot_id|>",
        pad_token="<|end_of_text|>",
    )
    messages = [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"},
        {"role": "user", "content": "Bye"},
    ]
    found = []
    for source in SNIPPETS:
        text = words.apply_chat_template(messages, chat_template=source, tokenize=False, add_generation_prompt=True)
        found.append({"template": source, "text": text})
    named = {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>", "pad_token": "<|end_of_text|>"}
    write(out / "snippets.json", {"words": named, "messages": messages, "snippets": found})


def write(path, document):
    text = json.dumps(document, ensure_ascii=False, indent=None, separators=(",", ":"))
    # A line for each row keeps differences readable.
    path.write_text(text.replace("},{", "},\n{") + "\n")


def make(out):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        keys(out)
        sampling(out)
        snippets(out)
