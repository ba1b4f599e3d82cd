from clawhost import Context, Episode, Error, Reward, Scored, Verdict


class {{type}}Reward(Reward):
    """Compares what was left with the task's reference, which the environment and the agent never see."""

    name = "{{name}}-reward"
    version = "0.1.0"
    summary = "1 if the box holds what was ordered"
    reads = ["artefact box.json", "reference"]

    def score(self, episode: Episode, context: Context) -> Verdict:
        wanted, left = episode.task.reference, episode.artefact("box.json")
        if wanted is None or left is None:
            raise Error("there is no reference, or no box.json")
        if left == wanted.encode():
            return Scored(1.0, because="as ordered")
        return Scored(0.0, because="not as ordered")
