"""docs/configuration.md: the user's file, the machine's, variables and the command line, in a real run."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

SHOW = ["--no-python", "sh", "-c", "echo $TORCHELASTIC_MAX_RESTARTS $ROLE_NAME"]
AS_NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] if os.geteuid() == 0 else []


def run(*command, **more) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], text=True, capture_output=True, timeout=60, **more)


def configure(folder: Path, options: dict) -> Path:
    file = folder / "ddprun" / "config.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(options))
    return file


def test_workers_get_what_the_users_file_says_and_the_nearer_places_change(binary, tmp_path):
    configure(tmp_path, {"max-restarts": 3, "role": "trainer", "quiet": True})
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    assert run(binary, *SHOW, env=environment).stdout == "3 trainer\n"
    environment["DDPRUN_MAX_RESTARTS"] = "2"
    assert run(binary, *SHOW, env=environment).stdout == "2 trainer\n"
    assert run(binary, "--max-restarts", "1", *SHOW, env=environment).stdout == "1 trainer\n"


def test_the_machines_file_counts_less_than_the_users(binary, tmp_path):
    """In a mount namespace with a layer over /etc, so that this machine's stays as it is."""
    for name in ("upper", "work", "home"):
        (tmp_path / name).mkdir()
    configure(tmp_path / "upper", {"max-restarts": 7, "role": "site"})
    configure(tmp_path / "home" / ".config", {"role": "mine"})
    script = (f"mount -t overlay overlay -o lowerdir=/etc,upperdir={tmp_path}/upper,workdir={tmp_path}/work /etc && "
              'exec "$@"')
    result = run("unshare", "--mount", "sh", "-euc", script, "sh", binary, *SHOW,
                 env={"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")})
    if "mount" in result.stderr or "unshare" in result.stderr:
        pytest.skip(f"a layer over /etc needs root and a kernel that allows it: {result.stderr.strip()}")
    assert result.stdout == "7 mine\n", result.stderr


def test_a_folder_that_may_not_be_entered_is_one_sentence(binary, tmp_path_factory):
    folder = tmp_path_factory.mktemp("closed")
    for path in (folder, *folder.parents[:2]):
        path.chmod(0o755)
    file = configure(folder, {"quiet": True})
    file.parent.chmod(0o000)
    copy = folder / "program"
    copy.write_bytes(Path(binary).read_bytes())
    copy.chmod(0o755)
    result = run(*AS_NOBODY, copy, "--print-config", env={"PATH": "/usr/bin:/bin", "XDG_CONFIG_HOME": str(folder)})
    file.parent.chmod(0o755)  # or pytest cannot remove it
    assert result.returncode == 2
    assert result.stderr.splitlines()[0] == f"ddprun: cannot read {file}: permission denied"


def test_true_is_the_option_without_its_value_and_a_path_has_the_home_and_variables(binary, tmp_path):
    configure(tmp_path, {"label": True, "events": "~/$USER-${SLURM_JOB_ID:-interactive}.jsonl"})
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "USER": "ada"}
    assert run(binary, "--no-python", "echo", "x", env=environment).stdout == "[0] x\n"
    assert (tmp_path / "ada-interactive.jsonl").read_text()
    del environment["USER"]
    result = run(binary, "--no-python", "echo", "x", env=environment)
    file = tmp_path / "ddprun" / "config.json"
    assert (result.stdout, result.stderr) == (
        "[0] x\n", f"ddprun: events ({file}, line 1) is left out: USER is not set, as "
        "~/$USER-${SLURM_JOB_ID:-interactive}.jsonl needs it\n"
        "hint: export USER, or write ${USER:-TEXT} for a TEXT where it is not set\n")


def test_a_file_cannot_turn_every_run_into_a_query(binary, tmp_path):
    configure(tmp_path, {"stacks": True})
    environment = {"PATH": os.environ["PATH"], "XDG_CONFIG_HOME": str(tmp_path)}
    result = run(binary, "--no-python", "true", env=environment)
    assert result.returncode == 2
    assert result.stderr == (f"ddprun: stacks ({tmp_path}/ddprun/config.json, line 1) cannot be set in a file\n"
                             "hint: give --stacks on the command line\n")


def test_a_misspelt_variable_is_named_with_the_one_that_was_meant(binary):
    result = run(binary, "--no-python", "true", env={"PATH": os.environ["PATH"], "DDPRUN_MAX_RESTART": "3"})
    assert (result.returncode, result.stderr) == (
        0, "ddprun: DDPRUN_MAX_RESTART has no effect: there is no such variable\n"
        "hint: did you mean DDPRUN_MAX_RESTARTS?\n")
