"""A Python that imports once and forks for each piece of code: `import torch` takes longer than most of what follows it.

For clients that a test starts itself. What ddprun starts is started anew each time.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

# A piece that stands still is ended by SIGALRM.
SERVER = """
import json, os, signal, sys, traceback
def answer(request):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(120)
        os.dup2(write, 2)
        try:
            sys.argv[1:] = request["arguments"]
            exec(compile(request["code"], "<test>", "exec"), {"__name__": "__main__"})
            code = 0
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stderr.flush()
        os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as errors:
        text = errors.read().decode(errors="replace")
    return {"code": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), "errors": text}
for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
"""


class ForkingPython:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def check(self, code: str, *arguments: str) -> None:
        """Runs the code in a process of its own, where the imports are done already; fails with what it wrote on its stderr."""
        print(json.dumps({"code": code, "arguments": arguments}), file=self._process.stdin, flush=True)
        done = json.loads(self._process.stdout.readline() or '{"code": 1, "errors": "the Python that forks has ended"}')
        assert done["code"] == 0, done["errors"] or f"it ended with {done['code']}"


@contextmanager
def forking_python(python: str, imports: str) -> Iterator[ForkingPython]:
    with subprocess.Popen([python, "-c", imports + SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield ForkingPython(process)
        process.stdin.close()
