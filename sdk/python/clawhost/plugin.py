"""Finds the class of the author in `src/plugin.py`."""

import plugin


def the_class(*bases: type) -> type:
    """The class of `plugin.py` that is derived from one of these."""
    own = [one for one in vars(plugin).values() if isinstance(one, type) and one.__module__ == plugin.__name__]
    found = [one for one in own if issubclass(one, bases)]
    # The most derived ones: a class may have a base of its own in the same file.
    found = [one for one in found if not any(other is not one and issubclass(other, one) for other in found)]
    if len(found) != 1:
        names = " or ".join(base.__name__ for base in bases)
        raise ImportError(f"src/plugin.py has {len(found)} classes that are derived from {names}; it needs one")
    return found[0]
