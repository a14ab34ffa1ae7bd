"""Finding adapters: in a file, in a module, at the entry points of what is installed."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from aios.adapter import Adapter
from aios.errors import AiosError, ValidationFailed

GROUP = "aios.adapters"
"""Of entry points, each of which names an adapter, a list of them, or a module that has some."""
_SUFFIX = ".py"
_FACE = ("adapter_id", "name", "version", "capabilities", "run")


def load(reference: str) -> list[Adapter]:
    """Load the adapters that stand at the top of a file (`tools/shop.py`) or a module (`shop.tools`).

    A file may import what lies beside it.

    Raises:
        ValidationFailed: There is no such file or module, its code raised, or it has no adapter.
    """
    is_file = reference.endswith(_SUFFIX)
    try:
        module = _from_file(Path(reference)) if is_file else importlib.import_module(reference)
    except AiosError:
        raise
    except (Exception, SystemExit) as error:
        raise ValidationFailed(f"cannot load {reference}: {type(error).__name__}: {error}") from error
    found = _adapters_of(module)
    if not found:
        raise ValidationFailed(f"{reference} has no Adapter(...) at its top")
    return found


def load_installed() -> tuple[list[Adapter], dict[str, str]]:
    """Load the adapters at the entry points `aios.adapters`; and say of each entry point that failed why.

    One that fails takes no other down.
    """
    found: list[Adapter] = []
    failed: dict[str, str] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            adapters = _adapters_of(entry.load())
        except Exception as error:
            failed[entry.name] = f"cannot load {entry.value}: {type(error).__name__}: {error}"
            continue
        if not adapters:
            failed[entry.name] = f"{entry.value} is no Adapter(...) and has none at its top"
        found += (each for each in adapters if not any(each is other for other in found))
    return found, failed


def _from_file(path: Path) -> ModuleType:
    path = path.resolve()
    name = f"aios_adapter_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValidationFailed(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _adapters_of(thing: object) -> list[Adapter]:
    candidates: list[Any] = [thing]
    if isinstance(thing, ModuleType):
        candidates = list(vars(thing).values())
    elif isinstance(thing, list | tuple):
        candidates = list(cast("list[Any]", thing))
    found: list[Adapter] = []
    for each in candidates:
        # A module may have the same adapter under two names; it is one all the same.
        if _is_adapter(each) and not any(each is other for other in found):
            found.append(each)
    return found


def _is_adapter(thing: object) -> bool:
    return not isinstance(thing, type) and all(hasattr(thing, name) for name in _FACE)
