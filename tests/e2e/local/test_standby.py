"""--standby: a worker of the next attempt is a Python that has imported everything, and its script cannot tell."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support import programs
from support.hosts import wait_until
from support.machine import Machine, Screen
from support.programs import SCRIPTS

FACTS = SCRIPTS / "start_facts.py"
K_ATTEMPTS = ("--standby", "--max-restarts", "1", "--restart-policy", "always", "--events", "events")
# New for each attempt, cold or not.
OF_ATTEMPT = re.compile(r"TORCHELASTIC_(RESTART_COUNT|ERROR_FILE)|MASTER_PORT|DDPRUN_\w+")


@dataclass
class Way:
    """To start the script."""

    command: list[str]
    env: dict[str, str] = field(default_factory=dict)


WAYS = {
    "script": Way(["facts.py", "a", "--b=c"]),
    "options of Python": Way(["--no-python", "PYTHON", "-u", "-B", "-X", "dev", "-X", "own=1", "-W", "ignore::UserWarning", "facts.py"]),
    "module": Way(["-m", "facts", "a"]),
    "module of a package": Way(["-m", "package.facts"]),
    "package": Way(["-m", "package"]),
    "code": Way(["--no-python", "PYTHON", "-c", "import sys; exec(open('facts.py').read())", "a"]),
    "folder": Way(["--no-python", "PYTHON", "package"]),
    "archive": Way(["--no-python", "PYTHON", "archive.zip"]),
    "link": Way(["link.py"]),
    "path": Way(["--no-python", "PYTHON", "-P", "package/../facts.py"]),
    "customised": Way(["facts.py"], {"PYTHONPATH": "customs"}),
    "tracer": Way(["facts.py"], {"PYTHONPATH": "customs", "CUSTOMS": "trace"}),
}
# The rows of the table in docs/restarts.md, and what start_facts.py tells of each.
SAME = {
    "command": ["argv", "orig_argv", "command", "executable", "prefix"],
    "options of Python": ["flags", "xoptions", "warnoptions", "filters", "dont_write_bytecode"],
    "script": ["file", "spec", "package", "loader", "doc", "same main", "builtins", "parents"],
    "ways to import": ["path", "meta_path", "hooks"],
    "hooks": ["customised", "users", "hook"],
    "streams": ["stdin", "stdout", "stderr"],
    "process": ["folder", "pid leads", "umask", "limits", "descriptors", "oom"],
    "cores": ["cpus", "nice", "policy", "threads of torch"],
    "signals": ["signals", "mask"],
    "environment": ["environment", "children's", "locale"],
    "interpreter": ["gc", "recursion", "threads"],
}


@pytest.fixture
def folder(machine) -> Path:
    """With the script in every place from which WAYS starts it."""
    folder = machine.directory
    shutil.copy(FACTS, folder / "facts.py")
    (folder / "package").mkdir()
    for name in ("facts.py", "__main__.py"):
        shutil.copy(FACTS, folder / "package" / name)
    (folder / "package/__init__.py").touch()
    (folder / "linked").mkdir()
    shutil.copy(FACTS, folder / "linked/there.py")
    (folder / "link.py").symlink_to("linked/there.py")
    with zipfile.ZipFile(folder / "archive.zip", "w") as archive:
        archive.write(FACTS, "__main__.py")
    (folder / "customs").mkdir()
    (folder / "customs/sitecustomize.py").write_text("import os\nopen('customised', 'a').write(f'{os.getpid()} {__name__}\\n')\n"
                                                     "if os.environ.get('CUSTOMS'):\n    import sys\n    sys.settrace(lambda *_: None)\n")
    return folder


def start_again(machine: Machine, python: Path, *command: str, env: dict[str, str] | None = None):
    """Two attempts of a program that fails; the text on standard error, and what starts() says."""
    words = [str(python) if word == "PYTHON" else word for word in command]
    result = machine.start(*K_ATTEMPTS, *words, env={"PYTHON_EXEC": str(python), **(env or {})}).wait(timeout=240)
    assert result.code == 1, result
    return result.stderr, starts(machine)


def starts(machine: Machine) -> list[str]:
    """What the events say of the starts of the second attempt."""
    events = [json.loads(line) for line in (machine.directory / "events").read_text().splitlines()]
    return [event.get("what") for event in events if event["event"] == "start" and event["attempt"] == 1]


def waiting(ddprun: int) -> list[int]:
    """The standby interpreters of this ddprun."""
    children = Path(f"/proc/{ddprun}/task/{ddprun}/children").read_text().split()
    found = []
    for child in children:
        with contextlib.suppress(OSError):  # gone meanwhile
            if b"DDPRUN_STANDBY=" in Path(f"/proc/{child}/environ").read_bytes():
                found.append(int(child))
    return found


def facts_of(machine: Machine, attempt: int, rank: int = 0) -> dict:
    facts = json.loads((machine.directory / f"facts.{attempt}.{rank}").read_text())
    for name in ("environment", "children's"):
        pairs = facts[name] if isinstance(facts[name], dict) else dict(each.split("=", 1) for each in facts[name] if "=" in each)
        facts[name] = {key: value for key, value in pairs.items() if not OF_ATTEMPT.fullmatch(key)}
    return facts


def tracebacks(text: str) -> list[str]:
    return re.findall(r"Traceback .*?ValueError: as it should", text, re.DOTALL)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_script_sees_the_same_as_in_a_cold_start(machine, torch_python, folder, way):
    text, started = start_again(machine, torch_python, *way.command, env=way.env)
    assert started == ["by a standby interpreter"]
    cold, warm = facts_of(machine, 0), facts_of(machine, 1)
    loaded = [set(facts.pop("loaded")) for facts in (cold, warm)]
    assert loaded[0] <= loaded[1]
    assert sorted(cold) == sorted(name for names in SAME.values() for name in names)
    for row, names in SAME.items():
        assert {name: warm[name] for name in names} == {name: cold[name] for name in names}, row
    first, second, *_ = tracebacks(text)  # the report has the last one again
    assert first == second
    if way.env:
        assert len((folder / "customised").read_text().splitlines()) == 2  # once in each worker


def test_the_table_of_what_is_the_same_has_the_rows_that_are_tested():
    table = (programs.REPOSITORY / "docs/restarts.md").read_text().partition("| the same | which is |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (.*?) \|", table, re.MULTILINE)
    assert sorted(rows) == sorted([*SAME, "tracebacks", "state of an import"])  # the last: test_standby_imports.py


def test_a_pth_file_runs_as_often_as_in_a_cold_start(machine, torch_python, folder):
    """Of an environment of its own, in which the packages of the other one are found by such a file too."""
    subprocess.run([torch_python, "-m", "venv", "--without-pip", "--symlinks", folder / "venv"], check=True)
    [site] = (folder / "venv/lib").glob("python*/site-packages")
    packages = subprocess.run([torch_python, "-c", "import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))"],
                              capture_output=True, text=True, check=True).stdout
    (site / "torch.pth").write_text(packages)
    (site / "hook.pth").write_text(f"import os; os.environ.get('RANK') and open({str(folder / 'hooked')!r}, 'a').write(f'{{os.getpid()}}\\n')\n")
    _, started = start_again(machine, folder / "venv/bin/python", "facts.py")
    assert started == ["by a standby interpreter"]
    facts = [facts_of(machine, attempt) for attempt in (0, 1)]
    loaded = [set(each.pop("loaded")) for each in facts]
    assert facts[0] == facts[1] and loaded[0] <= loaded[1]
    cold, warm = Counter((folder / "hooked").read_text().split()).values()  # of each process; Python itself may do so twice
    assert cold == warm


# Packages as pip installs them, for a script that imports what it is told and then does as start_facts.py does.
PACKAGES = {
    "harmless": "",
    "sets_variable": "import os\nos.environ['SET_BY_IMPORT'] = 'yes'\n",
    "opens_socket": "import socket\nkept = socket.socket()\n",
    "needs_socket": "import opens_socket\n",
    "starts_thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True, name='beat').start()\n",
    "starts_process": "import subprocess\nkept = subprocess.Popen(['sleep', '600'])\n",
    "mpi4py": "",  # would start MPI
    "reads_rank": "import os\nrank = os.environ['RANK']\n",
    "reads_attempt": "import os\nattempt = os.getenv('TORCHELASTIC_RESTART_COUNT')\n",
    "copies_all": "import os\nall = dict(os.environ)\n",
    "asks_for_own": "import importlib.util\nfound = importlib.util.find_spec('own')\n",
}
SCRIPT = ("import sys, time\nstood_by = getattr(sys.modules['_frozen_importlib']._find_and_load, 'hidden', {{}})\n"
          "loaded = [name for name in {names!r} if name in sys.modules or name in stood_by]\nimport own\n{imports}\n")


@pytest.fixture
def packages(folder) -> Path:
    site = folder / "site-packages"
    for name, text in PACKAGES.items():
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").write_text(text)
    return site


def loaded_before(machine: Machine, python: Path, names: list[str], others: list[str] = ()) -> tuple[list[str], str]:
    """Which of these packages were loaded before the second attempt's script began, and what the events say of its start."""
    folder = machine.directory
    (folder / "own.py").write_text("value = 1\n")
    imports = "".join(f"import {name}\n" for name in [*names, *others])
    (folder / "train.py").write_text(
        SCRIPT.format(names=[*names, "torch", "own", *others], imports=imports) + f"open({str(folder / 'loaded')!r}, 'w').write(' '.join(loaded))\n" + FACTS.read_text())
    path = f"{folder / 'site-packages'}:{folder / 'customs'}"
    _, started = start_again(machine, python, "train.py", env={"PYTHONPATH": path, "FACTS": str(folder)})
    return (folder / "loaded").read_text().split(), *started


