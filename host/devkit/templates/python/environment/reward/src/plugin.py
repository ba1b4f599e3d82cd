from clawhost import Context, Episode, Reward, Scored, Verdict


class {{type}}Reward(Reward):
    """Judges what the host recorded, in a sandbox of its own: an environment never scores itself."""

    name = "{{name}}-reward"
    version = "0.1.0"
    summary = "1 if the answer was right"
    reads = ["signal right"]

    def score(self, episode: Episode, context: Context) -> Verdict:
        right = episode.signals.get("right")
        if right is None:
            return Scored(0.0, because="there was no answer")
        return Scored(right)
