"""The agents of a job know each other by munge, or by a key file where munge does not run."""

from __future__ import annotations

import os

from support import evidence
from support.programs import SCRIPTS

PRINT = str(SCRIPTS / "print_env.py")
NOBODY = 65534
# The step's own mount namespace hides the host's munge from ddprun, not from Slurm.
WITHOUT_MUNGE = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /run/munge && exec "$@"', "sh"]


def test_without_munge_a_key_file_in_the_home_directory_serves(cluster, directory):
    key = directory / "key"
    key.write_text("0123456789abcdef" * 4 + "\n")
    key.chmod(0o600)
    result = cluster.run("srun", "-N2", "--ntasks-per-node=1", *WITHOUT_MUNGE, "ddprun", "--key-file", str(key),
                         PRINT, str(directory))
    assert result.code == 0, str(result)
    assert [worker["host"] for worker in evidence.workers(directory)] == ["n1", "n2"]


def test_without_munge_and_without_a_named_key_file_the_default_one_is_made(cluster, directory):
    result = cluster.run("srun", "-N2", "--ntasks-per-node=1", *WITHOUT_MUNGE, "ddprun", PRINT, str(directory))
    assert result.code == 0, str(result)
    assert [worker["host"] for worker in evidence.workers(directory)] == ["n1", "n2"]


def test_a_key_file_that_others_can_read_is_refused(cluster, directory):
    key = directory / "key"
    key.write_text("0123456789abcdef" * 4 + "\n")
    key.chmod(0o644)
    result = cluster.run("srun", "-N2", "--ntasks-per-node=1", *WITHOUT_MUNGE, "ddprun", "--join-timeout", "10",
                         "--key-file", str(key), PRINT, str(directory))
    assert result.code == 125, str(result)
    assert str(key) in result.stderr and "hint: " in result.stderr, str(result)
    assert not evidence.workers(directory)


def test_an_ordinary_user(cluster, directory):
    os.chown(directory, NOBODY, NOBODY)
    result = cluster.run("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "srun", "-N2",
                         "--ntasks-per-node=1", "ddprun", PRINT, str(directory), cwd=directory,
                         env={"HOME": str(directory), "USER": "nobody"})
    assert result.code == 0, str(result)
    assert [worker["host"] for worker in evidence.workers(directory)] == ["n1", "n2"]