def test_the_scripts_own_modules_are_not_imported_and_packages_are(machine, torch_python, packages):
    elsewhere = [f"elsewhere{number}" for number in range(20)]  # on PYTHONPATH, and not installed
    for name in elsewhere:
        (machine.directory / "customs" / f"{name}.py").touch()
    names = ["harmless", "sets_variable", "reads_rank"]
    assert loaded_before(machine, torch_python, names, elsewhere) == ([*names, "torch"], "by a standby interpreter")
    environment = facts_of(machine, 1)["environment"]
    assert environment == facts_of(machine, 0)["environment"] and environment["SET_BY_IMPORT"] == "yes"


def test_a_package_that_does_more_than_to_wait_is_left_out(machine, torch_python, packages):
    names = ["opens_socket", "needs_socket", "starts_thread", "starts_process", "mpi4py", "asks_for_own", "harmless"]
    assert loaded_before(machine, torch_python, names) == (["harmless", "torch"], "by a standby interpreter")


@pytest.mark.parametrize(("package", "variable"), [("reads_attempt", "TORCHELASTIC_RESTART_COUNT"), ("copies_all", "MASTER_PORT")])
def test_a_variable_that_an_import_has_read_must_be_the_same(machine, torch_python, packages, package, variable):
    assert loaded_before(machine, torch_python, [package]) == (
        [], f"without a standby interpreter: {variable} has changed, and was used by an import")


