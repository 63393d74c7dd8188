"""--standby: scripts that change the state of their process before, between and after their imports, drawn at random, show the
same whether they were started cold or by a standby interpreter. Without ddprun: the test is the agent.

DDPRUN_TEST_TIMES=100 draws 100 times as many; DDPRUN_TEST_SEED repeats one.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support import programs

HOOK = programs.REPOSITORY / "src/program/workers/standby"
TIMES = int(os.environ.get("DDPRUN_TEST_TIMES", "1"))
SCRIPTS_EACH_TIME = 10
pytestmark = pytest.mark.skipif(sys.version_info < (3, 10), reason="a standby interpreter needs Python 3.10 or later")

# Each package says in `seen` what it has found as it was imported. In their order, each imports some before it.
SEEN = """import os, sys
def find(name):
    try:
        return __import__(name).__name__
    except ImportError:
        return "none"
seen = [{version!r}, os.environ.get("V1"), os.environ.get("OMP_NUM_THREADS"), os.getenv("V2", "default"), find("optional"), sys.path[-2:]]
"""
PACKAGES = {
    "alone": "",
    "torch": "import alone\n",
    "sets": "os.environ['V1'] = 'by sets'\nos.environ.pop('V2', None)\n",
    "filters": "import warnings\nwarnings.filterwarnings('ignore', 'from filters')\n",
    "extends": "import alone\nsys.path.append('/extended')\n",
    "finds": "class Finder:\n    def find_spec(self, *_):\n        return None\nsys.meta_path.append(Finder())\nsys.path_hooks.append(Finder)\n",
    "replaces": "class Other(type(sys)):\n    pass\nother = Other(__name__)\nother.__dict__.update(globals())\nsys.modules[__name__] = other\n",
    "both": "import sets, torch, filters\n",
    "package": "import package.inner, alone\n",
    "package.inner": "import extends\n",
    "package.other": "import torch\n",
    "optional": "",
    "mpi4py": "import extends\nos.environ['V2'] = 'by mpi4py'\nimport filters\n",  # which is left out
    "broken": "import extends, filters\nraise ImportError('as it should')\n",
    "lazy": "def later():\n    import both, extends\n",
}
STEPS = (
    [f"import {name}" for name in PACKAGES] * 2 + [f"from {name} import seen" for name in PACKAGES] +
    ["os.environ['V1'] = 'constant'", "os.environ['V2'] = 'constant'", "os.environ['OMP_NUM_THREADS'] = '1'", "os.environ.pop('V2', None)",
     "os.environ['V1'] = attempt", "os.environ['V2'] = 'of ' + attempt", "os.environ['UNREAD'] = str(os.getpid())", "os.environ.update(V1='x', V2='y')",
     "sys.path.insert(0, other)", "sys.path.append(other)", "other in sys.path and sys.path.remove(other)", "sys.path.append('/no/such')",
     "sys.path.insert(0, vendored)", "attempt == '1' and sys.path.insert(0, other)",
     "sys.modules['optional'] = None", "sys.modules.pop('optional', None)", "sys.modules['optional'] = types.ModuleType('optional')",
     "sys.modules['alone'] = types.ModuleType('alone')", "attempt == '1' and sys.modules.__setitem__('optional', None)",
     "warnings.filterwarnings('ignore')", "warnings.simplefilter('once', UserWarning)", "warnings.resetwarnings()",
     "sys.meta_path.insert(0, Blocker('optional'))", "sys.meta_path.pop()", "os.chdir(other)", "os.chdir('/')",
     "builtins.extra = 1", "import own", "import own2", "attempt == '1' and own_import('sets')", "own_import('torch')",
     "lazy = own_import('lazy'); lazy.later()", "in_thread('filters')"])
HEAD = """import builtins, importlib, json, os, sys, threading, types, warnings
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
here = os.path.dirname(os.path.abspath(__file__))
other, vendored = here + "/other/site-packages", here + "/vendored"
errors = []
class Blocker:
    def __init__(self, name):
        self.name = name
    def find_spec(self, name, *_):
        if name == self.name:
            raise ModuleNotFoundError(name)
def own_import(name):
    return importlib.import_module(name)
def in_thread(name):
    thread = threading.Thread(target=exec, args=(f"try:\\n    import {name}\\nexcept ImportError:\\n    pass",))
    thread.start()
    thread.join()
"""
TAIL = """
names = %r
shown = {{"seen": {{name: getattr(sys.modules.get(name), "seen", None) for name in names}}, "loaded": [name for name in names if name in sys.modules],
         "environment": {{name: value for name, value in os.environ.items() if name != "UNREAD"}}, "path": sys.path, "errors": errors,
         "meta_path": [getattr(each, "__name__", type(each).__name__) for each in sys.meta_path], "hooks": len(sys.path_hooks),
         "filters": [str(each) for each in warnings.filters], "folder": os.getcwd(), "own": getattr(sys.modules.get("own"), "value", None)}}
print(json.dumps(shown))
noted = getattr(sys.modules["_frozen_importlib"]._find_and_load, "list", None)
if noted:
    with open(here + "/noted", "w") as file:
        json.dump([each if isinstance(each, str) else json.dumps(each) for each in noted()], file)
