"""Where adapters are found, and what is said where there are none."""

import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from textwrap import dedent

import pytest

from aios.adapters import loading
from aios.errors import ValidationFailed

SHOP = """
    from aios.adapters.functions import Adapter
    shop = Adapter("com.example.shop")
    also = shop
    other = Adapter("com.example.other")
"""


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(dedent(text), encoding="utf-8")
    return str(path)


def test_each_adapter_at_the_top_of_a_file_is_found_once(tmp_path: Path) -> None:
    found = loading.load(write(tmp_path, "shop.py", SHOP))
    assert [adapter.adapter_id for adapter in found] == ["com.example.shop", "com.example.other"]


def test_a_file_may_import_its_neighbor_and_define_dataclasses(tmp_path: Path) -> None:
    write(tmp_path, "neighbor_of_shop.py", "ID = 'com.example.shop'")
    text = """
        from __future__ import annotations
        from dataclasses import dataclass
        from neighbor_of_shop import ID
        from aios.adapters.functions import Adapter

        @dataclass
        class Product:
            name: str

        shop = Adapter(ID)

        @shop.capability("compat.shop.buy", name="Buy")
        async def buy(product: Product) -> None: ...
    """
    (adapter,) = loading.load(write(tmp_path, "shop.py", text))
    (capability,) = adapter.capabilities()
    assert capability.input["properties"] == {"product": {"$ref": "#/$defs/Product"}}


def test_a_module_is_found_by_its_dotted_name(tmp_path: Path) -> None:
    write(tmp_path, "shop_for_loading.py", SHOP)
    sys.path.insert(0, str(tmp_path))
    assert len(loading.load("shop_for_loading")) == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1", r"has no Adapter\(\.\.\.\) at its top"),
        ("1 / 0", r"cannot load .*: ZeroDivisionError: division by zero"),
        ("def broken(:", r"cannot load .*: SyntaxError"),
        ("raise SystemExit(1)", r"cannot load .*: SystemExit"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ValidationFailed, match=sentence):
        loading.load(write(tmp_path, "bad.py", text))


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [("nowhere/shop.py", "there is no file"), ("no_such_module.at_all", "ModuleNotFoundError")],
)
def test_what_does_not_exist_is_refused_with_a_sentence(reference: str, sentence: str) -> None:
    with pytest.raises(ValidationFailed, match=sentence):
        loading.load(reference)


def test_an_entry_point_that_fails_takes_no_other_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "entry_shop.py", SHOP)
    write(tmp_path, "entry_broken.py", "1 / 0")
    write(tmp_path, "entry_empty.py", "x = 1")
    sys.path.insert(0, str(tmp_path))
    entries = EntryPoints(
        EntryPoint(name, value, loading.GROUP)
        for name, value in {
            "broken": "entry_broken",
            "empty": "entry_empty",
            "module": "entry_shop",
            "one": "entry_shop:shop",
        }.items()
    )

    def entry_points(*, group: str) -> EntryPoints:
        return entries.select(group=group)

    monkeypatch.setattr(loading, "entry_points", entry_points)
    found, failed = loading.load_installed()
    assert [adapter.adapter_id for adapter in found] == ["com.example.shop", "com.example.other"]
    assert failed == {
        "broken": "cannot load entry_broken: ZeroDivisionError: division by zero",
        "empty": "entry_empty is no Adapter(...) and has none at its top",
    }
