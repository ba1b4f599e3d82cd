"""OpenAI's SDK with plain completions of a local model: it scores given texts and generates tokens.

Run by the suite beside it, which starts the gateway. Prints one line per check; exits with 1 if one failed.
"""

import sys

import openai
from checks import check, finish

ADDRESS, ALIAS = sys.argv[1], sys.argv[2]

client = openai.OpenAI(base_url=f"http://{ADDRESS}/v1", api_key="none", max_retries=0)

scored = client.completions.create(model=ALIAS, prompt="12+34=46", echo=True, max_tokens=0, logprobs=1).choices[0]
given = scored.logprobs
check("echo", scored.text, "12+34=46")
check("tokens", given.tokens, list("12+34=46"))
check("offsets", given.text_offset, list(range(8)))
check("the first token has no log-prob", (given.token_logprobs[0], given.top_logprobs[0]), (None, None))
check("log-probs", all(logprob < 0 for logprob in given.token_logprobs[1:]), True)
best = zip(given.top_logprobs[1:], given.tokens[1:], given.token_logprobs[1:])
check("alternatives", all(top[token] == logprob <= max(top.values()) for top, token, logprob in best), True)

asked = {"model": ALIAS, "prompt": ["1+1=", "2+2="], "n": 2, "max_tokens": 4, "seed": 5, "temperature": 1}
whole = client.completions.create(**asked, logprobs=2, extra_body={"return_token_ids": True})
check("one answer for each prompt and choice", [choice.index for choice in whole.choices], [0, 1, 2, 3])
lengths = [(len(choice.token_ids), len(choice.logprobs.tokens)) for choice in whole.choices]
check("one log-prob for each token", all(ids == logprobs for ids, logprobs in lengths), True)
check("versions", [sum(n for _, n in choice.policy_versions) for choice in whole.choices], [n for n, _ in lengths])
check("usage", whole.usage.completion_tokens, sum(n for n, _ in lengths))

texts, usage = [""] * 4, None
for event in client.completions.create(**asked, stream=True, stream_options={"include_usage": True}):
    usage = event.usage or usage
    for choice in event.choices:
        texts[choice.index] += choice.text
check("a stream has the same texts", texts, [choice.text for choice in whole.choices])
check("usage of a stream", usage, whole.usage)

both = client.completions.create(model=ALIAS, prompt=[1, 10, 1, 11], max_tokens=1, temperature=0, logprobs=5).choices[0]
check("greedy", both.logprobs.token_logprobs[0], max(both.logprobs.top_logprobs[0].values()))

try:
    client.completions.create(model=ALIAS, prompt="1", suffix="2")
    check("suffix", "answered", "refused")
except openai.BadRequestError as error:
    check("suffix", "suffix: is not supported" in str(error), True)

finish()
