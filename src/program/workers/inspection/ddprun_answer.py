"""What POST /handler/ddprun of a rank answers with: where each of its Python threads is, or where they spend their time.

See ddprun_inspection.py.

Compiled at the first request, from the text that start() read: an import would look through folders that may hang.
"""

import json
import os
import sys
import threading
import time


def answer(request, response, ended, sampling):
    """Holds `sampling` during a profile: the script's end waits for that, at most a second."""
    profiles = bool(request.get_param("seconds"))
    if profiles and not sampling.acquire(False):
        return response.set_status(503)
    try:
        text = profile(request, ended) if profiles else json.dumps(describe(bool(ended), request.get_param("modules") == "1"))
        response.set_content(text, "application/json")
        response.set_status(200)
    except Exception:
        response.set_status(500)
    finally:
        if profiles:
            sampling.release()


def profile(request, ended):
    """Samples all threads `rate` times a second for `seconds`; JSON of at most `limit` bytes."""
    samples, switch = Samples(float(request.get_param("rate"))), sys.getswitchinterval()
    end = samples.last + float(request.get_param("seconds"))
    # A thread that runs Python keeps the interpreter for 5 ms from one that waits, unless it enters C code that lets go: nearly all
    # samples would be of such calls.
    sys.setswitchinterval(min(1e-4, switch))
    try:
        while samples.last < end and not ended:
            samples.take()
    finally:
        sys.setswitchinterval(switch)
    return samples.render(int(request.get_param("limit")))


class Call:
    """A call in a stack: by index of frame those that it makes, seconds of its own, and with all that it calls."""

    __slots__ = ("calls", "time", "total")

    def __init__(self):
        self.calls, self.time, self.total = {}, 0.0, 0.0


