"""In a worker of a job with --standby: notes in which state of the process the script imports each package. In one that
was a standby interpreter: hides what that has imported until the script imports it in the state in which it was imported.

It takes the place of importlib._bootstrap._find_and_load, which Python calls for each module that is not in sys.modules.
sitecustomize.py compiles it as a part of importlib, so that tracebacks and the lines of warnings leave it out.

An import counts if the script or a module that is no installed package makes it. What changed since the one before was
changed by the script. Variables, sys.path and None in sys.modules are told as they are; a change of another kind ends
the list (`why`), for a standby interpreter cannot repeat it.
"""

import _frozen_importlib as bootstrap
import _thread
import _warnings
import builtins
import os
import sys

K_MAIN = ("__main__", "__mp_main__", "sitecustomize", "usercustomize")  # set by Python itself
K_PACKAGES = ("site-packages", "dist-packages", "lib-dynload")
K_INSPECTION = "ddprun's inspection"  # its folder in the sys.path of any node
K_FAILURES = 20  # of the same import, after which it is not looked at
# Read by Python, libraries or the dynamic linker as they start, which nobody sees.
K_FIXED = ("PYTHON", "LD_", "OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "BLIS_", "NUMEXPR_", "MALLOC_", "GLIBC_", "LC_",
           "LANG", "TZ", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "HSA_", "ZE_", "TORCH_", "PYTORCH_", "NCCL_", "GLOO_", "GLOG_",
           "KINETO_", "TOKENIZERS_", "RAYON_", "RUST_", "GRPC_", "UCX_", "FI_", "MIOPEN_")
K_LATE = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")  # read when a process group is made; a spare does not know them before


def is_fixed(variable):
    return variable.startswith(K_FIXED) and variable not in K_LATE


def environment():
    return dict(os.environb._data)


def changes(one, other):
    return {name for name in {*one, *other} if one.get(name) != other.get(name)}


# Each agent has made its own.
INSPECTION = next((path for path in sys.path if os.path.exists(os.path.join(path, "ddprun_inspection.py"))), None)


def package_folders():
    """Of Python itself, and of packages that are installed."""
    folders = {path for path in sys.path if isinstance(path, str) and os.path.basename(path) in K_PACKAGES}
    return tuple(os.path.join(folder, "") for folder in {os.path.dirname(os.__file__), *folders, INSPECTION} if folder)


def told_path(path):
    """As sys.path is told to other nodes."""
    return [K_INSPECTION if each == INSPECTION else each for each in path]


def own_path(told):
    """What another node, or this one, has told as sys.path, as it is here."""
    return [INSPECTION or each if each == K_INSPECTION else each for each in told]


def filters_have_changed():
    if hasattr(_warnings, "_filters_mutated"):
        return _warnings._filters_mutated()
    _warnings._acquire_lock()
    try:
        _warnings._filters_mutated_lock_held()
    finally:
        _warnings._release_lock()


def follow(current, before, after):
    """The change of a list, to one that may be another by now."""
    if current == before:
        current[:] = after
        return
    added = [each for each in after if each not in before and each not in current]
    first = next((place for place, each in enumerate(after) if each in before), 0)
    front = [each for each in after[:first] if each in added]
    current[:] = front + current + [each for each in added if each not in front]


class Lists:
    """What imports may add to, beside the variables, as it is now."""

    def __init__(self):
        self.path, self.meta_path, self.path_hooks = list(sys.path), list(sys.meta_path), list(sys.path_hooks)
        self.filters = list(_warnings.filters)

    def restore(self):
        sys.path[:], sys.meta_path[:], sys.path_hooks[:] = self.path, self.meta_path, self.path_hooks
        _warnings.filters[:] = self.filters
        filters_have_changed()

    def make_change(self, later):
        for name, before in vars(self).items():
            after = vars(later)[name]
            if before != after:
                follow(_warnings.filters if name == "filters" else getattr(sys, name), before, after)
        if self.filters != later.filters:
            filters_have_changed()


class Group:
    """What a standby interpreter has loaded by the import of `head`, and what that has changed."""

    def __init__(self, head, state):
        self.head, self.state = head, dict(state)
        self.before, self.variables = Lists(), environment()
        self.loaded = set(sys.modules)
        self.shown = False

    def note_end(self, read):
        self.names = [name for name in sys.modules if name not in self.loaded]
        self.after = Lists()
        now = environment()
        self.sets = {name: now.get(name) for name in changes(self.variables, now)}
        self.read = set(read)


