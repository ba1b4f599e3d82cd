"""Errors that a plugin answers with."""


class Error(Exception):
    """What a plugin says instead of an answer. In a step it is the agent's next observation, and the agent may try again."""


class ModelError(Error):
    """A model did not answer, or its answer is of no use."""
