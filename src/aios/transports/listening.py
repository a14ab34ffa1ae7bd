"""Where doors stand: sockets bound as safely as they are meant to be, or a sentence that says why not (protocol.md §2)."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import ipaddress
import os
import socket
import ssl
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from aios.config import TlsSection
from aios.errors import ResourceBusy, SandboxViolation, ValidationFailed

BACKLOG = 2_048
SEND_BUFFER_SIZE = 256 * 1024
"""What the system buffers for one peer that does not read; on Linux it takes twice this."""
UNIX_PATH_SIZE_MAX = 103 if sys.platform == "darwin" else 107
TLS_HANDSHAKE_TIMEOUT_MS = 10_000


def tls_context(tls: TlsSection) -> ssl.SSLContext | None:
    """Read the certificate; None where none is configured.

    Raises:
        ValidationFailed: The files cannot be used.
    """
    if not tls.certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    load_certificate(context, tls)
    return context


def load_certificate(context: ssl.SSLContext, tls: TlsSection) -> None:
    """Read the certificate into the context, for connections to come. Raises: ValidationFailed."""
    try:
        context.load_cert_chain(tls.certificate, tls.key)
    except OSError as error:
        raise ValidationFailed(
            f"the certificate {tls.certificate} with key {tls.key} cannot be used: {error}"
        ) from error


async def listen_tcp(host: str, port: int, *, door: str, tls: TlsSection) -> socket.socket:
    """Bind one address. `door` is what it is called in the configuration, for messages.

    Raises:
        ValidationFailed: The host is unknown, or lies beyond loopback and nothing is encrypted.
        ResourceBusy: The port is taken.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ValidationFailed(f"{door}: the host {host!r} is not known here: {error.strerror or error}") from error
    family, kind, protocol, _, address = found[0]
    if not ipaddress.ip_address(address[0]).is_loopback and not tls.certificate and not tls.insecure_plaintext:
        raise ValidationFailed(
            f"{door}: {host} can be reached from other machines, where a token must not travel in plain text; "
            "give --tls-cert and --tls-key, or --insecure-plaintext where a proxy before the daemon encrypts"
        )
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # What is accepted inherits these; a peer that is gone without a word is found out by the system.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_SIZE)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        raise _not_bound(error, door, f"{host}:{port}") from error
    return bound


def reachable(address: tuple[str, int]) -> str:
    """Give `host:port` by which this machine reaches a door; one that listens everywhere is also on loopback."""
    host, port = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address[0], address[0]), address[1]  # noqa: S104 - compared
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _not_bound(error: OSError, door: str, place: str) -> ResourceBusy | ValidationFailed:
    if error.errno == errno.EADDRINUSE:
        return ResourceBusy(f"{door}: {place} is taken by another program; choose another, or port 0 for any free one")
    return ValidationFailed(f"{door}: cannot listen at {place}: {error.strerror or error}")


def listen_unix(path: Path) -> socket.socket:
    """Bind a socket that only its owner can reach; one that a dead daemon left behind is replaced.

    Raises:
        ValidationFailed: The path is too long, or something else than a socket is there.
        SandboxViolation: Others could replace what lies in the folder.
        ResourceBusy: Somebody listens there.
    """
    size = len(os.fsencode(path))
    if size > UNIX_PATH_SIZE_MAX or "\0" in str(path):
        raise ValidationFailed(
            f"unix.path: {path} has {size} bytes and a socket's path may have {UNIX_PATH_SIZE_MAX}; "
            "choose a shorter one with --socket"
        )
    with _umask(0o077):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValidationFailed(f"unix.path: {path.parent} cannot be made: {error.strerror or error}") from error
    _check_folder(path.parent)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Two daemons that start at once must not each take the other's socket for a dead one's.
        with _locked(path.parent), _umask(0o177):
            _remove_stale(path)
            bound.bind(str(path))
            bound.listen(BACKLOG)
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        raise _not_bound(error, "unix.path", str(path)) from error
    except BaseException:
        bound.close()
        raise
    return bound


def _check_folder(folder: Path) -> None:
    """Raises: SandboxViolation."""
    found = folder.stat()
    if found.st_uid not in {os.geteuid(), 0}:
        raise SandboxViolation(
            f"unix.path: {folder} belongs to another user; choose a folder of your own with --socket"
        )
    is_open = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if is_open and not found.st_mode & stat.S_ISVTX:
        raise SandboxViolation(
            f"unix.path: others may write to {folder}; take that away (chmod go-w) or choose another"
        )


def _remove_stale(path: Path) -> None:
    """Raises: ValidationFailed, ResourceBusy."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise ValidationFailed(f"unix.path: {path} is there and is not a socket; nothing was touched")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except OSError as error:
            raise ResourceBusy(f"unix.path: who listens at {path} cannot be told: {error.strerror or error}") from error
    raise ResourceBusy(f"unix.path: another daemon listens at {path}; stop it or choose another path with --socket")


def unlink_own(path: Path, inode: int) -> None:
    """Remove the socket's file, unless it is somebody else's by now."""
    try:
        if path.lstat().st_ino == inode:
            path.unlink()
    except FileNotFoundError:
        return


def peer_uid(connection: socket.socket) -> int | None:
    """Say whose process is at the other end of a Unix socket; None where the system does not tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    # struct ucred {pid_t pid; uid_t uid; gid_t gid;}
    credentials = connection.getsockopt(socket.SOL_SOCKET, option, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder)


@contextmanager
def _umask(mask: int) -> Generator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
