from clawhost import Context, Episode, NotApplicable, Reward, Scored, Verdict


class {{type}}(Reward):
    """Compares the last answer with the task's reference, which is JSON: a text in quotes, or a number."""

    name = "{{name}}"
    version = "0.1.0"
    summary = "1 if the last answer is the reference"
    reads = ["reference"]

    def score(self, episode: Episode, context: Context) -> Verdict:
        reference = episode.task.reference
        if reference is None:
            return NotApplicable("the task has no reference")
        wanted = reference.strip('"')
        is_right = episode.last_answer().strip() == wanted
        return Scored(float(is_right), because=f"wanted `{wanted}`")
