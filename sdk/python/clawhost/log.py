"""Lines for people who debug a plugin."""

from wit_world.imports import log as wit_log


def debug(text: str) -> None:
    """For the author."""
    wit_log.write(wit_log.Level.DEBUG, text)


def info(text: str) -> None:
    """Worth knowing."""
    wit_log.write(wit_log.Level.INFO, text)


def warn(text: str) -> None:
    """Something looks wrong."""
    wit_log.write(wit_log.Level.WARN, text)
