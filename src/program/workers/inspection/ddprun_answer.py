"""What POST /handler/ddprun of a rank answers with: where each of its Python threads is. See ddprun_inspection.py.

Compiled at the first request, from the text that start() read: an import would look through folders that may hang.
"""

import json
import os
import sys
import threading


def answer(request, response, ended):
    try:
        response.set_content(json.dumps(describe(ended, request.get_param("modules") == "1")), "application/json")
        response.set_status(200)
    except Exception:
        response.set_status(500)


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
