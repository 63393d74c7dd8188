"""Who may use the workers' store: its protocol has no authentication, and torch unpickles what it reads there."""

from __future__ import annotations

import os
import struct
import sys

import pytest

from support import evidence
from support.manual import PORT, as_text, codes, start_all, wait_all, wait_for_files
from support.hosts import Host

PYTHON = sys.executable
STRANGER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
VALIDATE = "00" + "cef7853c"  # torch 2.2 and newer


def text_field(text: bytes) -> str:
    return (struct.pack("<Q", len(text)) + text).hex()


PING = VALIDATE + "0d" + "01020304"
SET_EVIL = VALIDATE + "01" + text_field(b"/evil") + text_field(b"pickled")
COUNT_KEYS = VALIDATE + "07"

# Connects so often, speaks and either listens or is gone at once; prints what came back.
SPEAK = """
import socket, sys
address, port, words, times, listen = sys.argv[1:]
for _ in range(int(times)):
    peer = socket.create_connection((address, int(port)), 60)
    peer.settimeout(60)  # a flood before it is judged first
    try:
        peer.sendall(bytes.fromhex(words))
        print(peer.recv(64).hex() if listen == 'listen' else '')
    except (ConnectionResetError, BrokenPipeError):
        print()
    peer.close()
"""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="another user's connections need root")


def speak(host: Host, address: str, words: str, *, stranger: bool, times: int = 1, listen: bool = True) -> list[str]:
    command = [*(STRANGER if stranger else []), PYTHON, "-c", SPEAK, address, PORT, words, str(times),
               "listen" if listen else "leave"]
    return host.check(command).split("\n")[:-1]


@pytest.fixture
def job(hosts, directory, key):
    """A job of two hosts whose workers wait; called with its options."""
    started = []

    def run(*options: str):
        program = f"touch {directory}/up.$RANK; until [ -e {directory}/end ]; do sleep 0.05; done"
        started.extend(start_all(hosts, "--key-file", key, *options, "--no-python", "sh", "-c", program))
        wait_for_files(directory, "up.*", 2)
        return hosts["a"].address

    def end():
        (directory / "end").touch()
        results = wait_all(started)
        assert codes(results) == [0, 0], as_text(results)
        return results

    run.end = end
    yield run
    (directory / "end").touch()


def test_another_user_reaches_the_store_from_no_host_of_the_job(hosts, job):
    address = job()
    for host in (hosts["a"], hosts["b"]):
        assert speak(host, address, PING, stranger=True) == [""]
        assert speak(host, address, PING, stranger=False) == ["01020304"]
    results = job.end()
    said = evidence.times_said(results[0].stderr, f"the store refused a connection from {hosts['b'].address}, "
                                                  "which belongs to another user")
    assert said == 1, str(results[0])
    assert "--store-access host" in results[0].stderr


def test_nothing_is_taken_from_another_user_who_speaks_and_leaves(hosts, job):
    address = job()
    before = speak(hosts["a"], address, COUNT_KEYS, stranger=False)
    for host in (hosts["a"], hosts["b"]):
        speak(host, address, SET_EVIL, stranger=True, times=100, listen=False)
    assert speak(hosts["b"], address, COUNT_KEYS, stranger=False) == before
    speak(hosts["b"], address, SET_EVIL, stranger=False, listen=False)
    job.end()


def test_with_store_access_host_all_users_of_the_job_s_hosts_may(hosts, job):
    address = job("--store-access", "host")
    for host in (hosts["a"], hosts["b"]):
        assert speak(host, address, PING, stranger=True) == ["01020304"]
    assert speak(hosts["c"], address, PING, stranger=False) == [""]
    job.end()


def test_a_flood_of_another_user_does_not_keep_the_job_s_own_out(hosts, job):
    address = job()
    flood = [hosts["b"].popen([*STRANGER, PYTHON, "-c", SPEAK, address, PORT, PING, "300", "leave"]) for _ in range(4)]
    assert speak(hosts["b"], address, PING, stranger=False, times=20) == ["01020304"] * 20
    for each in flood:
        each.wait()
    job.end()
