"""In a worker of a job with --standby: notes what it imports (imports.py). In a standby interpreter: imports what a
worker has imported, and waits to become a worker of the next attempt.

Python's start imports it in the place of sitecustomize, before the script is opened. When it is done that start goes on:
sys.argv, sys.path, sys.flags and __main__ come about as in any other worker. A standby interpreter's standard input is the
agent's socket:

  agent  leave-out NAMES  packages, with commas between them
  agent  import FILE     the modules to import, as a JSON list of names; +NAME came with the one before. A text that begins
                         with { is JSON: how the state in which they are imported changes, or why the list ends
  here   ready COUNT     or "unfit PACKAGE REASON": without that package it would do
  agent  go BYTES        with the three standard streams; the environment, NAME=value and a zero byte each, follows
  here   gone            or "unfit - REASON"

It has no output and leaves with the socket. What is refused, and why, is in docs/restarts.md of ddprun.
"""

import os
import sys

K_MARK, K_RECORD = "DDPRUN_STANDBY", "DDPRUN_IMPORTS"  # the value of PYTHONPATH to come: in a standby interpreter, in a worker
K_REST = 2  # times as long as an import has used the CPU
# Their import starts a runtime: MPI's, or threads and connections to devices.
K_LEFT_OUT = {"mpi4py", "tensorflow", "jax", "jaxlib", "horovod"}
K_FILTERS = ("tqdm", "fsspec", "networkx", "diffusers", "donfig", "dask", "numba", "platform")  # look for their own among all


class Refused(BaseException):
    """No `except Exception` goes on with an import that must not have happened."""


class WatchedEnvironment(type(os.environ)):
    """os.environ while modules are imported: what they read must not change."""

    def __getitem__(self, key):
        note_read(key, sys._getframe(1))
        return super().__getitem__(key)

    def __iter__(self):
        for key in super().__iter__():
            note_read(key, sys._getframe(1))
            yield key


def note_read(key, frame):
    while frame and frame.f_globals.get("__name__") in ("os", "collections.abc"):
        frame = frame.f_back
    if not frame or frame.f_globals.get("__name__", "").partition(".")[0] not in K_FILTERS:
        read.add(key)


class Guard:
    """The first finder of sys.meta_path: lets pass what comes with Python or is an installed package."""

    def __init__(self, left_out):
        self.left_out = left_out
        self.folder = own_folder()
        self.own = own_names(self.folder)
        self.look_again()
        self.files = {}  # what was imported: its file, as it was
        self.refused = None
        self.used = 0.0

    def look_again(self):
        """After a change of sys.path."""
        self.roots = package_roots()
        self.passed = {}

    def find_spec(self, name, path=None, target=None):
        self.rest()
        if "." not in name and name in self.own:
            self.refuse(f"imports {name}, which is in {self.folder}")
        spec = self.ask_others(name, path, target)
        if spec is None:
            return None
        reason = self.why_not(spec)
        if reason:  # who asks may only want to know whether there is such a package
            spec.loader = RefusingLoader(self, reason)
        elif spec.has_location:
            self.files.setdefault(spec.origin, state_of(spec.origin))
        return spec

    def ask_others(self, name, path=None, target=None):
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self and hasattr(finder, "find_spec") else None
            if spec is not None:
                return spec
        return None

    def why_not(self, spec):
        top = spec.name.partition(".")[0]
        if top in self.left_out:
            return f"imports {top}, which is left out"
        places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or ())
        other = [place for place in places if not str(place).startswith(self.roots)]
        return f"imports {spec.name} from {other[0]}, which is no installed package" if other else None

    def passes(self, name):
        """Whether this package may be imported; what it imports then shows."""
        if name not in self.passed:
            spec = None if name in self.own or name in self.left_out else self.ask_others(name)
            self.passed[name] = spec is not None and self.why_not(spec) is None
        return self.passed[name]

    def refuse(self, reason):
        self.refused = self.refused or reason
        raise Refused(reason)

    def rest(self):
        """The training has the CPUs, of which this shares some."""
        import time

        now = time.thread_time()
        if now - self.used > 0.005:
            time.sleep(K_REST * (now - self.used))
            self.used = time.thread_time()


