"""Runs the cells of a notebook in a kernel, and prints what each shows: [stream, text], [error, name, text] or [result, text]."""

import json
import os
import sys
import time

from jupyter_client.manager import start_new_kernel

IMPORTS = "import ddprun, os, time, torch"
VALUES = """
def value(factor):
    print("rank", os.environ["RANK"])
    return torch.tensor([factor * int(os.environ["RANK"])])
ddprun.launch(value, 2, 5)"""
FAILURE = """
def fail():
    raise ValueError("no such layer")
ddprun.launch(fail, 2)"""
WAIT = """
def wait():
    open("began." + os.environ["RANK"], "w").close()
    time.sleep(600)
ddprun.launch(wait, 2)"""


def shown(client, cell, when=None, then=None):
    messages = []
    request = client.execute(cell)
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        if then is not None and when():
            then()
            then = None
        try:
            message = client.get_iopub_msg(timeout=0.1)
        except Exception:  # queue.Empty of whichever version
            continue
        if message["parent_header"].get("msg_id") != request:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            messages.append((content["name"], content["text"]))
        elif kind == "error":
            messages.append(("error", content["ename"], content["evalue"]))
        elif kind == "execute_result":
            messages.append(("result", content["data"]["text/plain"]))
        elif kind == "status" and content["execution_state"] == "idle":
            return messages
    raise TimeoutError(f"the cell never ended: {cell}: {messages}")


manager, client = start_new_kernel(kernel_name="python3")
try:
    for cell in (IMPORTS, VALUES, FAILURE):
        print(json.dumps(shown(client, cell)))
    began = lambda: all(os.path.exists(f"began.{rank}") for rank in (0, 1))  # noqa: E731
    print(json.dumps(shown(client, WAIT, began, manager.interrupt_kernel)))
    print(json.dumps(shown(client, "1 + 1")))
finally:
    manager.shutdown_kernel(now=True)
sys.stdout.flush()