# In its first attempt, once there is a standby interpreter, this edits a file and fails.
EDITS = """import harmless, own
sys.path.append("elsewhere")
import far
write_facts()
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    time.sleep(1.1)
    open({path!r}, "a").write("value = 2\\n")
    sys.exit(3)
print("values", getattr(harmless, "value", 1), own.value, far.value, flush=True)
sys.exit(0)
"""


@pytest.mark.parametrize(("edited", "values", "says"), [
    ("own.py", "values 1 2 1", "by a standby interpreter"),
    ("elsewhere/far.py", "values 1 1 2", "by a standby interpreter"),
    ("site-packages/harmless/__init__.py", "values 2 1 1", "without a standby interpreter: {path} has changed"),
], ids=["own", "in a folder that the script adds to sys.path", "package"])
def test_code_that_has_been_edited_runs(machine, torch_python, packages, edited, values, says):
    folder = machine.directory
    (folder / "own.py").write_text("value = 1\n")
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere/far.py").write_text("value = 1\n")
    script = FACTS.read_text().partition("\nwrite_facts()")[0] + EDITS.format(path=str(folder / edited))
    (folder / "train.py").write_text(script)
    result = machine.start(*K_ATTEMPTS, "train.py", env={"PYTHON_EXEC": str(torch_python), "PYTHONPATH": str(packages)}).wait(timeout=120)
    assert result.code == 0 and result.stdout.splitlines() == [values], result
    assert starts(machine) == [says.format(path=folder / edited)]


