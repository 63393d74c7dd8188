"""In a standby interpreter: imports what a worker has imported, and waits to become a worker of the next attempt.

Python's start imports it in the place of sitecustomize, before the script is opened. When it is done that start goes on:
sys.argv, sys.path, sys.flags and __main__ come about as in any other worker. Standard input is the agent's socket:

  agent  leave-out NAMES  packages, with commas between them
  agent  import FILE     the modules to import, as a JSON list
  here   ready COUNT     or "unfit PACKAGE REASON": without that package it would do
  agent  go BYTES        with the three standard streams; the environment, NAME=value and a zero byte each, follows
  here   gone            or "unfit - REASON"

It has no output and leaves with the socket. What is refused, and why, is in docs/restarts.md of ddprun.
"""

import importlib
import os
import sys

K_MARK = "DDPRUN_STANDBY"  # the value of PYTHONPATH to come
K_REST = 2  # times as long as an import has used the CPU
# Their import starts a runtime: MPI's, or threads and connections to devices.
K_LEFT_OUT = {"mpi4py", "tensorflow", "jax", "jaxlib", "horovod"}
# Read by Python, libraries or the dynamic linker as they start, which nobody sees.
K_FIXED = ("PYTHON", "LD_", "OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "BLIS_", "NUMEXPR_", "MALLOC_", "GLIBC_", "LC_",
           "LANG", "TZ", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "HSA_", "ZE_")
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
        self.roots = package_folders()
        self.passed = {}
        self.files = {}  # what was imported: its file, as it was
        self.refused = None
        self.used = 0.0

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


def package_folders():
    import sysconfig

    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")}
    # ddprun's own module, which torch imports
    folders |= {path for path in sys.path if os.path.exists(os.path.join(path, "ddprun_inspection.py"))}
    return tuple(os.path.join(folder, "") for folder in folders if folder)


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
        self.environment = dict(os.environb)
        self.programs = {path: state_of(path) for path in {sys.executable, os.path.realpath(sys.executable)}}
        self.before = open_things()
        self.oom_score = self.exchange_oom_score("1000")  # the kernel kills it, not a worker
        self.guard = Guard(set(K_LEFT_OUT))
        self.received = b""

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

    def prepare(self, path):
        import json

        with open(path, encoding="utf-8") as file:
            wanted = json.load(file)
        os.environ.__class__ = WatchedEnvironment
        sys.meta_path.insert(0, self.guard)
        try:
            for name in wanted:
                self.import_module(name)
        finally:
            sys.meta_path.remove(self.guard)
            os.environ.__class__ = WatchedEnvironment.__base__
        self.say(f"ready {len(sys.modules)}")

    def import_module(self, name):
        top = name.partition(".")[0]
        if name in sys.modules or not self.guard.passes(top):
            return
        try:
            importlib.import_module(name)
        except KeyboardInterrupt:
            os._exit(0)
        except SystemExit:
            self.end(top, "exits")
        except BaseException:  # what cannot be imported by this name
            pass
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
        new = dict(pair.split(b"=", 1) for pair in data.split(b"\0") if b"=" in pair)
        reason = self.why_cold(new, descriptors)
        if reason:
            self.end("-", reason)
        for target, source in enumerate(descriptors):
            os.dup2(source, target)
            os.close(source)
        for name in changes(self.environment, new):
            if name in new:
                os.environb[name] = new[name]
            else:
                del os.environb[name]
        if self.oom_score:
            self.exchange_oom_score(self.oom_score)
        self.say("gone")
        self.control.close()
        inspection = sys.modules.get("ddprun_inspection")
        if inspection:
            inspection.start()

    def why_cold(self, new, descriptors):
        """What differs from a start now."""
        imported = changes(self.environment, dict(os.environb))
        for name in sorted(changes(self.environment, new)):
            text = os.fsdecode(name)
            if text.startswith(K_FIXED):
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


def changes(one, other):
    return {name for name in {*one, *other} if one.get(name) != other.get(name)}


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


def leave_path():
    """This folder, the first of PYTHONPATH."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if path != here]
    sys.path_importer_cache.pop(here, None)
    users = os.environ.pop(K_MARK)
    if users:
        os.environ["PYTHONPATH"] = users
    else:
        os.environ.pop("PYTHONPATH", None)


def import_users_own():
    sys.modules.pop(__name__, None)
    try:
        importlib.import_module(__name__)
    except ImportError as error:
        if error.name != __name__:
            raise


def start():
    leave_path()
    interpreter = Interpreter()
    try:
        import_users_own()
        interpreter.wait()
    except Exception as error:
        interpreter.end("-", f"{type(error).__name__}: {error}".splitlines()[0])
    except KeyboardInterrupt:
        os._exit(0)


if K_MARK in os.environ:
    start()
if sys.modules.get(__name__) is None:
    raise ImportError(f"No module named {__name__!r}", name=__name__)
