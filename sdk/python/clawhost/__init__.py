"""The SDK for plugins in Python: environments, rewards and reflectors for clawhost.

`clawhost build` puts this package, and the interface that the host calls, beside your `src/plugin.py`, and makes a component of all.

Rules of the sandbox:

- `plugin.py` is imported once, while the component is built, and the result is frozen into it. Import everything at the top: a module that is
  not imported then is not packed.
- All randomness comes from the seed (`Random`). There is no file and no network. Printed text goes into the log.
- `Error` is an answer of yours. Any other exception is a bug: it ends the plugin, and the log has its traceback.
- A C stack that runs out ends the plugin, where elsewhere it would be a RecursionError. So do not parse JSON that a model wrote, unless it
  is a tool call's arguments, which the host has checked.
"""

from .environment import Action, Continue, Done, Environment, MessageEnvironment, Next, Opening, Params, Step, Stop
from .episode import Episode
from .error import Error, ModelError
from .random import Random
from .reflector import Entry, Playbook, Proposal, Reflector
from .reward import Failed, NotApplicable, Reward, Scored, Verdict
from .values import Context, Option, Task, Tool, ToolCall, text_of

__all__ = [
    "Action",
    "Context",
    "Continue",
    "Done",
    "Entry",
    "Environment",
    "Episode",
    "Error",
    "Failed",
    "MessageEnvironment",
    "ModelError",
    "Next",
    "NotApplicable",
    "Opening",
    "Option",
    "Params",
    "Playbook",
    "Proposal",
    "Random",
    "Reflector",
    "Reward",
    "Scored",
    "Step",
    "Stop",
    "Task",
    "Tool",
    "ToolCall",
    "Verdict",
    "text_of",
]
