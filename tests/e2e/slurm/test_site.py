"""Profiles of sites on a cluster whose nodes have a second network."""

from __future__ import annotations

import json

import pytest

from support import evidence
from support.programs import SCRIPTS

PRINT = str(SCRIPTS / "print_env.py")
ONE_A_NODE = ["srun", "-N2", "--ntasks-per-node=1"]


@pytest.fixture
def profile(cluster):
    """Puts a profile where the user's are looked for; returns the function that writes it."""
    folder = cluster.home / ".config" / "ddprun" / "sites.d"
    folder.mkdir(parents=True)

    def write(**keys) -> None:
        (folder / "test.json").write_text(json.dumps({"format": 1, "name": "test", "match": [{"cluster": "ddprun"}],
                                                      **keys}))

    yield write
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def test_a_profile_gives_names_interfaces_ports_and_variables(cluster, directory, profile):
    profile(address={"suffixes": ["-fast"]}, interfaces={"gloo": ["ib0", "fabric0"], "nccl": "fabric"},
            environment={"SITE_SAYS": "hello", "USER_SAYS": "overruled"}, ports="41000-41009")
    names = [name for host in cluster.nodes for name in (f"{host.address} {host.name}-fast",)]
    for host in cluster.hosts.hosts.values():  # the plain names lead nowhere
        host.write_names([*names, f"{cluster.control.address} ctl",
                          *(f"10.79.0.9 {node.name}" for node in cluster.nodes)])
    try:
        result = cluster.run(*ONE_A_NODE, "ddprun", "--join-timeout", "20", PRINT, str(directory),
                             env={"USER_SAYS": "mine"})
    finally:
        cluster.hosts.use_plain_names()
    assert result.code == 0, str(result)
    for worker in evidence.workers(directory):
        assert worker["GLOO_SOCKET_IFNAME"] == "fabric0"
        assert worker["NCCL_SOCKET_IFNAME"] == "fabric"
        assert (worker["SITE_SAYS"], worker["USER_SAYS"]) == ("hello", "mine")
        assert worker["MASTER_ADDR"] == cluster.hosts["n1"].address
        assert 41000 <= int(worker["MASTER_PORT"]) <= 41009
    assert len(evidence.workers(directory)) == 2


def test_a_name_that_does_not_resolve_does_no_harm(cluster, directory, profile):
    profile(address={"suffixes": ["-fast"], "domains": ["fast.invalid"]}, interfaces={"gloo": ["ib0"]})
    result = cluster.run(*ONE_A_NODE, "ddprun", PRINT, str(directory))
    assert result.code == 0, str(result)
    assert "n1 has none of the interfaces that the site test" in result.stderr, str(result)
    assert [worker["GLOO_SOCKET_IFNAME"] for worker in evidence.workers(directory)] == ["fabric0", "fabric0"]


def test_a_misspelt_profile_is_refused_on_every_node_unless_it_is_not_wanted(cluster, directory, profile):
    profile(adress={})
    refused = cluster.run(*ONE_A_NODE, "ddprun", PRINT, str(directory))
    assert refused.code == 2, str(refused)
    assert "test.json, line 1: adress is not known; did you mean address?" in refused.stderr, str(refused)
    assert evidence.workers(directory) == []
    allowed = cluster.run(*ONE_A_NODE, "ddprun", "--site", "none", PRINT, str(directory))
    assert allowed.code == 0, str(allowed)
    captured = directory / "snapshot.json"
    cluster.control.check(["ddprun", "--capture", str(captured)])
    assert "adress" in captured.read_text()


def test_a_capture_holds_the_profiles(cluster, directory, profile):
    profile(match=[{"variables": {"SITE_NAME": "te*"}}], notes=["a note"])
    snapshot = directory / "snapshot.json"
    cluster.control.check(["ddprun", "--capture", str(snapshot)], env={"SITE_NAME": "test"})
    plan = cluster.control.check(["ddprun", "--snapshot", str(snapshot), "--dry-run=json", "--no-python", "true"])
    assert json.loads(plan)["site"]["name"] == {"value": "test", "origin": "SITE_NAME"}
    assert json.loads(plan)["site"]["notes"] == ["a note"]
    named = cluster.control.check(["ddprun", "--snapshot", str(snapshot), "--dry-run", "--site", "lumi", "--no-python",
                                   "true"])
    assert "lumi (built in)" in named


def test_nodes_that_no_name_service_knows_are_asked_of_slurm(cluster, directory):
    """As the pods of Slurm on Kubernetes: NodeAddr is all there is. Without a home that they share the rendezvous file would not help."""
    for host in cluster.hosts.hosts.values():
        host.write_names([f"{cluster.control.address} ctl", f"127.0.1.1 {host.name}"])
    try:
        result = cluster.run(*ONE_A_NODE, "sh", "-c", f"HOME={directory}/home-$SLURM_NODEID; mkdir $HOME; export HOME; exec ddprun --rdzv file "
                             f"--join-timeout 20 {PRINT} {directory}")
    finally:
        cluster.hosts.use_plain_names()
    assert result.code == 0, str(result)
    assert {worker["MASTER_ADDR"] for worker in evidence.workers(directory)} == {cluster.hosts["n1"].address}