class RefusingLoader:
    def __init__(self, guard, reason):
        self.guard, self.reason = guard, reason

    def create_module(self, spec):
        self.guard.refuse(self.reason)

    def exec_module(self, module):
        self.guard.refuse(self.reason)


read = set()  # names of variables


def own_folder():
    """What sys.path[0] is going to be, also where -P or PYTHONSAFEPATH leaves it out."""
    script = sys.argv[0] if sys.argv else ""
    if script in ("", "-", "-c", "-m"):
        return os.getcwd()
    script = os.path.realpath(script)
    return script if os.path.isdir(script) else os.path.dirname(script)


def own_names(folder):
    """The modules that the script's folder has, and the package that -m names."""
    names = {module_of(entry) for entry in os.scandir(folder)}
    if sys.argv and sys.argv[0] == "-m":
        names.add(sys.orig_argv[sys.orig_argv.index("-m") + 1].partition(".")[0] if "-m" in sys.orig_argv else None)
    return names - {None}


def module_of(entry):
    if entry.name.endswith((".py", ".pyc", ".so")):
        return entry.name.partition(".")[0]
    is_package = entry.is_dir() and any(os.path.exists(os.path.join(entry.path, f"__init__.{end}")) for end in ("py", "pyc"))
    return entry.name if is_package else None


def package_roots():
    import sysconfig

    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return tuple(os.path.join(folder, "") for folder in folders if folder) + imports["package_folders"]()


