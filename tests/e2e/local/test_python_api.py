"""ddprun.launch and ddprun.run, from a Python that has the wheel's package."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.hosts import Result
from support.machine import Machine, Screen
from support.programs import temporary_folder
from support.python_package import install


@pytest.fixture
def package(machine, tmp_path_factory) -> Machine:
    """The machine, with the package and the program under test as pip would install them."""
    machine.environment |= {"PYTHONPATH": str(install(Path(machine.binary), tmp_path_factory.mktemp("environment"))),
                            "PYTHONDONTWRITEBYTECODE": "1"}
    return machine


def run_script(machine: Machine, text: str, python: Path | str = sys.executable, env: dict[str, str] | None = None) -> Result:
    (machine.directory / "script.py").write_text(text)
    return machine.start_program([str(python), "script.py"], env=env).wait(timeout=120)


def printed(result: Result) -> list[str]:
    assert result.code == 0, result
    return result.stdout.splitlines()


def test_the_values_come_back_in_the_order_of_the_ranks(package):
    assert printed(run_script(package, """
import os, time
import ddprun

def product(factor, offset=0):
    time.sleep(0.3 - 0.1 * int(os.environ["RANK"]))
    return factor * int(os.environ["RANK"]) + offset, os.environ["WORLD_SIZE"]

if __name__ == "__main__":
    print(ddprun.launch(product, 3, 7, kwargs={"offset": 1}))
    print(ddprun.launch(os.getenv, None, "LOCAL_RANK"), ddprun.launch(os.getenv, 2, "OURS", env={"OURS": "set"}))
""")) == ["[(1, '3'), (8, '3'), (15, '3')]", "['0'] ['set', 'set']"]


def test_instances_of_a_class_of_the_script_go_there_and_back(package):
    assert printed(run_script(package, """
import dataclasses, os
import ddprun

@dataclasses.dataclass
class Point:
    x: int

def move(point):
    return Point(point.x + int(os.environ["RANK"]))

if __name__ == "__main__":
    print(ddprun.launch(move, 2, Point(5)) == [Point(5), Point(6)])
""")) == ["True"]


def test_the_first_failure_is_an_exception_from_the_one_that_the_function_raised(package):
    lines = printed(run_script(package, """
import os, time
import ddprun

def fail():
    if os.environ["RANK"] == "1":
        raise ValueError("no such layer")
    time.sleep(60)

if __name__ == "__main__":
    try:
        ddprun.launch(fail, 2)
    except ddprun.Failure as failure:
        print(str(failure).replace(failure.host, "HOST"))
        print(failure.rank, failure.code, failure.report["result"], repr(failure.__cause__))
        print(failure.traceback.splitlines()[-1], failure.traceback.count("  File "))
"""))
    assert lines == ["rank 1 on HOST exited with code 1: ValueError: no such layer",
                     "1 1 worker_failed ValueError('no such layer')", "ValueError: no such layer 1"]


def test_an_exception_that_cannot_be_pickled_is_its_text(package):
    assert printed(run_script(package, """
import ddprun

class Odd(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")

def fail():
    raise Odd("this", "that")

if __name__ == "__main__":
    try:
        ddprun.launch(fail, 1)
    except ddprun.Failure as failure:
        print(str(failure).partition(": ")[2], failure.__cause__)
""")) == ["__mp_main__.Odd: this and that None"]


def test_a_worker_that_is_killed_has_its_rank_and_signal(package):
    assert printed(run_script(package, """
import os, signal, time
import ddprun

def die():
    if os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)

if __name__ == "__main__":
    try:
        ddprun.launch(die, 2)
    except ddprun.Failure as failure:
        print(failure.rank, failure.code, failure.report["failure"]["signal"], "was killed by SIGKILL" in str(failure))
""")) == ["1 137 SIGKILL True"]


def test_after_a_restart_the_values_of_the_last_attempt_count(package):
    assert printed(run_script(package, """
import os, time
import ddprun

def attempt():
    number = os.environ["TORCHELASTIC_RESTART_COUNT"]
    if number == "0" and os.environ["RANK"] == "1":
        while not os.path.exists("returned"):
            time.sleep(0.02)
        raise RuntimeError("once")
    open("returned", "w").close()
    return number

if __name__ == "__main__":
    print(ddprun.launch(attempt, 2, options=["--max-restarts", "1"]))
""")) == ["['1', '1']"]


def test_a_value_that_cannot_be_pickled_names_the_rank_and_the_function(package):
    assert printed(run_script(package, """
import os, threading
import ddprun

