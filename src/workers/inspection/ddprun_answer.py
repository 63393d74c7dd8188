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
    answer = {"main_thread": os.getpid(), "finalizing": sys.is_finalizing(), "script_ended": ended, "threads": []}
    for ident, frame in sys._current_frames().items():
        if ident == here:
            continue
        thread = known.get(ident)
        answer["threads"].append({
            "id": getattr(thread, "native_id", None) or 0,  # 0: a thread of C++ that runs Python
            "name": _text(getattr(thread, "name", "")),
            "stack": _stack(frame),
            "exception": _exception(exceptions.get(ident)),
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