def state_of(path):
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def open_things():
    """Descriptors that a process which waits must not have."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink("/proc/self/fd/" + name)
        except OSError:
            continue
        if path.startswith("socket:") or path.startswith("/dev/") and path not in ("/dev/null", "/dev/urandom", "/dev/random"):
            found.add(path)
    return found


def started_threads():
    threading = sys.modules.get("threading")
    return [thread.name for thread in threading.enumerate()[1:]] if threading else []


def children():
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return file.read().split()
    except OSError:
        return []


class Interpreter:
    def __init__(self):
        self.terminals = os.isatty(1), os.isatty(2)
        self.control = take_control()
        self.folder = os.getcwd()
        self.started_with = dict(os.environb)
        self.programs = {path: state_of(path) for path in {sys.executable, os.path.realpath(sys.executable)}}
        self.before = open_things()
        self.oom_score = self.exchange_oom_score("1000")  # the kernel kills it, not a worker
        self.guard = Guard(set(K_LEFT_OUT))
        self.received = b""
        self.groups = []

    @staticmethod
    def exchange_oom_score(new):
        try:
            with open("/proc/self/oom_score_adj", "r+") as file:
                old = file.read()
                file.seek(0)
                file.write(new)
                return old
        except OSError:
            return None

    def wait(self):
        """Until it is to go on as a worker."""
        while True:
            line, descriptors = self.receive_line()
            command, _, argument = line.partition(b" ")
            if command == b"leave-out":
                self.guard.left_out |= set(filter(None, argument.decode().split(",")))
            elif command == b"import":
                self.prepare(os.fsdecode(argument))
            elif command == b"go":
                return self.go(self.receive(int(argument)), descriptors)

    def receive_line(self):
        import socket

        descriptors = []
        while b"\n" not in self.received:
            data, passed, _, _ = socket.recv_fds(self.control, 65536, 3, socket.MSG_CMSG_CLOEXEC)
            descriptors += passed
            if not data:
                os._exit(0)
            self.received += data
        line, _, self.received = self.received.partition(b"\n")
        return line, descriptors

    def receive(self, size):
        while len(self.received) < size:
            data = self.control.recv(1 << 20)
            if not data:
                os._exit(0)
            self.received += data
        data, self.received = self.received[:size], self.received[size:]
        return data

    def say(self, text):
        self.control.sendall(text.encode("utf-8", "backslashreplace") + b"\n")

    def begin(self):
        """Once what the user runs at each start of Python has run."""
        self.environment, self.lists = dict(os.environb), imports["Lists"]()

    def prepare(self, path):
        import json

        with open(path, encoding="utf-8") as file:
            told = json.load(file)
        why = None
        os.environ.__class__ = WatchedEnvironment
        sys.meta_path.insert(0, self.guard)
        try:
            state = {"environment": {}, "path": list(self.lists.path), "absent": []}
            for each in told:
                if each.startswith("{"):
                    different = json.loads(each)
                    if "path" in different:
                        different["path"] = imports["own_path"](different["path"])
                    state = {**state, **different}
                    why = state.get("why")
                elif each.lstrip("+") not in sys.modules:  # what came with one that is left out is imported alone
                    self.import_in(state, each.lstrip("+"))
        finally:
            sys.meta_path.remove(self.guard)
            os.environ.__class__ = WatchedEnvironment.__base__
        if why and "torch" not in sys.modules:
            self.end("-", why)
        self.say(f"ready {len(sys.modules)}")

    def import_in(self, state, name):
        """Imports it where variables, sys.path and sys.modules are as they were in the worker."""
        put_environment(self.environment, state["environment"])
        if sys.path != state["path"]:
            sys.path[:] = state["path"]
            self.guard.look_again()
        saved = {each: sys.modules.get(each) for each in state["absent"] if sys.modules.get(each, False) is not None}
        sys.modules.update(dict.fromkeys(saved))
        group = imports["Group"](name, state)
        self.import_module(name)
        group.note_end(read)
        if group.names:
            self.groups.append(group)
        for each, module in saved.items():
            if module is None:
                sys.modules.pop(each, None)
            else:
                sys.modules[each] = module

    def import_module(self, name):
        top = name.partition(".")[0]
        if name in sys.modules or not self.guard.passes(top):
            return
        try:
            __import__(name)
        except KeyboardInterrupt:
            os._exit(0)
        except SystemExit:
            self.end(top, "exits")
        except BaseException as error:
            self.end(top, self.guard.refused or f"cannot be imported: {error}".splitlines()[0])
        reason = self.guard.refused or self.why_unfit()
        if reason:
            self.end(top, reason)

    def why_unfit(self):
        if threads := started_threads():
            return f"starts a thread ({threads[0]})"
        if opened := open_things() - self.before:
            return f"opens {min(opened)}"
        if children():
            return "starts a process"
        return f"changes to {os.getcwd()}" if os.getcwd() != self.folder else None

    def end(self, package, reason):
        self.say(f"unfit {package} {reason}")
        os._exit(0)

    def go(self, data, descriptors):
        new = {**set_by_python(), **dict(pair.split(b"=", 1) for pair in data.split(b"\0") if b"=" in pair)}
        reason = self.why_cold(new, descriptors)
        if reason:
            self.end("-", reason)
        for target, source in enumerate(descriptors):
            os.dup2(source, target)
            os.close(source)
        self.restore(new)
        if self.oom_score:
            self.exchange_oom_score(self.oom_score)
        self.say("gone")
        self.control.close()
        note_imports(new, self.groups)

    def restore(self, new):
        """The state before the imports; they are seen to change it when the script makes them."""
        variables = {name: value for name, value in self.environment.items() if new.get(name) == self.started_with.get(name)}
        for name in imports["changes"](self.started_with, new):
            if name in new:
                variables[name] = new[name]
        set_environment(variables)
        for path in set(sys.path) - set(self.lists.path):
            sys.path_importer_cache.pop(path, None)
        self.lists.restore()

    def why_cold(self, new, descriptors):
        """What differs from a start now."""
        imported = {name for group in self.groups for name in {*group.sets, *map(os.fsencode, group.state["environment"])}}
        for name in sorted(imports["changes"](self.started_with, new)):
            text = os.fsdecode(name)
            if imports["is_fixed"](text):
                return f"{text} has changed"
            if name in imported or (text in read and not text.startswith("DDPRUN_")):
                return f"{text} has changed, and was used by an import"
        if (os.isatty(descriptors[1]), os.isatty(descriptors[2])) != self.terminals:
            return "its output is a terminal, or is none any more"
        files = {**self.programs, **self.guard.files}
        for path, state in files.items():
            if state_of(path) != state:
                return f"{path} has changed"
        hidden = own_names(self.guard.folder) & {name for name in sys.modules if "." not in name} - self.guard.own
        return f"{self.guard.folder} has a module {min(hidden)} now" if hidden else None


def set_by_python():
    """LC_CTYPE, where the locale is C (PEP 538)."""
    with open("/proc/self/environ", "rb") as file:
        was_set = (b"\0" + file.read()).find(b"\0LC_CTYPE=") >= 0
    value = os.environb.get(b"LC_CTYPE")
    return {} if was_set or value is None else {b"LC_CTYPE": value}


def put_environment(before, changed):
    variables = dict(before)
    for name, value in changed.items():
        variables[os.fsencode(name)] = None if value is None else os.fsencode(value)
    set_environment({name: value for name, value in variables.items() if value is not None})


def set_environment(variables):
    for name in imports["changes"](dict(os.environb), variables):
        if name in variables:
            os.environb[name] = variables[name]
        else:
            del os.environb[name]


def take_control():
    """Off standard input, which leads nowhere until it goes on, as do the others."""
    import fcntl
    import socket

    number = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 64)
    control = socket.socket(fileno=number)
    null = os.open("/dev/null", os.O_RDWR)
    for target in range(3):
        os.dup2(null, target)
    os.close(null)
    return control


def leave_path(mark):
    """This folder, the first of PYTHONPATH."""
    sys.path[:] = [path for path in sys.path if path != K_HERE]
    sys.path_importer_cache.pop(K_HERE, None)
    users = os.environ.pop(mark)
    if users:
        os.environ["PYTHONPATH"] = users
    else:
        os.environ.pop("PYTHONPATH", None)


def import_users_own():
    sys.modules.pop(__name__, None)
    try:
        __import__(__name__)
    except ImportError as error:
        if error.name != __name__:
            raise


def read_imports():
    """imports.py, whose lines in tracebacks are left out as are importlib's."""
    names = {}
    with open(os.path.join(K_HERE, "imports.py"), encoding="utf-8") as file:
        exec(compile(file.read(), "<frozen importlib._bootstrap>", "exec"), names)
    return names