# Sets what its imports find, as many scripts do.
SETS = """import os, sys
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["HF_HOME"] = "/scratch/me"
sys.path.insert(0, os.environ["FACTS"] + "/newer/site-packages")
sys.modules["harmless"] = None
{more}
import config, versioned
import torch
print("found", torch.get_num_threads(), config.home, config.optional, versioned.version, flush=True)
"""


def write_setting_script(folder: Path, packages: Path, more: str) -> None:
    for site, version in ((packages, 1), (folder / "newer/site-packages", 2)):
        (site / "versioned").mkdir(parents=True)
        (site / "versioned/__init__.py").write_text(f"version = {version}\n")
    (packages / "config").mkdir()
    (packages / "config/__init__.py").write_text("import os\nhome = os.environ.get('HF_HOME', 'default')\ntry:\n    import harmless\n    optional = True\n"
                                                 "except ImportError:\n    optional = False\n")
    (folder / "train.py").write_text(SETS.format(more=more) + FACTS.read_text())


def test_a_package_finds_what_the_script_has_set_before_it_is_imported(machine, torch_python, packages):
    write_setting_script(machine.directory, packages, "")
    result = machine.start(*K_ATTEMPTS, "train.py", env={"PYTHON_EXEC": str(torch_python), "PYTHONPATH": str(packages),
                                                         "FACTS": str(machine.directory)}).wait(timeout=240)
    assert result.stdout.splitlines() == ["found 1 /scratch/me False 2"] * 2, result
    assert starts(machine) == ["by a standby interpreter"]


@pytest.mark.parametrize(("more", "says"), [
    ("os.chdir('/')", "the script changes to / before it imports config"),
    ("sys.meta_path.insert(0, type('Finder', (), {'find_spec': lambda *_: None})())", "the script changes sys.meta_path before it imports config"),
], ids=["another folder", "another finder"])
def test_what_cannot_be_repeated_before_an_import_makes_the_restart_cold(machine, torch_python, packages, more, says):
    folder = machine.directory
    waits = "\nimport time\nwhile not os.path.exists(os.environ['FACTS'] + '/go'):\n    time.sleep(0.1)\nsys.exit(1)\n"
    write_setting_script(folder, packages, more)
    (folder / "train.py").write_text(SETS.format(more=more) + waits)
    with open(folder / "stderr", "w") as stderr:
        program = machine.start("-v", *K_ATTEMPTS, "train.py", stderr=stderr, env={
            "PYTHON_EXEC": str(torch_python), "PYTHONPATH": str(packages), "FACTS": str(folder)})
        # Before that another one is prepared each time, and would be found at its imports (StandbyPlan::k_most_failures).
        wait_until("it is given up", lambda: (folder / "stderr").read_text().count(f"ends: {says}") == 8, 120)
        (folder / "go").touch()
        result = program.wait(timeout=120)
    assert result.stdout.splitlines() == ["found 1 /scratch/me False 2"] * 2, result
    assert starts(machine) == ["without a standby interpreter: " + says]


