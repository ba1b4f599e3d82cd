"""A user's correction through the `openai` SDK: it changes that user's next session, and nobody else's.

Run by the suite beside it, which starts the gateway with `--mode skills`. Prints one line per check; exits with 1 if one failed.
"""

import sys

import openai
from checks import check, finish

ADDRESS, ALIAS = sys.argv[1], sys.argv[2]

client = openai.OpenAI(base_url=f"http://{ADDRESS}/v1", api_key="none", max_retries=0)


def ask(user, session, headers=None):
    """What the model saw as system text in a new session of a user, with the id of its answer."""
    headers = {"x-clawhost-session": session, **(headers or {})}
    messages = [{"role": "user", "content": "show system"}]
    answer = client.chat.completions.create(model=ALIAS, messages=messages, user=user, extra_headers=headers)
    return answer.choices[0].message.content, answer.id


def give(headers=None, **feedback):
    return client.post("/feedback", body=feedback, cast_to=object, options={"headers": headers or {}})


seen, answer = ask("ada", "a1")
check("no guidance at first", seen, "nothing")
given = give(response_id=answer, thumb="down", correction="Answer in German.")
check("the correction is remembered", given["memory"]["remembered"], True)
check("its scope is the user", given["memory"]["scope"], "user:/ada")
check("her next session has it", "- Answer in German." in ask("ada", "a2")[0], True)
check("the session in which it was said has not", ask("ada", "a1")[0], "nothing")
check("another user has not", ask("bob", "b1")[0], "nothing")
check("a client without a user has not", ask(openai.omit, "n1")[0], "nothing")
quiet, answer = ask("carl", "c1", {"x-no-train": "1"})
given = give(response_id=answer, correction="Answer in Latin.")
check("who keeps out of learning teaches nothing", given["memory"]["remembered"], False)
check("not even for itself", ask("carl", "c2")[0], "nothing")
for name, feedback, status in [
    ("an unknown answer", {"response_id": "chatcmpl-none", "score": 1}, 404),
    ("a score out of range", {"response_id": answer, "score": 2}, 422),
]:
    try:
        give(**feedback)
        check(name, 200, status)
    except openai.APIStatusError as error:
        check(name, error.status_code, status)
finish()
