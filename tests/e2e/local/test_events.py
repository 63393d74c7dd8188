"""--events, --metrics and --timeline: what a run leaves for people and programs."""

from __future__ import annotations

import json
import re

import pytest

from support import browser
from support.manual import as_text, codes, start_all, wait_all
from support.programs import REPOSITORY

SHELL = ("--no-python", "sh", "-c")
MANUAL = (REPOSITORY / "man" / "ddprun-formats.5").read_text().replace("\\-", "-")
# Rank 1 fails once both have written.
FAIL_ONCE = ("echo up; touch DIR/up.$TORCHELASTIC_RESTART_COUNT.$RANK; until [ -e DIR/up.$TORCHELASTIC_RESTART_COUNT.0 -a "
             "-e DIR/up.$TORCHELASTIC_RESTART_COUNT.1 ]; do sleep 0.01; done; [ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; "
             "[ $RANK = 1 ] && echo no luck >&2 && exit 3; exec sleep 600")


def schema() -> dict[str, set[str]]:
    """The keys of each event as the manual lists them: event -> keys."""
    section = MANUAL.split(".SH EVENTS")[1].split("\n.SH ")[0]
    rows = re.findall(r"^\.TP\n\.B ([a-z]+)\n(.*?)(?=^\.TP|\Z|^\.PP)", section, re.MULTILINE | re.DOTALL)
    return {name: set(re.findall(r"[a-z_]{2,}", text.split("Keys:")[1])) for name, text in rows}