def lock():
    return threading.Lock() if os.environ["RANK"] == "1" else None

if __name__ == "__main__":
    try:
        ddprun.launch(lock, 2)
    except ddprun.Failure as failure:
        print(str(failure.__cause__).partition(" (")[0], failure.rank)
""")) == ["rank 1: what lock returned cannot be pickled 1"]


def test_a_rank_that_ends_before_the_function_returns_is_named(package):
    result = run_script(package, """
import os
import ddprun

if __name__ == "__main__":
    ddprun.launch(os._exit, 2, 0)
""")
    assert result.code == 1
    assert "RuntimeError: rank 0 returned no value: it ended with exit code 0 before the function returned" in result.stderr


def test_a_script_that_launches_while_it_is_imported_is_one_sentence(package):
    result = run_script(package, """
import ddprun

def nothing():
    pass

ddprun.launch(nothing, 1)
""")
    assert 'put the call below if __name__ == "__main__":' in result.stderr and result.code == 1


# As a notebook: its __main__ has no file.
NOTEBOOK = """
import sys
import ddprun

def twice(number):
    return 2 * number

try:
    print(ddprun.launch({function}, 2, 4))
except TypeError as error:
    print(error)
"""


@pytest.mark.parametrize(("function", "why"), [("twice", "it is defined in __main__, which has no file"),
                                               ("lambda number: 2 * number", "")], ids=["function", "lambda"])
def test_a_function_of_a_notebook_needs_cloudpickle(package, function, why):
    (package.directory / "cloudpickle.py").write_text("raise ImportError\n")
    result = package.start_program([sys.executable, "-c", NOTEBOOK.format(function=function)]).wait()
    [line] = printed(result)
    assert why in line and line.endswith(": install cloudpickle, or put it into a module"), line


@pytest.mark.parametrize("function", ["twice", "lambda number: twice(number)"], ids=["function", "lambda"])
def test_a_function_of_a_notebook_with_cloudpickle(package, function):
    folder = cloudpickle()
    path = f"{package.environment['PYTHONPATH']}:{folder}"
    result = package.start_program([sys.executable, "-c", NOTEBOOK.format(function=function)], env={"PYTHONPATH": path}).wait()
    assert printed(result) == ["[8, 8]"]


def cloudpickle() -> Path:
    """The folder that it can be imported from, of whichever Python has it; it is pure Python."""
    from support import programs
    for python in (sys.executable, programs.torch_python()):
        found = subprocess.run([python, "-c", "import cloudpickle; print(cloudpickle.__file__)"], capture_output=True, text=True)
        if found.returncode == 0:
            return Path(found.stdout.strip()).parent.parent
    pytest.skip("cloudpickle is not installed: scripts/torch-python --frameworks installs it where it is online")


WAIT = """
import os, signal, sys, time
import ddprun

def wait():
    open("began." + os.environ["RANK"], "w").close()
    time.sleep(600)

if __name__ == "__main__":
    {streams}
    try:
        ddprun.launch(wait, 2)
    except KeyboardInterrupt:
        sys.__stdout__.write("interrupted\\n")
