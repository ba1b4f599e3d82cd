"""The SDK of Tinker against the stub that tests of our client use: what it speaks is the protocol.

Called with the address of the stub, whose base model is a tiny one, and its name.
"""

import math
import sys

import tinker
from checks import check, fail, finish
from tinker import types

address, base = sys.argv[1:]
service = tinker.ServiceClient(api_key="tml-test-key-of-the-suite", base_url=address)
models = service.get_server_capabilities().supported_models
check("the base model is offered", [model.model_name for model in models] == [base], True)

training = service.create_lora_training_client(base_model=base, rank=4, seed=1).result()
info = training.get_info()
check("a model is created", info.is_lora and info.lora_rank == 4 and info.model_name == base, True)

prompt, answer = [1, 10, 2, 12], [3, 15]
tokens = prompt + answer
inputs, targets = tokens[:-1], tokens[1:]
mask = [0.0] * (len(prompt) - 1) + [1.0] * len(answer)


def tensor(data, kind):
    return types.TensorData(data=data, dtype=kind, shape=[len(data)])


def datum(**more):
    loss = {"target_tokens": tensor(targets, "int64")}
    loss |= {name: tensor(data, "float32") for name, data in more.items()}
    return types.Datum(model_input=types.ModelInput.from_ints(inputs), loss_fn_inputs=loss)


def logprobs(result):
    [output] = result.loss_fn_outputs
    return output["logprobs"].data


before = logprobs(training.forward([datum(weights=mask)], "cross_entropy").result())
check("log-probs of all targets come back", len(before) == len(targets) and all(one < 0 for one in before), True)
again = training.forward_backward([datum(weights=mask)], "cross_entropy").result()
check("a pass with gradients gives the same log-probs", all(math.isclose(a, b, abs_tol=1e-5) for a, b in zip(before, logprobs(again))), True)
total = -sum(weight * logprob for weight, logprob in zip(mask, before))
check("the loss is a sum", math.isclose(again.metrics["loss:sum"], total, rel_tol=1e-4), True)
training.optim_step(types.AdamParams(learning_rate=0.05)).result()
after = logprobs(training.forward([datum(weights=mask)], "cross_entropy").result())
check("a step makes the answer more likely", sum(after[-2:]) > sum(before[-2:]), True)

kept = training.save_state("kept").result().path
check("weights are kept by a path", kept.startswith("tinker://"), True)
advantages = [-one for one in mask]
ratio = training.forward_backward([datum(logprobs=list(after), advantages=advantages)], "importance_sampling").result()
check("the importance-weighted loss is a sum", math.isclose(ratio.metrics["loss:sum"], len(answer), rel_tol=1e-3), True)
training.optim_step(types.AdamParams(learning_rate=0.05)).result()
punished = logprobs(training.forward([datum(weights=mask)], "cross_entropy").result())
check("a negative advantage makes the answer less likely", sum(punished[-2:]) < sum(after[-2:]), True)
training.load_state_with_optimizer(kept).result()
back = logprobs(training.forward([datum(weights=mask)], "cross_entropy").result())
check("loading goes back", all(math.isclose(a, b, abs_tol=1e-5) for a, b in zip(after, back)), True)

saved = training.save_weights_for_sampler("answers").result().path
sampler = service.create_sampling_client(model_path=saved)
params = types.SamplingParams(max_tokens=4, temperature=1.0, seed=7, stop=[15])
sampled = sampler.sample(types.ModelInput.from_ints(prompt), num_samples=2, sampling_params=params).result()
check("two answers were sampled", len(sampled.sequences) == 2, True)
for sequence in sampled.sequences:
    check("an answer has a log-prob for each token", 0 < len(sequence.tokens) == len(sequence.logprobs) <= 4, True)
    check("it says why it ended", (sequence.stop_reason == "stop") == (sequence.tokens[-1] == 15), True)
scored = sampler.compute_logprobs(types.ModelInput.from_ints(tokens)).result()
check("the sampler scores as the trainer", all(math.isclose(a, b, abs_tol=1e-4) for a, b in zip(scored[1:], back)), True)
params = types.SamplingParams(max_tokens=1)
top = sampler.sample(types.ModelInput.from_ints(tokens), 1, params, include_prompt_logprobs=True, topk_prompt_logprobs=3).result()
rows = top.topk_prompt_logprobs
check("likely tokens of the prompt are named", len(rows) == len(tokens) and all(len(row) == 3 for row in rows[1:]), True)

try:
    service.create_lora_training_client(base_model="other", rank=4).result()
    fail("an unknown base model is accepted")
except tinker.TinkerError as error:
    check("an unknown base model is refused", "no such base model" in str(error), True)

finish()