""".replace("{{", "{").replace("}}", "}") % (list(PACKAGES),)


def text_of(steps: list[str]) -> str:
    return "".join(f"try:\n    {step}\nexcept Exception as error:\n    errors.append(repr(error))\n" for step in steps)


def write_packages(folder: Path) -> None:
    for site, version in (("site-packages", 1), ("other/site-packages", 2)):
        for name in PACKAGES if version == 1 else ("torch", "alone", "sets"):
            place = folder / site / name.replace(".", "/")
            place.mkdir(parents=True)
            (place / "__init__.py").write_text(SEEN.format(version=f"{name} {version}") + PACKAGES[name])
    (folder / "vendored").mkdir()
    (folder / "vendored/alone.py").write_text("seen = 'vendored'\n")


def write_script(folder: Path, seed: str) -> str:
    drawn = random.Random(seed)
    steps = [drawn.choice(STEPS) for _ in range(drawn.randint(2, 12))]
    for name in ("own", "own2"):  # may import each other
        own = [drawn.choice(STEPS) for _ in range(drawn.randint(1, 4))]
        (folder / f"{name}.py").write_text(HEAD + f"value = {drawn.random()}\n" + text_of(own))
    script = HEAD + text_of(steps) + TAIL
    (folder / "train.py").write_text(script)
    return "\n".join(steps)


class Starts:
    """Of the script in this folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def environment(self, attempt: int, mark: str = "") -> dict[str, str]:
        path = str(self.folder / "site-packages")
        hook = {mark: path} if mark else {}
        return {"PATH": os.environ["PATH"], "PYTHONPATH": f"{HOOK}:{path}" if mark else path, "PYTHONDONTWRITEBYTECODE": "1", "RANK": "0",
                "TORCHELASTIC_RESTART_COUNT": str(attempt), **hook}

    def command(self) -> list[str]:
        return [sys.executable, str(self.folder / "train.py")]

    def cold(self, attempt: int, mark: str = "") -> dict:
        ended = subprocess.run(self.command(), env=self.environment(attempt, mark), cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True,
                               text=True, timeout=60)
        assert ended.returncode == 0 and not ended.stderr, ended.stderr
        return json.loads(ended.stdout)

    def warm(self, attempt: int) -> tuple[str, dict | None]:
        """How it was started, and what it has shown; none where no standby interpreter fits."""
        left_out: set[str] = set()
        while True:
            how, shown = self.warm_without(attempt, left_out)
            package = how.partition(" ")[2].partition(" ")[0]
            if not how.startswith("unfit") or package in ("-", *left_out):
                return how, shown
            left_out.add(package)

    def warm_without(self, attempt: int, left_out: set[str]) -> tuple[str, dict | None]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.settimeout(60)
            process = subprocess.Popen(self.command(), env=self.environment(0, "DDPRUN_STANDBY"), cwd=self.folder, stdin=theirs)
            theirs.close()
            lines = ours.makefile("rb")
            ours.sendall(f"leave-out {','.join(left_out)}\nimport {self.folder / 'noted'}\n".encode())
            answer = lines.readline().decode()
            if not answer.startswith("ready"):
                process.wait(60)
                return answer, None
            environment = "".join(f"{name}={value}\0" for name, value in self.environment(attempt).items()).encode()
            reader, writer = os.pipe()
            errors, error_writer = os.pipe()
            with open(os.devnull) as null, open(reader) as output, open(errors) as complaints:
                socket.send_fds(ours, [f"go {len(environment)}\n".encode()], [null.fileno(), writer, error_writer])
                os.close(writer), os.close(error_writer)
                ours.sendall(environment)
                answer = lines.readline().decode()
                text, complaint = output.read(), complaints.read()
            process.wait(60)
        assert answer == "gone\n" or not text, answer
        if answer != "gone\n":
            return answer, None
        assert "Traceback" not in complaint, complaint
        return ("anew: " + complaint if complaint else "gone"), json.loads(text)


def seeds(given: str | None, count: int) -> list[str]:
    if given:
        return [given]
    first = random.randrange(1 << 30)
    return [f"{first}.{number}" for number in range(count)]


@pytest.mark.timeout(120 + 60 * TIMES)
def test_a_script_that_changes_its_process_between_imports_shows_what_a_cold_start_shows(tmp_path):
    write_packages(tmp_path)
    starts, how_often = Starts(tmp_path), Counter()
    for seed in seeds(os.environ.get("DDPRUN_TEST_SEED"), SCRIPTS_EACH_TIME * TIMES):
        steps = write_script(tmp_path, seed)
        about = f"DDPRUN_TEST_SEED={seed}\n{steps}"
        first = starts.cold(0, "DDPRUN_IMPORTS")
        if random.random() < 0.2:
            assert first == starts.cold(0), about
        how, shown = starts.warm(1)
        if shown is not None:
            assert shown == starts.cold(1), f"{about}\n{how}"
        how_often[how.partition(" ")[0].strip()] += 1
        print(how)
    print(how_often)
    assert os.environ.get("DDPRUN_TEST_SEED") or how_often["gone"], how_often
