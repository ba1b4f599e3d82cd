"""Models that the operator granted (`--grant llm:ALIAS=SPEC`), for judges, reflectors and simulated users."""

from componentize_py_types import Err
from wit_world.imports import types as wit

from .error import ModelError
from .values import message, text_of

try:
    from wit_world.imports import llm as wit_llm
except ImportError as error:
    raise ImportError("claw.toml asks for no model: name its alias in `llm` of [grants]") from error


def ask(alias: str, question: str, max_tokens: int = 512) -> str:
    """Asks one question, at temperature 0. Raises `ModelError` if there is no answer."""
    messages = [message(wit.Role.USER, question)]
    request = wit_llm.Request(alias, messages, [], max_tokens, 0.0, None, [], [])
    try:
        return text_of(wit_llm.complete(request).message)
    except Err as error:
        raise ModelError(f"{alias}: {type(error.value).__name__}: {error.value.value}") from error