def note_imports(environment, groups=()):
    """From now on. `environment`: what this process was started with."""
    folder = os.getcwd()

    def start_anew(reason):
        rank = os.fsdecode(environment.get(b"RANK", b"?"))
        text = f"ddprun: rank {rank} starts Python anew instead of going on from --standby: {reason}\n"
        os.write(2, text.encode("utf-8", "replace"))
        users = environment.get(b"PYTHONPATH", b"")
        path = os.fsencode(K_HERE) + (b":" + users if users else b"")
        os.chdir(folder)
        os.execve(sys.executable, sys.orig_argv, {**environment, os.fsencode(K_RECORD): users, b"PYTHONPATH": path})

    imports["Imports"](start_anew, groups)


def start_recorded():
    leave_path(K_RECORD)
    environment = dict(os.environb)
    import_users_own()
    note_imports(environment)


def start():
    leave_path(K_MARK)
    interpreter = Interpreter()
    try:
        import_users_own()
        interpreter.begin()
        interpreter.wait()
    except Exception as error:
        interpreter.end("-", f"{type(error).__name__}: {error}".splitlines()[0])
    except KeyboardInterrupt:
        os._exit(0)


K_HERE = os.path.dirname(os.path.abspath(__file__))
if K_MARK in os.environ or K_RECORD in os.environ:
    imports = read_imports()
    if K_MARK in os.environ:
        start()
    else:
        start_recorded()
if sys.modules.get(__name__) is None:
    raise ImportError(f"No module named {__name__!r}", name=__name__)