def test_a_script_that_sets_something_else_after_a_restart_starts_python_anew(machine, torch_python, packages):
    (packages / "config").mkdir()
    (packages / "config/__init__.py").write_text("import os\nhome = os.environ.get('HF_HOME', 'default')\n")
    (machine.directory / "train.py").write_text("import os\nos.environ['HF_HOME'] = os.environ['TORCHELASTIC_RESTART_COUNT']\nimport config, torch\n"
                                                "print('found', config.home, flush=True)\n" + FACTS.read_text())
    result = machine.start(*K_ATTEMPTS, "train.py", env={"PYTHON_EXEC": str(torch_python), "PYTHONPATH": str(packages)}).wait(timeout=240)
    assert result.stdout.splitlines() == ["found 0", "found 1"], result
    assert starts(machine) == ["by a standby interpreter"]
    assert ("ddprun: rank 0 starts Python anew instead of going on from --standby: HF_HOME is not that of the attempt before as config "
            "is imported\n") in result.stderr, result


@pytest.mark.parametrize("number", [None, signal.SIGKILL, signal.SIGINT], ids=["as it is", "killed", "interrupted"])
def test_a_standby_interpreter_that_is_killed_is_replaced(machine, torch_python, folder, number):
    program = machine.start("-v", *K_ATTEMPTS, "--nproc-per-node", "2", "facts.py", env={"PYTHON_EXEC": str(torch_python)})
    first = wait_until("one waits", lambda: waiting(program.pid), 60)[0]
    wait_until("the kernel would kill it first", lambda: Path(f"/proc/{first}/oom_score_adj").read_text() == "1000\n", 20)
    if number:
        os.kill(first, number)
    result = program.wait(timeout=120)
    assert result.code == 1 and starts(machine) == ["by a standby interpreter"] * 2, result
    assert ("it has ended" in result.stderr) == bool(number) and "KeyboardInterrupt" not in result.stderr, result


def test_some_workers_of_a_node_have_one(machine, torch_python, folder):
    options = ("--standby=1", *K_ATTEMPTS[1:], "--nproc-per-node", "2")
    result = machine.start(*options, "facts.py", env={"PYTHON_EXEC": str(torch_python), "FEW": "yes"}).wait(timeout=120)
    says = starts(machine)
    assert len(says) == 2 and says.count("by a standby interpreter") == 1, result


def test_a_terminal_is_one_in_both_attempts(machine, torch_python, folder):
    screen = Screen(machine, [machine.binary, *K_ATTEMPTS, "--no-python", str(torch_python), "facts.py"])
    assert screen.wait() == 1, screen.text
    assert starts(machine) == ["by a standby interpreter"], screen.text
    cold, warm = facts_of(machine, 0), facts_of(machine, 1)
    assert cold["stdout"]["terminal"] and cold["stdin"]["terminal"]
    assert {**warm, "loaded": 0} == {**cold, "loaded": 0}


def test_none_is_left_when_the_job_is_killed_or_interrupted(machine, torch_python, folder):
    for number in (signal.SIGKILL, signal.SIGTERM):
        program = machine.start(*K_ATTEMPTS, "facts.py", env={"PYTHON_EXEC": str(torch_python)})
        wait_until("one waits", lambda: waiting(program.pid), 60)  # noqa: B023
        program.send_signal(number)
        program.wait()
        wait_until("none is left", lambda: not machine.processes(), 20)


def test_one_that_needs_too_much_memory_is_not_kept(machine, torch_python, folder):
    result = machine.start(*K_ATTEMPTS, "--standby-memory", "10M", "facts.py",
                           env={"PYTHON_EXEC": str(torch_python), "NONE": "yes"}).wait(timeout=120)
    [says] = starts(machine)
    assert says.startswith("without a standby interpreter: it uses ") and says.endswith("more than --standby-memory (10 MiB)"), result