"""


@pytest.mark.parametrize("streams", ["pass", "import io; sys.stdout = sys.stderr = io.StringIO()"], ids=["own", "replaced"])
def test_an_interrupt_ends_the_job(package, streams):
    (package.directory / "script.py").write_text(WAIT.format(streams=streams))
    program = package.start_program([sys.executable, "script.py"])
    package.wait_for_files("began.0", "began.1")
    program.send_signal(signal.SIGINT)
    assert printed(program.wait()) == ["interrupted"]


def test_control_c_on_a_terminal_ends_the_job_without_killing_the_workers(package):
    (package.directory / "script.py").write_text(WAIT.format(streams="pass").replace("    time.sleep(600)", """\
    try:
        time.sleep(600)
    finally:
        time.sleep(0.5)
        open("saved." + os.environ["RANK"], "w").close()"""))
    screen = Screen(package, [sys.executable, "script.py"])
    package.wait_for_files("began.0", "began.1")
    screen.type("\x03")
    assert screen.wait() == 0 and "interrupted" in screen.text, screen.text
    assert {"saved.0", "saved.1"} <= {path.name for path in package.directory.iterdir()}


def test_a_second_interrupt_kills_the_workers(package):
    (package.directory / "script.py").write_text(WAIT.format(streams="pass").replace("    time.sleep(600)", """\
    def note(number, frame):
        open("told." + os.environ["RANK"], "w").close()
    signal.signal(signal.SIGINT, note)
    open("ready." + os.environ["RANK"], "w").close()
    time.sleep(600)"""))
    program = package.start_program([sys.executable, "script.py"])
    package.wait_for_files("ready.0", "ready.1")
    program.send_signal(signal.SIGINT)
    package.wait_for_files("told.0", "told.1")
    time.sleep(0.2)  # within 100 ms ddprun takes it as the first one
    program.send_signal(signal.SIGINT)
    result = program.wait()
    assert printed(result) == ["interrupted"] and "killing the remaining processes" in result.stderr, result


def test_sigterm_ends_the_job_and_then_the_script(package):
    (package.directory / "script.py").write_text(WAIT.format(streams="pass"))
    program = package.start_program([sys.executable, "script.py"])
    package.wait_for_files("began.0", "began.1")
    program.send_signal(signal.SIGTERM)
    program.wait()
    assert program.popen.returncode == -signal.SIGTERM
    assert package.processes() == []


def test_an_interrupt_of_a_notebook_reaches_the_whole_process_group_once(package):
    (package.directory / "script.py").write_text(WAIT.format(streams="pass").replace("    time.sleep(600)", """\
    def note(number, frame):
        with open("signals." + os.environ["RANK"], "a") as file:
            file.write("1")
        time.sleep(0.5)
        sys.exit(3)
    signal.signal(signal.SIGINT, note)
    open("ready." + os.environ["RANK"], "w").close()
    time.sleep(600)"""))
    program = package.start_program([sys.executable, "script.py"], start_new_session=True)
    package.wait_for_files("ready.0", "ready.1")
    os.killpg(program.pid, signal.SIGINT)
    assert printed(program.wait()) == ["interrupted"]
    assert [(package.directory / f"signals.{rank}").read_text() for rank in (0, 1)] == ["1", "1"]


def test_output_goes_to_what_has_replaced_the_streams(package):
    """As in a notebook and under pytest."""
    assert printed(run_script(package, """
import io, sys
import ddprun

out, err = io.StringIO(), io.StringIO()
sys.stdout, sys.stderr = out, err
try:
    ddprun.run(["--nproc-per-node", "1", "--no-python", "sh", "-c", "echo grüße; echo bad >&2; exit 3"])
except ddprun.Failure as failure:
    sys.stdout = sys.__stdout__
    print(out.getvalue().strip(), "bad" in err.getvalue().splitlines(), failure.code, failure.output)
""", env={"PYTHONIOENCODING": "utf-8"})) == ["grüße True 3 bad"]


def test_run_is_the_command_line(package):
    lines = printed(run_script(package, """
import json, os, pickle, sys
import ddprun

print(ddprun.run(["--no-python", "true"]).report["result"])
print(ddprun.run(["--no-python", "false"], check=False).code)
print(json.loads(ddprun.run(["--dry-run=json", sys.executable], capture=True).stdout)["format"])
print(ddprun.run(["--report", "mine.json", "--no-python", "true"]).report["exit_code"])
print(ddprun.run(["--no-python", "true"], env={"DDPRUN_REPORT": "ours.json"}).report["exit_code"], os.path.exists("ours.json"))
try:
    ddprun.run(["--nnode-typo", "2"], capture=True)
except ddprun.Failure as failure:
    print(failure.code, failure.rank, str(failure).splitlines()[0])
    print(vars(pickle.loads(pickle.dumps(failure))) == vars(failure))
"""))
    assert lines[0] == "succeeded" and lines[1] == "1" and lines[3] == "0"
    assert lines[4:] == ["0 True", "2 None unknown option --nnode-typo", "True"]
    assert json.loads((package.directory / "mine.json").read_text())["result"] == "succeeded"


def test_an_error_of_the_launcher_is_in_the_exception_without_capture_too(package):
    lines = printed(run_script(package, """
import ddprun

for arguments in (["--nnode-typo", "2"], ["--no-python", "/nonexistent"]):
    try:
        ddprun.run(arguments)
    except ddprun.Failure as failure:
        print(failure.code, str(failure).splitlines())
"""))
    assert lines[0].startswith("2 ['unknown option --nnode-typo"), lines
    assert lines[1].startswith("127 ['cannot start /nonexistent on "), lines


def test_an_error_of_the_front_end_is_in_the_exception(reachable, directory, binary):
    environment = {"PYTHONPATH": str(install(binary, directory / "environment")), "PYTHONDONTWRITEBYTECODE": "1"}
    (directory / "script.py").write_text("""
import ddprun