def read(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_coordinators_host_writes_what_happens_on_all_hosts(hosts, directory, key):
    events, metrics = directory / "events.jsonl", directory / "ddprun.prom"
    results = wait_all(start_all(hosts, "--key-file", key, "--max-restarts", "1", "--events", str(events), "--metrics",
                                 str(metrics), *SHELL, FAIL_ONCE.replace("DIR", str(directory))))
    assert codes(results) == [0, 0], as_text(results)
    happened = read(events)
    kinds = [event["event"] for event in happened]
    assert kinds[0] == "begin" and kinds[-1] == "end", kinds
    for kind, count in {"joined": 2, "plan": 1, "attempt": 2, "start": 4, "output": 4, "exit": 4, "stop": 1, "failed": 1,
                        "restart": 1}.items():
        assert kinds.count(kind) == count, (kind, kinds)
    started = {(event["host"], event["rank"], event["attempt"]) for event in happened if event["event"] == "start"}
    assert started == {("a", 0, 0), ("b", 1, 0), ("a", 0, 1), ("b", 1, 1)}, started
    cause = next(event for event in happened if event["event"] == "failed")
    assert (cause["host"], cause["rank"], cause["exit_code"], cause["lines"][-1]) == ("b", 1, 3, "no luck"), cause
    known = schema()
    assert set(known) >= {"begin", "joined", "refused", "plan", "attempt", "start", "output", "store", "exit", "stop",
                          "lost", "failed", "restart", "end"}, known
    for event in happened:
        unknown = set(event) - known[event["event"]] - {"time", "event", "host"}
        assert not unknown and event["host"] in "ab" and event["time"] > 0, (event, unknown)
    text = metrics.read_text()
    for line in (r"ddprun_attempts_total\{job=\S+\} 2", r'ddprun_restarts_total\{job=\S+,cause="exit_code_3"\} 1',
                 r"ddprun_workers\{job=\S+\} 2", r"ddprun_running\{job=\S+\} 0", r"ddprun_exit_code\{job=\S+\} 0"):
        assert re.search(f"^{line}$", text, re.MULTILINE), text

    drawn = hosts["a"].run(["ddprun", "--timeline", str(events)])
    assert drawn.code == 0 and max(map(len, drawn.stdout.splitlines())) <= 100, str(drawn)
    assert re.search(r"^   1 b +[=-]*X *[=-]+$", drawn.stdout, re.MULTILINE), str(drawn)
    page = directory / "run.html"
    assert hosts["a"].run(["ddprun", "--timeline", str(events), "-o", str(page)]).code == 0
    assert "| no luck" in page.read_text() and "attempt 1 starts" in page.read_text()


def test_files_that_cannot_be_written_are_a_sentence_each_and_change_nothing(machine):
    result = machine.run("--events", "/no/such/events", "--metrics", "/no/such/metrics", *SHELL, "exit 0")
    assert result.code == 0, str(result)
    told = [line for line in result.stderr.splitlines() if "cannot write" in line]
    assert len(told) == 2 and all(re.search(r"to /no/such/\w+ on \S+: no such file or directory$", line) for line in told), told


def test_events_are_appended_and_the_last_job_is_drawn(machine):
    events = machine.directory / "events.jsonl"
    for code in (5, 0):
        assert machine.run("--events", str(events), *SHELL, f"exit {code}").code == code
    assert [event["event"] for event in read(events)].count("begin") == 2
    assert "all workers succeeded" in machine.run("--timeline", str(events)).stdout


def test_a_file_without_events_is_refused(machine):
    (machine.directory / "x").write_text("text\n")
    result = machine.run("--timeline", str(machine.directory / "x"))
    assert result.code == 2 and "contains no ddprun events" in result.stderr, str(result)


def test_torchruns_console_handler_prints_the_events(machine):
    result = machine.run("--event-log-handler", "console", *SHELL, "exit 0")
    assert result.code == 0 and '"event":"end"' in result.stderr, str(result)


def write_large_job(path, hosts: int, workers: int) -> None:
    with path.open("w") as file:
        def say(time: float, event: str, **more) -> None:
            file.write(json.dumps({"time": 1000 + time, "event": event, **more}) + "\n")

        say(0, "begin", host="h0", job="large")
        say(2, "plan", host="h0", nodes=hosts, workers=hosts * workers)
        for attempt, (start, end) in enumerate([(3, 40), (45, 120)]):
            say(start, "attempt", host="h0", attempt=attempt, workers=hosts * workers)
            for rank in range(hosts * workers):
                about = {"host": f"h{rank // workers}", "rank": rank, "attempt": attempt, "pid": 100 + rank}
                say(start, "start", **about)
                say(start + 4, "output", **about)
                say(end, "exit", exit_code=1 - attempt, **about)
            if attempt == 0:
                failed = 5 % hosts * workers + 1
                say(40, "failed", host=f"h{5 % hosts}", rank=failed, attempt=0, what=f"rank {failed} exited with code 1",
                    hint="do <this>", lines=["ValueError: <b>bad</b>"])
        say(121, "end", host="h0", exit_code=0, what="all workers succeeded")


@pytest.mark.skipif(browser.find() is None, reason="there is no Chromium to open the page with")
@pytest.mark.parametrize("hosts_of_job, workers, open_hosts", [(2, 5, 2), (125, 8, 0)])
def test_a_browser_shows_the_page(machine, hosts_of_job, workers, open_hosts):
    events, page = machine.directory / "events.jsonl", machine.directory / "run.html"
    write_large_job(events, hosts_of_job, workers)
    assert machine.run("--timeline", str(events), "-o", str(page)).code == 0
    shown = browser.dump(machine.directory / "profile", page)
    assert shown.count('<details open="">') == open_hosts and shown.count("</details>") == hosts_of_job
    assert shown.count('class="failed"') == 2 and "| ValueError: &lt;b&gt;bad&lt;/b&gt;" in shown
    pictures = {dark: machine.directory / f"{dark}.png" for dark in (False, True)}
    for dark, picture in pictures.items():
        browser.photograph(machine.directory / "profile", page, picture, dark=dark)
    light, dark = (pictures[each].read_bytes() for each in (False, True))
    assert light.startswith(b"\x89PNG") and light != dark
