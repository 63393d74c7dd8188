"""Real torch clients against our store.

DDPRUN_TEST_BUILD names the build folder; DDPRUN_TEST_TORCH_PYTHON an interpreter with a torch of today, and
DDPRUN_TEST_OLD_TORCH_PYTHON one with torch before 2.1 (default /usr/bin/python3). A case whose interpreter has no torch
is skipped. Each case is a piece of Python that runs in a process of that interpreter with `store` (a fresh client), `client()`,
`fails()` and torch's names at hand.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import textwrap
from collections.abc import Iterator

import pytest

from support.forking_python import ForkingPython, forking_python

BUILD = pathlib.Path(os.environ.get("DDPRUN_TEST_BUILD", "build/dev"))
DEADLINE = 120

IMPORTS = """
import datetime, sys, threading
import torch, torch.distributed as dist
from torch.distributed import PrefixStore, TCPStore
"""
PRELUDE = IMPORTS + """
port, kind = int(sys.argv[1]), sys.argv[2]
options = {} if kind == "old" else {"use_libuv": kind == "libuv"}
seconds = lambda count: datetime.timedelta(seconds=count)

def client(**more):
    more = {"timeout": seconds(60), "wait_for_workers": False, **options, **more}
    return TCPStore("127.0.0.1", port, None, False, **more)

def fails(call, *words):
    try:
        call()
    except Exception as error:
        assert all(word.lower() in str(error).lower() for word in words), str(error)
        return
    raise AssertionError("no error")