for hosts in ("a,nowhere", "nowhere,elsewhere"):
    try:
        ddprun.run(["--hosts", hosts, "--no-python", "sleep", "600"])
    except ddprun.Failure as failure:
        print(failure.code, str(failure).splitlines()[0])
""")
    result = reachable["a"].run([sys.executable, "script.py"], env=environment, cwd=directory)
    lines = result.stdout.splitlines()
    assert len(lines) == 2 and all(re.match("125 cannot start ddprun on (nowhere|elsewhere): ssh ended with 255: ", line) for line in lines), str(result)


def test_a_string_is_no_list_of_arguments_and_no_function(package):
    assert printed(run_script(package, """
from pathlib import Path
import ddprun

if __name__ == "__main__":
    for call in (lambda: ddprun.run("--nproc-per-node 2 'my train.py'"), lambda: ddprun.run(Path("train.py")),
                 lambda: ddprun.launch("train", 2), lambda: ddprun.launch(None)):
        try:
            call()
        except TypeError as error:
            print(error)
""")) == ["ddprun.run() takes a list of arguments: ddprun.run(['--nproc-per-node', '2', 'my train.py'])",
          "ddprun.run() takes a list of arguments: ddprun.run(['train.py'])",
          "ddprun.launch() takes a function, not 'train': ddprun.launch(train, 2)",
          "ddprun.launch() takes a function, not None: ddprun.launch(function, nproc)"]


BELOW = """
import ddprun

if __name__ == "__main__":
    def twice(number):
        return 2 * number
    try:
        print(ddprun.launch(twice, 2, 4))
    except TypeError as error:
        print(error)
"""


def test_a_function_below_main_is_sent_by_cloudpickle_or_explained(package):
    path = f"{package.environment['PYTHONPATH']}:{cloudpickle()}"
    assert printed(run_script(package, BELOW, env={"PYTHONPATH": path})) == ["[8, 8]"]
    (package.directory / "cloudpickle.py").write_text("raise ImportError\n")
    assert printed(run_script(package, BELOW)) == [
        'twice is defined below if __name__ == "__main__":, which workers do not run: define it above that line, or install cloudpickle']


def test_a_class_below_main_is_explained_by_the_worker(package):
    result = run_script(package, """
import ddprun

if __name__ == "__main__":
    class Point:
        pass
    ddprun.launch(print, 2, Point())
""")
    assert result.code == 1 and ('a worker imports the script without what is below if __name__ == "__main__":; '
                                 "define it above that line") in result.stderr, result


def test_functions_that_do_not_train_together_are_no_mistake(package):
    result = run_script(package, """
import os
import ddprun

if __name__ == "__main__":
    print(ddprun.launch(os.getenv, 2, "RANK"))
""")
    assert (result.code, result.stdout, result.stderr) == (0, "['0', '1']\n", "")


def test_a_python_that_is_killed_takes_the_job_with_it(package):
    (package.directory / "script.py").write_text(WAIT.format(streams="pass"))
    program = package.start_program([sys.executable, "script.py"])
    package.wait_for_files("began.0", "began.1")
    program.send_signal(signal.SIGKILL)
    result = program.wait()
    assert "stopped by SIGTERM" in result.stderr and package.processes() == [], result
    [left] = package.temporary.iterdir()  # the folder of the launch: whoever removes it has been killed
    assert left.name.startswith("ddprun-")
    shutil.rmtree(left)


def test_an_exception_of_the_users_own_handler_ends_the_job(package):
    (package.directory / "script.py").write_text(WAIT.format(streams="signal.signal(signal.SIGUSR1, lambda *_: sys.exit(5))"))
    program = package.start_program([sys.executable, "script.py"])
    package.wait_for_files("began.0", "began.1")
    program.send_signal(signal.SIGUSR1)
    assert program.wait().code == 5


def test_without_the_program_the_package_says_how_to_get_it(package):
    record = next(Path(package.environment["PYTHONPATH"]).glob("*.dist-info/RECORD"))
    record.write_text("")
    result = run_script(package, "import ddprun\nddprun.run(['--version'])\n")
    assert "FileNotFoundError: the program of the package ddprun is missing; pip install" in result.stderr
    module = package.start_program([sys.executable, "-m", "ddprun", "--version"]).wait()
    assert module.code == 1 and module.stderr.startswith("ddprun: the program of the package ddprun is missing")


def test_workers_find_no_folder_of_another_host(package):
    result = run_script(package, """
import os, shutil, ddprun
from ddprun import _launch

