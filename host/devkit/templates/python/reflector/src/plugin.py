from clawhost import Context, Episode, Playbook, Proposal, Reflector, text_of

# The beginning of a line in which an environment says what it expected.
EXPECTED = "expected: "


class {{type}}(Reflector):
    """Makes a lesson of every line that says what was expected. A proposal is data: the host measures it before it is served."""

    name = "{{name}}"
    version = "0.1.0"
    summary = "proposes lessons from what the environment says at the end"

    def reflect(self, episodes: list[Episode], playbook: Playbook, context: Context) -> list[Proposal]:
        lessons = set()
        for episode in episodes:
            if episode.reward is not None and episode.reward < 1.0:
                lines = [line for message in episode.closing() for line in text_of(message).splitlines()]
                lessons |= {"always: " + line.removeprefix(EXPECTED) for line in lines if line.startswith(EXPECTED)}
        lessons -= {entry.text for entry in playbook.entries}
        return [Proposal.add(lesson, "does what was expected") for lesson in sorted(lessons)]
