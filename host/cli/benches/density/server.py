"""The same environment behind FastAPI and uvicorn. Prints its port; ends when its input is closed."""

import os
import socket
import sys
import threading

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class Echo:
    def __init__(self):
        self.turns = 0

    def step(self, action):
        self.turns += 1
        return {"observation": action, "turns": self.turns, "status": "running"}


class Action(BaseModel):
    episode: int
    text: str


app = FastAPI()
episodes = {}


@app.post("/start")
async def start():
    episodes[len(episodes)] = Echo()
    return {"episode": len(episodes) - 1}


@app.post("/step")
async def step(action: Action):
    return episodes[action.episode].step(action.text)


def end_with_parent():
    sys.stdin.read()
    os._exit(0)


def main():
    # With the protocol named asyncio sends at once; without it every answer waits for the client's delayed acknowledgement.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=end_with_parent, daemon=True).start()
    config = uvicorn.Config(app, log_level="critical", access_log=False)
    uvicorn.Server(config).run(sockets=[listener])


main()
