"""The data folder: who may read it, the owner's token, the master key, and the note by which others find the daemon."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec

from aios.errors import SandboxViolation, StoreUnavailable, ValidationFailed
from aios.model import Record

TOKEN_BYTES = 32
KEY_SIZE = 32


class Note(Record, frozen=True, kw_only=True):
    """`daemon.json`: where the daemon of this folder is (protocol.md §2)."""

    url: str
    socket: str | None = None
    tcp: str | None = None
    pid: int
    version: str


def prepare(folder: Path) -> None:
    """Make the data folder, for its owner alone. One that is there keeps its mode; what lies in it is private by itself.

    Raises:
        StoreUnavailable: It cannot be made or is no folder.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(
            f"the data folder {folder} cannot be made: {error.strerror or error}; choose another with --data or AIOS_DATA"
        ) from error


def token(folder: Path) -> str:
    """Give the owner's token; it is made at the first start and stays.

    Raises:
        SandboxViolation: Others can read it.
        ValidationFailed: The file is not a token.
    """
    path = folder / "token"
    text = _kept(path, lambda: secrets.token_urlsafe(TOKEN_BYTES).encode()).strip()
    if len(text) < TOKEN_BYTES or not text.isascii():
        raise ValidationFailed(f"{path} does not hold a token; remove it and a new one is made")
    return text.decode("ascii")


def master_key(path: Path) -> bytes:
    """Give the key under which secrets are sealed; it is made at the first start and stays.

    Raises:
        SandboxViolation: Others can read it.
        ValidationFailed: The file is not a key.
    """
    key = _kept(path, lambda: secrets.token_bytes(KEY_SIZE))
    if len(key) != KEY_SIZE:
        raise ValidationFailed(
            f"the master key {path} must have {KEY_SIZE} bytes and has {len(key)}; put back the one it had"
        )
    return key


def _kept(path: Path, make: Callable[[], bytes]) -> bytes:
    """Read a secret file; where there is none, write one that is whole and on disk before anybody sees it."""
    try:
        if not path.exists():
            _write_once(path, make())
        mode = path.stat().st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise SandboxViolation(f"others can read the secret in {path}; take that away: chmod 600 {path}")
        return path.read_bytes()
    except OSError as error:
        raise StoreUnavailable(f"the secret in {path} cannot be read or made: {error.strerror or error}") from error


def _write_once(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    _write(draft, content)
    try:
        # Unlike a rename this never replaces what another process has put there in the meantime.
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        draft.unlink()
    _sync_folder(path.parent)


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_note(folder: Path, note: Note) -> None:
    """Say where the daemon is; whoever reads sees the old note or the new one, never half.

    Raises:
        StoreUnavailable: The disk refuses.
    """
    path = folder / "daemon.json"
    draft = folder / f".daemon-{note.pid}.json"
    try:
        draft.unlink(missing_ok=True)
        _write(draft, msgspec.json.encode(note))
        draft.replace(path)
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be written: {error.strerror or error}") from error


def remove_note(folder: Path, pid: int) -> None:
    """Remove the note, if it is this process's own."""
    path = folder / "daemon.json"
    try:
        if msgspec.json.decode(path.read_bytes(), type=Note).pid == pid:
            path.unlink()
    except (OSError, msgspec.MsgspecError):
        # Not there, or not ours to remove.
        return
