"""Unusual surroundings: closed descriptors, unset variables, low limits, folders that are gone."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys

import pytest

from support.machine import Machine

SHOW = ("--no-python", "/bin/sh", "-c")
DESCRIPTORS = "ls /proc/$$/fd | tr '\\n' ' '"


def test_closed_standard_descriptors(machine):
    result = machine.shell("$ddprun --nproc-per-node 2 --no-python sh -c 'touch ran.$RANK' <&- >&- 2>&-")
    assert result.code == 0, str(result)
    assert (machine.directory / "ran.1").exists()


@pytest.mark.parametrize("variables", [["HOME"], ["PATH"], ["TMPDIR"], ["HOME", "PATH", "TMPDIR", "USER"]])
def test_unset_variables(machine, variables):
    result = machine.run(*SHOW, "echo fine", env=dict.fromkeys(variables))
    assert (result.code, result.stdout, result.stderr) == (0, "fine\n", ""), str(result)


def test_the_python_of_the_environment_that_ddprun_lies_in(machine):
    """As pbsdsh /home/u/venv/bin/ddprun starts it, with nothing of the submitter's environment."""
    folder = machine.directory / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    shutil.copy(machine.binary, folder / "bin" / "ddprun")
    (machine.directory / "show.py").write_text("import sys; print(sys.prefix)")
    command = [str(folder / "bin" / "ddprun"), "show.py"]
    result = machine.start_program(command, env={"PATH": "/usr/bin:/bin"}).wait()
    assert (result.code, result.stdout) == (0, f"{folder}\n"), str(result)
    own = machine.start_program(command, env={"PATH": "/usr/bin:/bin", "PYTHON_EXEC": sys.executable}).wait()
    assert own.code == 0 and str(folder) not in own.stdout, str(own)


def test_the_python_of_the_conda_environment_that_ddprun_lies_in(machine):
    folder = machine.directory / "conda"
    (folder / "bin").mkdir(parents=True)
    (folder / "conda-meta").mkdir()
    (folder / "bin" / "python").symlink_to(sys.executable)
    shutil.copy(machine.binary, folder / "bin" / "ddprun")
    (machine.directory / "show.py").write_text("import sys; print(sys.executable)")
    result = machine.start_program([str(folder / "bin" / "ddprun"), "show.py"], env={"PATH": "/usr/bin:/bin"}).wait()
    assert (result.code, result.stdout) == (0, f"{folder}/bin/python\n"), str(result)


@pytest.mark.parametrize("value", ["", "/no/such/folder", "relative"])
def test_an_unusable_tmpdir_is_replaced(machine, value):
    result = machine.run(*SHOW, "echo $TORCHELASTIC_ERROR_FILE", env={"TMPDIR": value})
    assert result.code == 0 and result.stdout.startswith("/tmp/ddprun-"), str(result)
    assert not os.path.exists(result.stdout.split("/attempt_")[0])


def test_a_working_directory_that_is_gone(machine):
    result = machine.shell("mkdir gone; cd gone; rmdir ../gone; $ddprun --no-python /bin/echo fine; $ddprun nosuch.py")
    assert "fine\n" in result.stdout and result.code == 127, str(result)
    assert "hint: the working directory has been removed: cd to another one\n" in result.stderr, str(result)


def test_inherited_descriptors_reach_the_only_worker(machine):
    reader, writer = os.pipe()
    try:
        result = machine.run(*SHOW, DESCRIPTORS, pass_fds=[writer])
        assert str(writer) in result.stdout.split(), str(result)
    finally:
        os.close(reader)
        os.close(writer)


def limit_open_files(soft: int, hard: int):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_low_soft_limit_of_open_files_is_raised_and_given_back(machine: Machine):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    result = machine.run("--nproc-per-node", "32", *SHOW, "ulimit -n", preexec_fn=limit_open_files(40, hard))
    assert result.code == 0, str(result)
    assert result.stdout == "40\n" * 32, str(result)


@pytest.mark.parametrize("limit", range(22, 64, 3))
def test_a_hard_limit_of_open_files_fails_in_words(machine: Machine, limit):
    result = machine.run("--nproc-per-node", "32", *SHOW, "exec sleep 600", preexec_fn=limit_open_files(limit, limit))
    assert result.code in (125, 126), str(result)
    assert "internal error" not in result.stderr, str(result)
    assert "too many open files" in result.stderr and "ulimit -n" in result.stderr, str(result)


@pytest.mark.parametrize("arguments, what", [
    ([], "there is no script to run"),
    (["--nproc-pre-node", "4", "x.py"], "unknown option --nproc-pre-node\nhint: did you mean --nproc-per-node?"),
    (["--nproc-per-node", "unknown", "x.py"], "--nproc-per-node is not a number of workers: 'unknown'"),
    (["--nproc-per-node", "0", "x.py"], "--nproc-per-node is not a number of workers: '0'"),
    (["-m", "--no-python", "x"], "--module and --no-python contradict each other"),
    (["--master-port", "99999", "x.py"], "--master-port is not a port: '99999'"),
])
def test_misuse_is_explained_with_a_hint(machine, arguments, what):
    result = machine.run(*arguments)
    assert result.code == 2, str(result)
    assert result.stderr.startswith(f"ddprun: {what}") and "\nhint: " in result.stderr, str(result)
    assert result.stdout == "", str(result)


@pytest.mark.parametrize("name, value", [("PET_NPROC_PER_NODE", "abc"), ("PET_MODULE", "x"), ("PET_MAX_RESTARTS", "-1")])
def test_garbage_in_torchruns_variables_is_named(machine, name, value):
    result = machine.run("--no-python", "true", env={name: value})
    assert result.code == 2 and result.stderr.startswith(f"ddprun: {name} is not "), str(result)
    assert "\nhint: " in result.stderr, str(result)