store = client()
"""


def find_interpreter(kind: str) -> str:
    if kind == "old":
        python = os.environ.get("DDPRUN_TEST_OLD_TORCH_PYTHON", "/usr/bin/python3")
        condition = "tuple(map(int, torch.__version__.split('.')[:2])) < (2, 1)"
    else:
        python = os.environ.get("DDPRUN_TEST_TORCH_PYTHON", "")
        condition = "tuple(map(int, torch.__version__.split('.')[:2])) >= (2, 4)"
    check = f"import torch, torch.distributed; assert {condition}"
    if not python or subprocess.run([python, "-c", check], capture_output=True).returncode != 0:
        pytest.skip(f"no interpreter with a torch of the kind '{kind}'")
    return python


@pytest.fixture(params=["libuv", "legacy", "old"], scope="module")
def kind(request: pytest.FixtureRequest) -> str:
    """How the client was made: use_libuv on, off, or a torch that has no such choice."""
    return request.param


@pytest.fixture(scope="module")
def interpreter(kind: str) -> str:
    return find_interpreter(kind)


@pytest.fixture(scope="module")
def python(interpreter: str) -> Iterator[ForkingPython]:
    with forking_python(interpreter, IMPORTS) as started:
        yield started


@pytest.fixture(params=[0, 2], ids=["store", "relays"], scope="module")
def relays(request: pytest.FixtureRequest) -> int:
    """Between the clients and the store."""
    return request.param


@pytest.fixture
def port(relays: int) -> Iterator[int]:
    command = [str(BUILD / "tests/programs/serve_store"), "0", "-", str(relays)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield int(server.stdout.readline())
        server.stdin.close()
        assert server.wait(timeout=DEADLINE) == 0


def run(python: ForkingPython, port: int, kind: str, code: str) -> None:
    python.check(PRELUDE + textwrap.dedent(code), str(port), kind)


def needs_queues(kind: str) -> None:
    if kind != "libuv":
        pytest.skip("this client has no queues")


def needs_current(kind: str) -> None:
    if kind == "old":
        pytest.skip("this torch lacks the method")


def test_set_get_add_and_count(python: ForkingPython, port: int, kind: str) -> None:
    run(python, port, kind, """
        assert store.num_keys() == 0
        store.set("key", "value")
        store.set("bytes", b"\\x00\\xff")
        assert store.get("key") == b"value"
        assert store.get("bytes") == b"\\x00\\xff"
        assert store.add("counter", 3) == 3
        assert store.add("counter", -1) == 2
        assert store.get("counter") == b"2"
        assert store.num_keys() == 3
    """)


def test_a_large_value(python: ForkingPython, port: int, kind: str) -> None:
    run(python, port, kind, """
        value = bytes(range(256)) * 40000
        store.set("large", value)
        assert store.get("large") == value
    """)


def test_delete(python: ForkingPython, port: int, kind: str) -> None:
    run(python, port, kind, """
        store.set("key", "value")
        assert store.delete_key("key") is True
        assert store.delete_key("key") is False
        assert store.num_keys() == 0
        store.set("key", "again")
        assert store.get("key") == b"again"
    """)


def test_compare_set(python: ForkingPython, port: int, kind: str) -> None:
    run(python, port, kind, """
        assert store.compare_set("key", "wrong", "new") == b"wrong"
        assert store.compare_set("key", "", "first") == b"first"
        assert store.compare_set("key", "wrong", "new") == b"first"
        assert store.compare_set("key", "first", "second") == b"second"
        assert store.get("key") == b"second"
    """)


def test_a_wait_ends_when_another_client_sets(python: ForkingPython, port: int, kind: str) -> None:
    run(python, port, kind, """
        others = [client() for _ in range(5)]
        got = []
        threads = [threading.Thread(target=lambda other=other: got.append(other.get("key"))) for other in others]
        for thread in threads:
            thread.start()
        store.set("key", "value")
        for thread in threads:
            thread.join()
        assert got == [b"value"] * 5
        store.wait(["key"])
    """)


def test_a_timeout_does_not_break_the_client(python: ForkingPython, port: int, kind: str) -> None:
    run(python, port, kind, """
        other = client()
        for attempt in range(3):
            fails(lambda: store.wait(["absent", "neither"], seconds(0.2)), "timeout")
        assert store.add("counter", 1) == 1
        other.set("absent", "")
        other.set("neither", "late")
        assert store.get("neither") == b"late"
        assert store.num_keys() == 3
    """)


def test_prefixes(python: ForkingPython, port: int, kind: str) -> None:
    run(python, port, kind, """
        inner = PrefixStore("inner", PrefixStore("outer", store))
        inner.set("key", "value")
        assert store.get("outer/inner/key") == b"value"
        assert inner.add("counter", 2) == 2
    """)


def test_many_workers_are_counted(python: ForkingPython, port: int, kind: str) -> None:
    run(python, port, kind, """
        workers = [TCPStore("127.0.0.1", port, 3, False, timeout=seconds(60), **options) for _ in range(3)]
        assert store.num_keys() == 1
        workers[0].set("key", "value")
        assert all(worker.get("key") == b"value" for worker in workers)
    """)


def test_check_append_and_clone(python: ForkingPython, port: int, kind: str) -> None:
    needs_current(kind)
    run(python, port, kind, """
        assert not store.check(["key"])
        store.append("key", "po")
        store.append("key", "tato")
        assert store.get("key") == b"potato"
        assert store.check(["key"]) and not store.check(["key", "absent"])
        assert store.clone().get("key") == b"potato"
    """)


def test_many_keys_at_once(python: ForkingPython, port: int, kind: str) -> None:
    needs_current(kind)
    run(python, port, kind, """
        store.multi_set(["a", "b", "empty"], ["1", "2", ""])
        assert store.multi_get(["b", "empty", "a"]) == [b"2", b"", b"1"]
        keys = [f"key{number}" for number in range(3000)]
        store.multi_set(keys, keys)
        assert store.multi_get(keys) == [key.encode() for key in keys]
        prefixed = PrefixStore("p", store)
        prefixed.multi_set(["foo"], ["bar"])
        prefixed.append("foo", "baz")
        assert store.get("p/foo") == b"barbaz"
    """)


def test_list_keys(python: ForkingPython, port: int, kind: str) -> None:
    needs_current(kind)
    run(python, port, kind, """
        TCPStore("127.0.0.1", port, 1, False, timeout=seconds(60), **options)
        store.set("a", "")
        store.set("b", "")
        assert sorted(store.list_keys()) == ["a", "b"]
    """)


def test_barrier(python: ForkingPython, port: int, kind: str) -> None:
    needs_current(kind)
    run(python, port, kind, """
        clients = [client() for _ in range(3)]
        threads = [threading.Thread(target=lambda one=one: one.barrier("b", 4, seconds(60))) for one in clients]
        for thread in threads:
            thread.start()
        store.barrier("b", 4, seconds(60))
        for thread in threads:
            thread.join()
        fails(lambda: store.barrier("alone", 2, seconds(0.2)), "timeout")
        assert store.add("counter", 1) == 1
    """)


def test_a_compare_set_that_does_not_match_wakes_who_waits_at_a_barrier(python: ForkingPython, port: int, kind: str) -> None:
    needs_current(kind)
    run(python, port, kind, """
        waiting = client()
        thread = threading.Thread(target=lambda: waiting.barrier("b", 2, seconds(60)))
        thread.start()
        store.wait(["b"])
        assert store.compare_set("b", "nothing", "other") == b"1"
        thread.join()
    """)


def test_add_reads_a_number_as_stoll_does(python: ForkingPython, port: int, kind: str) -> None:
    run(python, port, kind, """
        for value, total in ((" 7", 8), ("7abc", 8), ("+7", 8), ("-7x", -6)):
            store.set("counter", value)
            assert store.add("counter", 1) == total, value
    """)


def test_queues(python: ForkingPython, port: int, kind: str) -> None:
    needs_queues(kind)
    run(python, port, kind, """
        fails(lambda: store.queue_pop("q", block=False), "empty")
        store.queue_push("q", "1")
        store.queue_push("q", "2")
        assert store.check(["q"]) and store.queue_len("q") == 2
        assert store.queue_pop("q") == b"1" and store.queue_pop("q", block=False) == b"2"
        assert not store.check(["q"])
        assert store.num_keys() == 0
        store.set_timeout(seconds(0.2))
        fails(lambda: store.queue_pop("q"), "timeout")
        store.set_timeout(seconds(60))
        other = client()
        thread = threading.Thread(target=lambda: other.queue_push("back", other.queue_pop("there")))
        thread.start()
        store.queue_push("there", "and back")
        assert store.queue_pop("back") == b"and back"
        thread.join()
    """)


RANK = """
import os, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo", init_method=sys.argv[1], rank=int(os.environ["RANK"]),
                        world_size=int(os.environ["WORLD_SIZE"]))
for attempt in range(3):
    value = torch.tensor([float(dist.get_rank() + 1)])
    dist.all_reduce(value)
    assert value.item() == 6.0
parts = [torch.zeros(1) for _ in range(3)]
dist.all_gather(parts, torch.tensor([float(dist.get_rank())]))
assert [part.item() for part in parts] == [0.0, 1.0, 2.0]
dist.destroy_process_group()
"""


@pytest.mark.parametrize("method", ["env://", "tcp://127.0.0.1:{port}"])
def test_a_process_group(interpreter: str, port: int, kind: str, method: str) -> None:
    environment = os.environ | {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "3", "GLOO_SOCKET_IFNAME": "lo",
        "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0", "OMP_NUM_THREADS": "1",
        "USE_LIBUV": "0" if kind == "legacy" else "1"}
    command = [interpreter, "-c", RANK, method.format(port=port)]
    ranks = [subprocess.Popen(command, env=environment | {"RANK": str(rank)}, stderr=subprocess.PIPE, text=True)
             for rank in range(3)]
    try:
        for rank in ranks:
            errors = rank.communicate(timeout=DEADLINE)[1]
            assert rank.returncode == 0, errors
    finally:
        for rank in ranks:
            rank.kill()
