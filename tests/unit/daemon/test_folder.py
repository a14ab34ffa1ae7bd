import os
import stat
from pathlib import Path

import msgspec
import pytest

from aios.daemon import folder as data
from aios.errors import SandboxViolation, StoreUnavailable, ValidationFailed


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_secrets_are_made_once_and_are_their_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        data.prepare(tmp_path / "a" / "data")
        folder = tmp_path / "a" / "data"
        token, key = data.token(folder), data.master_key(folder / "master.key")
    finally:
        os.umask(before)
    assert (mode(folder), mode(folder / "token"), mode(folder / "master.key")) == (0o700, 0o600, 0o600)
    assert (data.token(folder), data.master_key(folder / "master.key")) == (token, key)
    assert len(key) == 32
    assert sorted(path.name for path in folder.iterdir()) == ["master.key", "token"]


def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    data.prepare(tmp_path)
    assert mode(tmp_path) == 0o755


@pytest.mark.parametrize("name", ["token", "master.key"])
def test_a_secret_that_others_can_read_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"x" * 40)
    (tmp_path / name).chmod(0o640)
    with pytest.raises(SandboxViolation, match="chmod 600"):
        data.token(tmp_path) if name == "token" else data.master_key(tmp_path / name)


@pytest.mark.parametrize(("name", "content"), [("token", b""), ("token", b"short"), ("master.key", b"x" * 31)])
def test_a_file_that_holds_no_secret_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / name).chmod(0o600)
    with pytest.raises(ValidationFailed, match=name):
        data.token(tmp_path) if name == "token" else data.master_key(tmp_path / name)


def test_a_place_that_cannot_be_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="file"):
        data.prepare(tmp_path / "file")
    with pytest.raises(StoreUnavailable, match="master"):
        data.master_key(tmp_path / "no-such-folder" / "master.key")


def test_the_note_is_whole_private_and_removed_only_by_its_own_process(tmp_path: Path) -> None:
    for url in ("http://127.0.0.1:1", "http://127.0.0.1:2"):
        data.put_note(tmp_path, data.Note(url=url, pid=7, version="1"))
    path = tmp_path / "daemon.json"
    assert msgspec.json.decode(path.read_bytes()) == {"url": url, "pid": 7, "version": "1"}
    assert mode(path) == 0o600
    data.remove_note(tmp_path, 8)
    assert path.exists()
    data.remove_note(tmp_path, 7)
    data.remove_note(tmp_path, 7)
    assert list(tmp_path.iterdir()) == []
