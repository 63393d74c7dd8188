"""Runs tests from a copy of the checkout that its owner alone can enter, as most homes are: end-to-end tests, and as the
owner, who is not root, what needs no root.

    run_in_closed_home.py PROCESS_TESTS ARGUMENT...   the arguments are pytest's

With root's help the copy has the build folder of the checkout, so that nothing of it can be reached another way.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from support.run_directory import RunDirectory

TOP = Path(__file__).resolve().parents[2]
OWNER = 1  # `daemon`, whom every system has; the other users of the tests are others
OWNERS_TESTS = ["documents", "examples/test_readme.py", "local/test_surroundings_of_start.py", "local/test_failures.py"]
# Sanitizers need descriptors themselves.
NOT_SANITIZED = "local/test_surroundings_of_start.py::test_two_nodes_with_few_open_files_work_or_say_why_not[24]"
SKIPPED = 77


def copy_checkout(home: Path) -> Path:
    """Without a right for anybody but the owner."""
    there = home / "checkout"
    shutil.copytree(TOP, there, symlinks=True, ignore=lambda folder, names: {
        name for name in names if name == "__pycache__" or (Path(folder) == TOP and name in ("build", ".git"))})
    (there / "build").mkdir()
    for path in [there, *there.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o700)
        if os.geteuid() == 0:
            os.chown(path, OWNER, OWNER, follow_symlinks=False)
    return there


def seen_there(path: str, checkout: Path) -> str:
    """What lies in the build folder, where it is mounted."""
    if os.path.ismount(checkout / "build") and Path(path).is_relative_to(TOP / "build"):
        return str(checkout / "build" / Path(path).relative_to(TOP / "build"))
    return path


def run(name: str, command: list[str], environment: dict[str, str], folder: Path) -> int:
    print(f"\n{name}", flush=True)
    code = subprocess.run(command, env=environment, cwd=folder).returncode
    print(f"{name}: exit code {code}", flush=True)  # where a long output is cut, its end is kept
    return code


def run_as_owner(program: str, pytest: list[str], environment: dict[str, str], folder: Path) -> list[int]:
    owner = ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups"] if os.geteuid() == 0 else []
    codes = [run("as an ordinary user: end-to-end tests", [*owner, *pytest, "--deselect", NOT_SANITIZED, *OWNERS_TESTS], environment, folder)]
    # Its data has the path that it had when it was built.
    if subprocess.run([*owner, "test", "-x", program, "-a", "-r", str(TOP / "tests" / "data")]).returncode == 0:
        codes.append(run(f"as an ordinary user: {program}", [*owner, program], environment, folder))
    else:
        print(f"\nskipped: an ordinary user cannot reach {program} and its data in {TOP / 'tests'}")
    return codes


def run_all(checkout: Path, program: str, arguments: list[str]) -> int:
    """As root in a mount namespace that nothing else is in."""
    if os.geteuid() == 0:
        subprocess.run(["mount", "--bind", TOP / "build", checkout / "build"], check=True)
    environment = os.environ | {name: seen_there(os.environ[name], checkout) for name in os.environ if name.startswith("DDPRUN_TEST_")}
    folder = checkout / "tests" / "e2e"
    pytest = [sys.executable, "-u", "-m", "pytest", *(argument for argument in arguments if not argument.endswith(".py"))]
    tests = [argument for argument in arguments if argument.endswith(".py")]
    codes = [run("end-to-end tests", [*pytest, *tests], environment, folder)]
    names = {"HOME": str(checkout.parent), "USER": "daemon", "LOGNAME": "daemon", "TMPDIR": "/tmp"}
    codes += run_as_owner(seen_there(program, checkout), pytest, environment | names, folder)
    return next((code for code in codes if code not in (0, SKIPPED)), 0 if 0 in codes else SKIPPED)


def main() -> int:
    if sys.argv[1] == "--checkout":
        return run_all(Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
    enter = ["unshare", "--mount"] if os.geteuid() == 0 else []
    probe = subprocess.run([*enter, "true"], capture_output=True, text=True)
    if probe.returncode != 0:
        print(f"skipped: this machine allows no new namespaces: {probe.stderr.strip()}")
        return SKIPPED
    directory = RunDirectory()  # removed from here, where nothing is mounted in it
    try:
        home = directory.path / "closed"
        home.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(home, OWNER, OWNER)
        checkout = copy_checkout(home)
        return subprocess.run([*enter, sys.executable, __file__, "--checkout", checkout, *sys.argv[1:]]).returncode
    finally:
        directory.remove()


if __name__ == "__main__":
    sys.exit(main())
