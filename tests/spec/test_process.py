"""The daemon as a process: how it starts, what it leaves, how it ends (protocol.md §2; design.md §5)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import ssl
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from aios.config import TlsSection
from aios.transports.listening import tls_context

AIOS = str(Path(sys.executable).with_name("aios"))
PATIENCE_S = 30
TOOLS = """
import asyncio
from aios import Adapter
tools = Adapter("org.example.tools")

@tools.capability("test.wait", name="Wait")
async def wait() -> None:
    await asyncio.Event().wait()

@tools.capability("test.shout", name="Shout")
def shout() -> str:
    print("not a frame")
    return "done"
"""


class Process:
    """`aios serve`, as far as a test needs it."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.note: dict[str, str] = {}

    async def ready(self) -> None:
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            while b"aios is ready" not in (line := await self.process.stderr.readline()):
                assert line, "the daemon ended"
        self.note = json.loads((self.folder / "daemon.json").read_text())

    async def ends(self) -> int:
        async with asyncio.timeout(PATIENCE_S):
            return await self.process.wait()

    async def words(self) -> str:
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            return (await self.process.stderr.read()).decode()

    def http(self, verify: ssl.SSLContext | bool = True) -> httpx2.AsyncClient:
        token = (self.folder / "token").read_text()
        fields = {"Authorization": f"Bearer {token}"}
        url = self.note["url"]
        return httpx2.AsyncClient(base_url=url, headers=fields, trust_env=False, timeout=PATIENCE_S, verify=verify)


