"""What both end-to-end suites share: the program under test, a Python with torch, and skipping as a result."""

from __future__ import annotations

import faulthandler
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import programs

NOTHING_RAN = 77  # ctest's SKIP_RETURN_CODE

# A shell's & ignores them for what it starts, and ddprun and its workers keep to that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

if "DDPRUN_TEST_DOING" in os.environ:  # tests/support/run_suite.py asks by SIGUSR1 what takes so long
    doing = Path(os.environ["DDPRUN_TEST_DOING"], str(os.getpid())).open("w", buffering=1)
    signal.signal(signal.SIGUSR1, lambda *_: print("runs:", os.environ.get("PYTEST_CURRENT_TEST", "no test"), file=doing))
    faulthandler.register(signal.SIGUSR1, file=doing, all_threads=False, chain=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "DDPRUN_TEST_NIGHTLY" in os.environ:
        return
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.skip(reason="scripts/nightly runs it (DDPRUN_TEST_NIGHTLY)"))


@pytest.fixture(scope="session")
def binary() -> Path:
    reason = programs.why_no_binary()
    if reason is not None:
        pytest.skip(reason)
    return programs.binary()


@pytest.fixture(scope="session")
def torch_python() -> Path:
    reason = programs.why_no_torch()
    if reason is not None:
        pytest.skip(reason)
    return programs.torch_python()


@pytest.fixture
def directory(hosts, request) -> Iterator[Path]:
    """An empty directory for this test, the same on all hosts."""
    path = hosts.home / re.sub(r"\W+", "-", request.node.name)
    path.mkdir()
    yield path


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    """A test that gave up waiting shows what it waited for."""
    outcome = yield
    machine = item.funcargs.get("machine")
    if call.when == "call" and call.excinfo is not None and call.excinfo.errisinstance(TimeoutError) and machine:
        outcome.get_result().sections.append(("processes that still run", machine.where_they_are()))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # one of pytest-xdist's processes, which reports to another
        return
    ran = any(reporter.stats.get(outcome) for outcome in ("passed", "failed", "error"))
    if exitstatus == pytest.ExitCode.OK and not ran:
        session.exitstatus = NOTHING_RAN
