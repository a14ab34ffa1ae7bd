"""`system.files.checksum`: what tells whether a file is what it should be."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Literal

from msgspec import Meta

from aios.adapter import BlockingContext, Context
from aios.builtin.files.beneath import READ, Identity, real_path
from aios.builtin.files.hashing import Hash, Meter, feed
from aios.builtin.files.names import to_size, to_text
from aios.builtin.files.tool import files
from aios.errors import CapabilityFailed, FileMissing, PermissionDenied, ValidationFailed
from aios.model import JsonObject

FILES_MAX = 1000

_ENDLESS = 1 << 62
_MAKERS: dict[str, Callable[[], Hash]] = {
    "sha256": hashlib.sha256,
    "sha1": lambda: hashlib.sha1(usedforsecurity=False),
    "md5": lambda: hashlib.md5(usedforsecurity=False),
    "blake2b": hashlib.blake2b,
}


@files.capability(
    "system.files.checksum",
    name="Checksum of files",
    permission="low",
    permission_id="aios.permission.filesystem.files.read",
    scope="{path}",
    timeout_ms=3_600_000,
    category="files",
    examples=[{"path": "~/Downloads/image.iso"}, {"path": ["~/a", "~/b"], "algorithm": "blake2b"}],
)
async def checksum(
    ctx: Context,
    path: str | Annotated[list[str], Meta(min_length=1, max_length=FILES_MAX)],
    algorithm: Literal["sha256", "sha1", "md5", "blake2b"] = "sha256",
) -> JsonObject:
    """Compute the checksum of one or several files.

    Args:
        ctx: The task.
        path: A file, or a list of them; `~` is the home folder of the daemon's user.
        algorithm: Which checksum; sha1 and md5 only to compare with old lists, they keep nobody from forging.
    """
    paths = [path] if isinstance(path, str) else path
    total = await ctx.step("sizes", lambda: ctx.in_thread(lambda blocking: _total(blocking, paths)))
    meter = Meter()
    made: list[JsonObject] = []
    for number, each in enumerate(paths):
        bar = _Bar(meter, total, number + 1, len(paths))
        made.append(await ctx.step("checksum", _computing(ctx, bar), each, algorithm))
        # Of a file that a run before us has read, nothing was counted.
        meter.count = sum(one["size"] for one in made)
    await ctx.progress(100, f"{to_size(meter.count)} read", len(paths), len(paths))
    return {"algorithm": algorithm, "files": made, "bytes": meter.count}


class _Bar:
    """How far the whole is, as one file sees it."""

    def __init__(self, meter: Meter, total: int, number: int, count: int) -> None:
        self._meter = meter
        self._total = total
        self._number = number
        self._count = count

    def passed(self, count: int, ctx: BlockingContext) -> None:
        ctx.checkpoint()
        if self._meter.add(count):
            done = min(self._meter.count, self._total)
            percent = round(100 * done / self._total, 1) if self._total else None
            ctx.progress(percent, f"{to_size(done)} of {to_size(self._total)}", self._number, self._count)


def _computing(ctx: Context, bar: _Bar) -> Callable[[str, str], Awaitable[JsonObject]]:
    async def compute(path: str, algorithm: str) -> JsonObject:
        return await ctx.in_thread(lambda blocking: _compute(path, algorithm, lambda n: bar.passed(n, blocking)))

    return compute


def _total(ctx: BlockingContext, paths: Sequence[str]) -> int:
    """Add up the sizes, and find out about what is missing before an hour was spent on the rest."""
    total = 0
    for path in paths:
        ctx.checkpoint()
        try:
            total += _require_file(os.stat(real_path(path)), path).st_size
        except OSError as error:
            raise _told(error, path) from None
    return total


def _compute(path: str, algorithm: str, passed: Callable[[int], None]) -> JsonObject:
    real = real_path(path)
    try:
        descriptor = os.open(real, READ)
    except OSError as error:
        raise _told(error, path) from None
    try:
        before = Identity.of(_require_file(os.fstat(descriptor), path))
        made = _MAKERS[algorithm]()
        # To the end, whatever its size is said to be: files of the kernel say 0.
        size = feed(made, descriptor, _ENDLESS, passed)
        if Identity.of(os.fstat(descriptor)) != before:
            raise CapabilityFailed(f"{to_text(real)} was written to while it was read; try again when it is at rest.")
    except OSError as error:
        raise _told(error, path) from None
    finally:
        os.close(descriptor)
    return {"path": to_text(real), "size": size, "checksum": made.hexdigest()}


def _require_file(found: os.stat_result, path: str) -> os.stat_result:
    if not stat.S_ISREG(found.st_mode):
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "no regular file"
        raise ValidationFailed(
            f"{path!r} is {what}, of which there is no checksum.", errors=[{"path": "/path", "message": f"is {what}"}]
        )
    return found


def _told(error: OSError, path: str) -> Exception:
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return FileMissing(f"There is no file {path!r}; check the path.")
        case PermissionError():
            return PermissionDenied(f"The daemon may not read {path!r}.")
        case _:
            return CapabilityFailed(f"{path!r} could not be read: {os.strerror(error.errno or 0)}.")