if __name__ == "__main__":
    _launch.PrivateFolder.write = lambda folder, name, data: None  # as on a host that does not share the folder
    ddprun.launch(os.getpid, 1)
""")
    assert "its argument folder has to name one that all hosts share" in result.stderr and result.code == 1


def test_hosts_that_share_the_folder_run_one_launch(reachable, directory, binary):
    environment = {"PYTHONPATH": str(install(binary, directory / "environment")), "PYTHONDONTWRITEBYTECODE": "1"}
    (directory / "script.py").write_text("""
import os, sys
import ddprun

def place(fail):
    host = os.uname().nodename
    if fail and host == "b":
        raise ValueError("not here")
    return host, os.environ["RANK"]

if __name__ == "__main__":
    hosts = ["--hosts", "a,b", "--quiet"]
    print(ddprun.launch(place, 1, False, options=hosts, folder="."))
    try:
        ddprun.launch(place, 1, True, options=hosts, folder=".")
    except ddprun.Failure as failure:
        print(failure.host, failure.rank, repr(failure.__cause__))
    ddprun.launch(place, 1, False, options=hosts)
""")
    result = reachable["a"].run([sys.executable, "script.py"], env=environment, cwd=directory)
    assert result.stdout.splitlines() == ["[('a', '0'), ('b', '1')]", "b 1 ValueError('not here')"], str(result)
    assert result.code == 1 and "its argument folder has to name one that all hosts share" in result.stderr, str(result)


def test_a_real_all_reduce(package, torch_python):
    result = run_script(package, """
import os
import ddprun

def total():
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    tensor = torch.tensor([float(dist.get_rank() + 1)])
    dist.all_reduce(tensor)
    dist.destroy_process_group()
    return tensor

if __name__ == "__main__":
    import sys
    values = ddprun.launch(total, 2)
    print([value.item() for value in values])
""", python=torch_python)
    assert printed(result)[-1:] == ["[3.0, 3.0]"]


def test_the_folder_of_a_launch_is_private_and_removed(package):
    lines = printed(run_script(package, """
import os, stat, sys
import ddprun

def modes(folder):
    made = [entry for entry in os.scandir(folder) if entry.name.startswith("ddprun-") and entry.name != "x"]
    return sorted(oct(stat.S_IMODE(os.stat(os.path.join(entry, name)).st_mode)) for entry in made
                  for name in (".", "function"))

if __name__ == "__main__":
    os.mkdir("shared")
    os.umask(0)
    print(ddprun.launch(modes, 1, "shared", folder="shared"), os.listdir("shared"))
"""))
    assert lines == ["[['0o600', '0o700']] []"]


def test_a_folder_that_all_users_can_change_is_refused(package):
    (package.directory / "open").mkdir()
    (package.directory / "open").chmod(0o777)
    result = run_script(package, "import os, ddprun\nif __name__ == '__main__':\n    ddprun.launch(os.getpid, 1, folder='open')\n")
    assert result.code == 1 and ("PermissionError: ddprun.launch: open can be changed by all users (mode 0777 without the sticky bit); "
                                 "chmod +t open, or name another folder") in result.stderr, str(result)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("what, said", [
    ("folder", "belongs to user 4711, not to user 0"),
    ("link", "Not a directory"),
])
def test_nothing_that_another_user_has_put_in_the_folders_place_is_unpickled(package, what, said):
    attack = """
import os, pickle, sys
private, what = sys.argv[1:]
class Theirs:
    def __reduce__(self):
        return os.system, ("echo THEIRS",)
os.rename(private, private + ".moved")
os.umask(0)
place = private + ".link" if what == "link" else private
os.mkdir(place, 0o777)
for name in ("function", "value.0"):
    with open(os.path.join(place, name), "wb") as file:
        file.write(pickle.dumps(Theirs()))
if what == "link":
    os.symlink(place, private)
"""
    shared = temporary_folder()
    os.chown(shared, 0, 4711)
    shared.chmod(0o2775)
    result = run_script(package, f"""
import os, subprocess, sys
import ddprun
from ddprun import _launch

run_in = _launch.run_in

def attacked(arguments, private, **more):
    subprocess.run([sys.executable, "-c", {attack!r}, str(private), "{what}"], cwd="/", user=4711, group=4711, extra_groups=[], check=True)
    return run_in(arguments, private, **more)

if __name__ == "__main__":
    _launch.run_in = attacked
    ddprun.launch(os.getpid, 1, folder="{shared}")
""")
    assert result.code == 1 and said in result.stderr and "THEIRS" not in result.stdout + result.stderr, str(result)