@asynccontextmanager
async def serving(folder: Path, *arguments: str, is_ready: bool = True) -> AsyncGenerator[Process]:
    (folder / "tools.py").write_text(TOOLS)
    process = await asyncio.create_subprocess_exec(
        *(AIOS, "serve", "--data", str(folder), "--port", "0", "--adapter", str(folder / "tools.py"), *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
    )
    made = Process(process, folder)
    try:
        if is_ready:
            await made.ready()
        yield made
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def ask(http: httpx2.AsyncClient, method: str, **params: object) -> dict[str, object]:
    answer = await http.post("/aios/rpc", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    return answer.json()["result"]


async def test_the_first_signal_ends_it_in_order_with_everything_open(tmp_path: Path) -> None:
    async with serving(tmp_path, "--tcp", "127.0.0.1:0") as daemon, daemon.http() as http:
        note = daemon.note
        assert note["pid"] == daemon.process.pid
        assert {"url", "socket", "version"} <= set(note)
        task = await ask(http, "aios/task.create", capability_id="test.wait", options={"async": True})
        unix, writer = await asyncio.open_unix_connection(note["socket"])
        async with http.stream("GET", f"/aios/tasks/{task['task_id']}/events") as stream:
            started = asyncio.get_running_loop().time()
            daemon.process.send_signal(signal.SIGTERM)
            assert ": the daemon stops" in [line async for line in stream.aiter_lines()]
        assert await unix.read() == b""
        writer.close()
        assert await daemon.ends() == 0
        assert asyncio.get_running_loop().time() - started < 5
    assert not (tmp_path / "daemon.json").exists()
    assert not (tmp_path / "aios.sock").exists()


async def test_the_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon, daemon.http() as http:
        waiting = asyncio.create_task(ask(http, "aios/task.create", capability_id="test.wait"))
        while not (await ask(http, "aios/task.list", filter={"status": ["working"]}))["tasks"]:
            continue
        daemon.process.send_signal(signal.SIGINT)
        daemon.process.send_signal(signal.SIGTERM)
        assert await daemon.ends() in {0, 1}
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert not (tmp_path / "daemon.json").exists()
    async with serving(tmp_path) as daemon, daemon.http() as http:
        assert (await ask(http, "aios/task.list"))["total"] == 1


async def test_a_second_daemon_on_the_same_data_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon, daemon.http() as http:
        async with serving(tmp_path, is_ready=False) as second:
            assert await second.ends() not in {0, None}
            assert "another daemon" in (await second.words()).lower()
        assert json.loads((tmp_path / "daemon.json").read_text())["pid"] == daemon.process.pid
        assert (await ask(http, "aios/task.list"))["total"] == 0
        assert (tmp_path / "aios.sock").exists()


async def test_a_taken_port_is_said_in_a_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with serving(tmp_path, "--port", str(port), is_ready=False) as daemon:
            assert await daemon.ends() not in {0, None}
            words = await daemon.words()
            assert f"127.0.0.1:{port} is taken" in words
            assert "Traceback" not in words
    assert not (tmp_path / "aios.sock").exists()


async def test_over_standard_input_every_line_is_answered_before_the_end_and_prints_go_elsewhere(
    tmp_path: Path,
) -> None:
    urgent = {"capability_id": "test.shout", "options": {"priority": "urgent"}}
    calls = [
        {"jsonrpc": "2.0", "id": 1, "method": "aios/initialize", "params": {"protocol_version": "0.3.0"}},
        {"jsonrpc": "2.0", "id": 2, "method": "aios/task.create", "params": {"capability_id": "test.shout"}},
        {"jsonrpc": "2.0", "id": 3, "method": "aios/task.create", "params": urgent},
    ]
    async with serving(tmp_path, "--stdio", is_ready=False) as daemon, asyncio.timeout(PATIENCE_S):
        lines = "".join(json.dumps(each) + "\n" for each in calls)
        output, errors = await daemon.process.communicate(lines.encode())
        answers = {answer["id"]: answer for answer in map(json.loads, output.decode().splitlines())}
        assert answers[2]["result"]["result"] == {"value": "done"}
        # Whoever starts it is a client, unless it was told another role.
        assert answers[3]["error"]["data"]["required_role"] == "operator"
        assert b"not a frame" in errors
        assert daemon.process.returncode == 0


def certify(folder: Path, name: str, number: int) -> ssl.SSLContext:
    """Write a certificate for 127.0.0.1 and give a context that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), number)
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    (folder / f"{name}.pem").write_bytes(pem)
    (folder / f"{name}.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.create_default_context(cadata=pem.decode())
    context.check_hostname = False
    return context


@pytest.mark.promise("2.tls")
async def test_with_a_certificate_everything_that_leaves_the_machine_is_encrypted(tmp_path: Path) -> None:
    first = certify(tmp_path, "tls", 1)
    section = TlsSection(certificate=str(tmp_path / "tls.pem"), key=str(tmp_path / "tls.key"))
    context = tls_context(section)
    assert context is not None
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    files = ("--tls-cert", str(tmp_path / "tls.pem"), "--tls-key", str(tmp_path / "tls.key"))
    async with serving(tmp_path, "--host", "0.0.0.0", "--tcp", "0.0.0.0:0", *files) as daemon:
        port, tcp_port = (int(daemon.note[way].rpartition(":")[2]) for way in ("url", "tcp"))
        assert daemon.note["url"] == f"https://127.0.0.1:{port}"
        async with daemon.http(verify=first) as http:
            assert (await ask(http, "aios/task.list"))["total"] == 0
        reader, writer = await asyncio.open_connection("127.0.0.1", tcp_port, ssl=first)
        writer.write(b'{"jsonrpc":"2.0","id":1,"method":"aios/ping"}\n')
        assert b"server_time" in await reader.readline()
        writer.close()
        second = certify(tmp_path, "tls", 2)
        daemon.process.send_signal(signal.SIGHUP)
        async with asyncio.timeout(PATIENCE_S):
            while not await is_trusted(port, second):
                continue


async def is_trusted(port: int, context: ssl.SSLContext) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    except ssl.SSLError:
        return False
    writer.close()
    return True


@pytest.mark.promise("2.tls")
async def test_beyond_loopback_it_does_not_start_in_plain_text(tmp_path: Path) -> None:
    async with serving(tmp_path, "--host", "0.0.0.0", is_ready=False) as daemon:
        assert await daemon.ends() not in {0, None}
        assert "--tls-cert" in await daemon.words()
    async with serving(tmp_path, "--host", "0.0.0.0", "--insecure-plaintext") as daemon, daemon.http() as http:
        assert (await ask(http, "aios/task.list"))["total"] == 0
