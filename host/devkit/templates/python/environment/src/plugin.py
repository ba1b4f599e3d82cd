from clawhost import Done, Environment, Error, Next, Random


class {{type}}(Environment):
    """One episode. It holds the right answer."""

    name = "{{name}}"
    version = "0.1.0"
    summary = "how many steps does a tower have?"

    def start(self, task: str, seed: int) -> str:
        random = Random(seed)
        floors, steps = random.between(2, 40), random.between(10, 30)
        self.right = floors * steps
        return f"A tower has {floors} floors with {steps} steps each.\ncalculate {floors} * {steps}"

    def step(self, action: str, signals: dict[str, float]) -> Next:
        try:
            answer = int(action)
        except ValueError:
            raise Error("answer with one whole number")
        signals["right"] = float(answer == self.right)
        return Done("Right." if answer == self.right else "Wrong.")