class Imports:
    def __init__(self, anew, groups=()):
        self.anew = anew  # starts Python again, for a reason; does not return
        self.original = bootstrap._find_and_load
        self.process, self.main, self.stack, self.failed = os.getpid(), _thread.get_ident(), [], {}
        self.others = False  # another thread has imported something
        self.own, self.folders, self.path = {}, (), None
        self.folder, self.base = os.getcwd(), environment()
        self.told, self.why = [], None
        self.state = {"environment": {}, "path": None, "absent": []}
        self.groups = list(groups)
        self.hidden = {}
        for group in self.groups:
            for name in group.names:
                if name in sys.modules:
                    self.hidden[name] = group, sys.modules.pop(name)
        self.note()
        bootstrap._find_and_load = self

    def __call__(self, name, import_):
        here = _thread.get_ident() == self.main
        if here and not self.why and not self.in_package():
            return self.import_noted(name, import_)
        self.others = self.others or not here
        if not self.why:
            self.begun.append(name)
        if name in self.hidden:
            self.show_by(name)
        return self.original(name, import_)

    def import_noted(self, name, import_):
        state = self.state_before(name) if self.failed.get(name, 0) < K_FAILURES else None
        if name in self.hidden:
            self.show_by(name)
        self.stack.append(name)
        self.begun.append(name)
        done = False
        try:
            module = self.original(name, import_)
            done = True
            return module
        finally:
            self.stack.pop()
            if not done:
                self.failed[name] = self.failed.get(name, 0) + 1
            if state and len(sys.modules) != len(self.known) and (not done or self.is_package(name)):
                self.tell(name if done else None, state)
            self.note()

    def note(self):
        self.begun = []  # of what is imported meanwhile, in this order
        self.known, self.variables, self.lists = sys.modules.copy(), environment(), Lists()
        self.builtin = dict(vars(builtins))

    def is_package(self, name):
        """Whether this module, which may be about to be loaded, came with Python or is installed."""
        if name in self.own:
            return self.own[name]
        module = sys.modules.get(name)
        if module is None:
            return False
        if self.path != sys.path:
            self.path, self.folders = list(sys.path), package_folders()
        spec = getattr(module, "__spec__", None)
        origin = getattr(spec, "origin", None) or next(iter(getattr(spec, "submodule_search_locations", None) or ()), None)
        self.own[name] = origin in ("built-in", "frozen") or str(origin).startswith(self.folders)
        return self.own[name]

    def state_before(self, name):
        try:
            self.why = self.why_not_repeated(name)
        except Exception as error:
            self.why = f"{type(error).__name__}: {error}"
        if self.why:
            return None
        now = environment()
        return {
            "environment": {os.fsdecode(each): os.fsdecode(now[each]) if each in now else None for each in changes(self.base, now)},
            "path": told_path(sys.path),
            "absent": sorted(each for each, module in sys.modules.copy().items() if module is None),
        }

    def why_not_repeated(self, name):
        """What the script has changed since the last import that a standby interpreter would not have."""
        if os.getcwd() != self.folder:
            return f"the script changes to {os.getcwd()} before it imports {name}"
        for each in ("meta_path", "path_hooks"):
            if getattr(sys, each) != getattr(self.lists, each):
                return f"the script changes sys.{each} before it imports {name}"
        if not all(isinstance(each, str) for each in sys.path):
            return f"the script puts into sys.path what is no string before it imports {name}"
        if changes(self.builtin, vars(builtins)) - {"_"}:
            return f"the script changes builtins before it imports {name}"
        if self.others:
            self.others = False
            self.known = sys.modules.copy()
        modules = sys.modules.copy()
        for each in {*modules, *self.known}.difference(K_MAIN, self.stack):
            if modules.get(each) is not self.known.get(each) and modules.get(each, False) is not None:
                return f"the script changes sys.modules[{each!r}] before it imports {name}"
        changed = changes(self.variables, environment())
        if is_late() and (changed or sys.path != self.lists.path):
            what = os.fsdecode(min(changed)) if changed else "sys.path"
            return f"the script changes {what} after init_process_group() and before it imports {name}"
        return None

    def tell(self, name, state):
        different = {key: value for key, value in state.items() if value != self.state[key]}
        if different:
            self.told.append(different)
            self.state = state
        if name:
            self.told.append(name)
        new = sys.modules.keys() - self.known.keys() - {name}
        with_it = [each for each in dict.fromkeys(self.begun) if each in new and self.is_package(each)]
        self.told += ["+" + each for each in with_it]

    def list(self):
        """The names of what the script has imported, each behind what has changed in the state and before what came with it;
        at the end why there is no more."""
        return self.told + ([{"why": self.why}] if self.why else [])

    def show_by(self, name):
        parent = name.rpartition(".")[0]
        if parent in self.hidden and self.hidden[parent][0] is not self.hidden[name][0]:
            self.show_by(parent)
        if name not in self.hidden:
            return
        group = self.hidden[name][0]
        skipped = [each for each in self.groups[:self.groups.index(group)] if not each.shown]
        reason = self.why_other(group) if os.getpid() == self.process else None
        if reason and is_late():
            os.write(2, f"ddprun: {name} was imported before this restart (--standby), and {reason}\n".encode("utf-8", "replace"))
        elif os.getpid() == self.process and not is_late():
            if not reason and (skipped or name != group.head):
                reason = f"{name} is imported before {skipped[0].head if skipped else group.head}"
            if reason:
                self.anew(reason)
        for each in [*skipped, group]:
            self.show(each)

    def why_other(self, group):
        """What differs from the state in which the standby interpreter has imported it."""
        if self.why:
            return self.why
        where = f"as {group.head} is imported"
        if os.getcwd() != self.folder:
            return f"the working directory is {os.getcwd()} {where}"
        if sys.path != group.state["path"]:
            return f"sys.path is not that of the attempt before {where}"
        modules = sys.modules.copy()
        absent = [each for each, module in modules.items() if module is None]
        changed = {*absent}.symmetric_difference(group.state["absent"]) | {each for each in group.names if each in modules}
        for each in {*modules, *self.known}.difference(K_MAIN, self.stack, absent):
            if not self.others and not self.in_package() and modules.get(each) is not self.known.get(each):
                changed.add(each)
        if changed:
            return f"sys.modules[{min(changed)!r}] is not that of the attempt before {where}"
        if not self.in_package() and [sys.meta_path, sys.path_hooks] != [self.lists.meta_path, self.lists.path_hooks]:
            return f"the script has changed sys.meta_path or sys.path_hooks {where}"
        if not self.in_package() and changes(self.builtin, vars(builtins)) - {"_"}:
            return f"the script has changed builtins {where}"
        before, now = self.recorded(group), environment()
        for each in sorted(changes(before, now)):
            text = os.fsdecode(each)
            if text in group.read or is_fixed(text):
                return f"{text} is not that of the attempt before {where}"
        return self.why_elsewhere(group, where)

    def in_package(self):
        return bool(self.stack) and self.is_package(self.stack[-1])

    def recorded(self, group):
        variables = dict(self.base)
        for name, value in group.state["environment"].items():
            if value is None:
                variables.pop(os.fsencode(name), None)
            else:
                variables[os.fsencode(name)] = os.fsencode(value)
        return variables

    def why_elsewhere(self, group, where):
        top = group.head.partition(".")[0]
        if top not in self.hidden:
            return None
        spec, loaded = bootstrap._find_spec(top, None), self.hidden[top][1].__spec__
        return None if spec and spec.origin == loaded.origin else f"{top} is found elsewhere {where}"

    def show(self, group):
        if group.shown:
            return
        group.shown = True
        for name in group.names:
            if name in self.hidden:
                sys.modules.setdefault(name, self.hidden.pop(name)[1])
        for name, value in group.sets.items():
            if value is None:
                os.environb.pop(name, None)
            else:
                os.environb[name] = value
        group.before.make_change(group.after)
        if "ddprun_inspection" in group.names:
            self.stack.append("ddprun_inspection")
            sys.modules["ddprun_inspection"].start()
            self.stack.pop()


def is_late():
    """Starting again would leave the other ranks alone."""
    distributed = sys.modules.get("torch.distributed.distributed_c10d")
    return getattr(getattr(distributed, "GroupMember", None), "WORLD", None) is not None
