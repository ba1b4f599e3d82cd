"""The environment of the bench as a class in one process: an echo that counts its turns."""

import sys
import time


class Echo:
    def __init__(self, seed):
        self.seed = seed
        self.turns = 0

    def step(self, action):
        self.turns += 1
        return {"observation": action, "turns": self.turns, "status": "running"}


def main():
    rounds, steps, size = (int(argument) for argument in sys.argv[1:4])
    action = "x" * size
    for _ in range(rounds):
        episode = Echo(1)
        began = time.perf_counter()
        for _ in range(steps):
            episode.step(action)
        print(time.perf_counter() - began)


main()