class Samples:
    """Trees of calls, by thread. A sample counts for the time since the one before: as long as a call holds the interpreter there is none."""

    def __init__(self, rate):
        self.period, self.count, self.calls, self.here = 1 / rate, 0, 0, threading.get_ident()
        self.frames = {}  # (file, line, function): index
        self.places = {}  # by address of code and instruction: its index, and the code, whose address stays taken
        self.trees = {}  # (name, is it the main thread): Call
        self.began = self.last = time.monotonic()

    def take(self):
        self.count += 1
        # Of uneven length: a loop as long as a period would always be met at the same place.
        time.sleep(self.period * (0.5 + self.count * 0.618034 % 1))
        now, known = time.monotonic(), dict(threading._active)
        for ident, frame in sys._current_frames().items():
            if ident != self.here:
                thread = (_text(getattr(known.get(ident), "name", ""))[:128], ident == threading.main_thread().ident)
                if thread not in self.trees and len(self.trees) >= 16:
                    thread = ("other threads", False)
                self.add(self.trees.setdefault(thread, Call()), frame, now - self.last)
        self.last = now

    def add(self, call, frame, elapsed):
        stack = []
        while frame is not None and len(stack) < 200:
            stack.append(self.place(frame))
            frame = frame.f_back
        for place in reversed(stack):
            if place not in call.calls:
                if self.calls >= 8192:
                    break
                self.calls += 1
                call.calls[place] = Call()
            call = call.calls[place]
            call.total += elapsed
        call.time += elapsed

    def place(self, frame):
        key = id(frame.f_code) << 20 | frame.f_lasti
        found = self.places.get(key)
        if found is None:
            at = (_text(frame.f_code.co_filename)[-256:], frame.f_lineno or 0, _text(frame.f_code.co_name)[:128])
            found = self.places[key] = (self.frames.setdefault(at, len(self.frames)), frame.f_code)
        return found[0]

    def render(self, limit):
        least = 0
        while True:
            text = json.dumps(self.describe(least), separators=(",", ":"))
            if len(text) <= limit or least > self.last - self.began:
                return text
            least = 2 * least or self.period / 2

    def describe(self, least):
        """The calls that took `least` seconds, with all that they call. The others' time is their callers'."""
        frames, numbers, threads = list(self.frames), {}, []
        for (name, main), root in self.trees.items():
            calls, stack = [], [(root, -1)]  # rows of caller's row, frame, time
            while stack:
                call, row = stack.pop()
                for index, inner in call.calls.items():
                    if inner.total >= least:
                        own = inner.time + sum(each.total for each in inner.calls.values() if each.total < least)
                        stack.append((inner, len(calls) // 3))
                        calls += [row, numbers.setdefault(index, len(numbers)), round(own * 1e6)]
            threads.append({"name": name, "main": main, "calls": calls})
        return {"samples": self.count, "seconds": round(self.last - self.began, 3), "frames": [frames[each] for each in numbers],
                "threads": threads}


def describe(ended, modules):
    known = dict(threading._active)  # current_thread() would add this thread of C++ to it
    exceptions = sys._current_exceptions() if hasattr(sys, "_current_exceptions") else {}
    here = threading.get_ident()
    answer = {"main_thread": os.getpid(), "finalizing": sys.is_finalizing(), "script_ended": ended, "groups": _groups(), "threads": []}
    for ident, frame in sys._current_frames().items():
        if ident == here:
            continue
        thread = known.get(ident)
        answer["threads"].append({
            "id": getattr(thread, "native_id", None) or 0,  # 0: a thread of C++ that runs Python
            "name": _text(getattr(thread, "name", "")),
            "stack": _stack(frame),
            "exception": _exception(exceptions.get(ident)),
            "joins": _joined(frame),
            "store_call": _store_call(frame),
        })
    if modules:
        answer["loaded"] = _imports()
    return answer


def _imports():
    """What standby/imports.py has noted: names, and texts of JSON between them."""
    noted = getattr(sys.modules["_frozen_importlib"], "_find_and_load", None)
    told = noted.list() if hasattr(noted, "list") else []
    return [each if isinstance(each, str) else json.dumps(each) for each in told]


def _stack(frame):
    stack = []
    while frame is not None and len(stack) < 64:
        stack.append(_place(frame, frame.f_lineno))
        frame = frame.f_back
    return stack


def _place(frame, line):
    code = frame.f_code
    return {"file": _text(code.co_filename), "line": line or 0, "function": _text(code.co_name)}


def _joined(frame):
    """The thread whose end this one waits for, by the system's number; 0: none."""
    for _ in range(3):
        if frame is None:
            break
        if frame.f_code is threading.Thread.join.__code__:
            return getattr(frame.f_locals.get("self"), "native_id", None) or 0
        frame = frame.f_back
    return 0


def _store_call(frame):
    """The method of a torch store that the innermost line has called, which is no function of Python and so in no stack."""
    dis, c10d = sys.modules.get("dis"), sys.modules.get("torch._C._distributed_c10d")
    if not dis or not c10d:
        return ""
    try:
        return _text(_method_called(frame, dis, c10d.Store))
    except Exception:
        return ""


def _method_called(frame, dis, kind):
    """Follows the names of the line as far as it has run, without calling anything of theirs."""
    lines, line, value, found = dict(dis.findlinestarts(frame.f_code)), None, None, ""
    for step in dis.get_instructions(frame.f_code):
        if step.offset > frame.f_lasti:
            break
        line = lines.get(step.offset, line)
        if line != frame.f_lineno or not step.opname.startswith("LOAD_") or step.opname == "LOAD_CONST":
            continue
        name = step.argval[-1] if isinstance(step.argval, tuple) else step.argval
        if not step.opname.startswith(("LOAD_ATTR", "LOAD_METHOD")):
            value = frame.f_locals.get(name, frame.f_globals.get(name))
        elif isinstance(value, kind):
            value, found = None, name
        else:
            value = _attribute(value, name)
    return found


def _attribute(value, name):
    try:
        return object.__getattribute__(value, "__dict__").get(name)
    except AttributeError:
        return None


def _groups():
    """The process groups of this rank but the default one: torch's flight recorder names a group and not who is in it."""
    try:
        c10d = sys.modules["torch.distributed.distributed_c10d"]
        world = c10d._world
        groups = [(group, ranks) for group, ranks in list(world.pg_group_ranks.items()) if group is not world.default_pg]
        return [{"name": _text(world.pg_names.get(group, "")), "description": _text(group.group_desc),
                 "ranks": _ranges(sorted(ranks))} for group, ranks in groups[:64]]
    except Exception:
        return []


def _ranges(numbers):
    """"0-3,8" of ascending numbers."""
    parts = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
    return text if len(text) <= 4096 else ""


def _exception(found):
    """The one that is being handled, as while a finally block runs; Python 3.10 and 3.11 have a triple, older none."""
    error = found[1] if isinstance(found, tuple) else found
    if error is None:
        return None
    place = {"file": "", "line": 0}
    at = error.__traceback__
    while at is not None:
        place = _place(at.tb_frame, at.tb_lineno)
        at = at.tb_next
    return {"type": _text(type(error).__name__), "message": _message(error), "file": place["file"], "line": place["line"]}


def _message(error):
    """Of plain arguments only: to print a tensor may wait for the GPU."""
    if not all(isinstance(argument, (str, bytes, int, float, bool, type(None))) for argument in error.args):
        return ""
    try:
        return _text(str(error))[:200]
    except Exception:
        return ""


def _text(value):
    """JSON has no halves of surrogate pairs, which a file's name may have."""
    return str(value).encode("utf-8", "backslashreplace").decode()
