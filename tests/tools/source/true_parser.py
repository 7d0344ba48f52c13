# mypy: ignore-errors
"""Run as a script: the real parser of a tree, its heavy imports replaced by stand-ins, printed as JSON.

    python true_parser.py FOLDER_WITH_SGLANG                 its actions
    python true_parser.py FOLDER_WITH_SGLANG parse < WORDS   what it makes of commands: values, or null where it refuses

The oracle for the catalogue. Tests only: the program itself never imports a tree.
"""

from __future__ import annotations

import argparse
import contextlib
import enum
import importlib.abc
import importlib.machinery
import io
import json
import sys
import types


class Meta(type):
    def __getattr__(cls, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Stub

    def __iter__(cls):
        return iter(())

    def __or__(cls, other):
        return Stub

    __ror__ = __add__ = __sub__ = __mul__ = __mod__ = __and__ = __or__

    def __getitem__(cls, item):
        return Stub

    def __lt__(cls, other):
        return False

    __gt__ = __le__ = __ge__ = __lt__

    def __bool__(cls):
        return False

    def __len__(cls):
        return 0

    def __contains__(cls, item):
        return False

    def __instancecheck__(cls, instance):
        return type(instance) is Stub

    def __mro_entries__(cls, bases):
        return (object,)


class Stub(metaclass=Meta):
    def __new__(cls, *args, **kwargs):
        if cls is Stub and len(args) == 1 and not kwargs and isinstance(args[0], (type, types.FunctionType)):
            return args[0]
        return object.__new__(cls)

    def __init__(self, *args, **kwargs):
        pass

    def __init_subclass__(cls, **kwargs):
        pass

    def __call__(self, *args, **kwargs):
        if len(args) == 1 and not kwargs and isinstance(args[0], (type, types.FunctionType)):
            return args[0]
        return self

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Stub

    def __getitem__(self, item):
        return self

    def __setitem__(self, key, value):
        pass

    def __iter__(self):
        return iter(())

    def __enter__(self):
        return self

    def __exit__(self, *args):
        return False

    def __bool__(self):
        return False

    def __int__(self):
        return 0

    def __lt__(self, other):
        return False

    __gt__ = __le__ = __ge__ = __lt__


class Package(types.ModuleType):
    __path__ = ()

    def __getattr__(self, name):
        if name == "__version__":
            return "2.9.0"
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Stub


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("sglang", *KEPT):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Package(spec.name)

    def exec_module(self, module):
        pass


class Forgiving(importlib.abc.Loader):
    """Loads a module of the tree; what fails half-way keeps what it had and answers the rest with stand-ins."""

    def __init__(self, real):
        self.real = real

    def create_module(self, spec):
        return self.real.create_module(spec)

    def exec_module(self, module):
        try:
            self.real.exec_module(module)
        except Exception as error:  # noqa: BLE001 - whatever a module of the tree raises
            sys.stderr.write(f"{module.__name__}: {error}\n")
            module.__dict__["__getattr__"] = stand_in


def stand_in(name):
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(name)
    return Stub


class TreeFinder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != "sglang":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = Forgiving(spec.loader)
        return spec


KEPT = frozenset(sys.stdlib_module_names) | {"msgspec", "typing_extensions", "yaml"}


def plain(value):
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(each) for each in value), key=str)
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def parsed(server_args, words):
    """The values of a command by destination, or None where the parser refuses it."""
    parser = argparse.ArgumentParser(prog="sglang")
    server_args.add_cli_args(parser)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            return {name: plain(value) for name, value in vars(parser.parse_args(words)).items()}
    except SystemExit:
        return None


def main():
    sys.path.insert(0, sys.argv[1])
    sys.meta_path[:0] = [TreeFinder(), StandIns()]
    from sglang.srt.server_args import ServerArgs

    if sys.argv[2:] == ["parse"]:
        rows = [parsed(ServerArgs, words) for words in json.load(sys.stdin)]
        sys.stdout.write("\n" + json.dumps(rows))
        return
    parser = argparse.ArgumentParser(prog="sglang", add_help=False)
    ServerArgs.add_cli_args(parser)
    rows = [
        {
            "names": list(action.option_strings),
            "dest": action.dest,
            "default": plain(action.default),
            "choices": None if action.choices is None else plain(list(action.choices)),
            "required": action.required,
            "nargs": action.nargs,
            "ordered": not isinstance(action.choices, (set, frozenset)),
        }
        for action in parser._actions
    ]
    sys.stdout.write("\n" + json.dumps(rows))


if __name__ == "__main__":
    main()
