"""The agents of a job know each other by munge, or by a key file where munge does not run."""

from __future__ import annotations

import os
import shlex

import pytest

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


def test_four_hosts_make_the_default_key_file_at_once(cluster, directory):
    result = cluster.run("srun", "-N4", "--ntasks-per-node=1", *WITHOUT_MUNGE, "ddprun", PRINT, str(directory),
                         env={"HOME": str(directory)})
    assert result.code == 0, str(result)
    assert len(evidence.workers(directory)) == 4


@pytest.mark.parametrize("without", [0, 1])
def test_where_one_host_has_no_munge_the_key_file_serves(cluster, directory, without):
    result = cluster.run("srun", "-N2", "--ntasks-per-node=1", "sh", "-c",
                         f'[ $SLURM_PROCID = {without} ] || exec "$@"; exec {shlex.join(WITHOUT_MUNGE)} "$@"', "sh",
                         "ddprun", PRINT, str(directory))
    assert result.code == 0, str(result)
    assert [worker["host"] for worker in evidence.workers(directory)] == ["n1", "n2"]


def test_another_user_is_refused(cluster, directory):
    home = directory / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    options = ["ddprun", "--nnodes", "2", "--master-addr", "n1", "--master-port", "29500", "--join-timeout", "3"]
    first = cluster.hosts["n1"].popen([*options, "--node-rank", "0", PRINT, str(directory)])
    second = cluster.hosts["n2"].popen(
        ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *options, "--node-rank", "1", PRINT,
         str(directory)], env={"HOME": str(home), "USER": "nobody"}, cwd=home)
    results = [first.wait(), second.wait()]
    assert [result.code for result in results] == [124, 124], f"{results[0]}\n{results[1]}"
    address = cluster.hosts["n2"].address
    assert f"refused {address}: Unauthorized credential" in results[0].stderr, str(results[0])  # munge's own words
    assert not evidence.workers(directory)


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
