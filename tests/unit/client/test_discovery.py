import json
from pathlib import Path

import pytest

from aios.client import Target, locate
from aios.client.discovery import Endpoint, data_folder, parse
from aios.errors import DaemonUnreachable, InvalidParams


def a_daemon_runs(folder: Path, url: str = "http://127.0.0.1:9527", token: str = "secret") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "daemon.json").write_text(
        json.dumps({"url": url, "socket": "/run/aios.sock", "pid": 1, "version": "9", "new": 1})
    )
    (folder / "token").write_text(f"{token}\n")
    return folder


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("http://localhost", Endpoint(scheme="http", host="localhost", port=80)),
        ("HTTPS://Example.org/behind/", Endpoint(scheme="https", host="example.org", port=443, path="/behind")),
        ("http://[::1]:9527", Endpoint(scheme="http", host="::1", port=9527)),
        ("ws://h:1", Endpoint(scheme="ws", host="h", port=1)),
        ("wss://h", Endpoint(scheme="wss", host="h", port=443)),
        ("tcp://10.0.0.1:9528", Endpoint(scheme="tcp", host="10.0.0.1", port=9528)),
        ("unix:/run/aios.sock", Endpoint(scheme="unix", path="/run/aios.sock")),
        ("unix:///run/aios.sock", Endpoint(scheme="unix", path="/run/aios.sock")),
        ("unix:here/aios.sock", Endpoint(scheme="unix", path="here/aios.sock")),
    ],
)
def test_an_address_is_taken_apart(url: str, endpoint: Endpoint) -> None:
    assert parse(url) == endpoint


@pytest.mark.parametrize(
    "url", ["", "localhost:9527", "ftp://h", "http://", "http://u:p@h", "unix:", "http://h:port", "http://[::1"]
)
def test_what_is_no_address_of_a_daemon_is_refused(url: str) -> None:
    with pytest.raises(InvalidParams):
        parse(url)


def test_the_data_folder_is_where_the_daemon_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/people/ann")
    assert data_folder({}) == Path("/people/ann/.local/share/aios")
    assert data_folder({"XDG_DATA_HOME": "/xdg"}) == Path("/xdg/aios")
    assert data_folder({"XDG_DATA_HOME": "relative"}) == Path("/people/ann/.local/share/aios")
    assert data_folder({"XDG_DATA_HOME": "/xdg", "AIOS_DATA": str(tmp_path)}) == tmp_path


def test_what_the_caller_says_comes_before_the_environment_and_that_before_the_data_folder(tmp_path: Path) -> None:
    environ = {
        "AIOS_DATA": str(a_daemon_runs(tmp_path / "data")),
        "AIOS_URL": "http://env:1",
        "AIOS_TOKEN": "env-token",
    }
    other = a_daemon_runs(tmp_path / "other", url="http://127.0.0.1:2", token="other-token")
    assert locate("http://said:3", "said-token", environ=environ) == Target(url="http://said:3", token="said-token")
    assert locate(data=other, environ=environ).token == "other-token"
    assert locate(environ=environ) == Target(url="http://env:1", token="env-token", origin="AIOS_URL")
    del environ["AIOS_URL"], environ["AIOS_TOKEN"]
    found = locate(environ=environ)
    assert (found.url, found.token) == ("http://127.0.0.1:9527", "secret")


def test_the_data_folders_token_goes_to_its_own_daemon_only(tmp_path: Path) -> None:
    environ = {"AIOS_DATA": str(a_daemon_runs(tmp_path))}
    assert locate("http://127.0.0.1:9527", environ=environ).token == "secret"
    assert locate("ws://127.0.0.1:9527", environ=environ).token == "secret"
    for stranger in ("http://127.0.0.1:9528", "http://example.org:9527", "https://127.0.0.1:9527", "tcp://127.0.0.1:1"):
        assert locate(stranger, environ=environ).token is None


def test_a_daemon_without_http_is_found_by_its_socket(tmp_path: Path) -> None:
    (tmp_path / "daemon.json").write_text('{"url": null, "socket": "/run/aios.sock"}')
    assert locate(data=tmp_path, environ={}).url == "unix:/run/aios.sock"


def test_where_no_daemon_has_run_the_error_says_how_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(DaemonUnreachable, match=r"no daemon runs on the data folder .*AIOS_URL"):
        locate(environ={"AIOS_DATA": str(tmp_path)})


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"url": 1}', b"\xff"])
def test_an_unreadable_daemon_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "daemon.json").write_bytes(content)
    with pytest.raises(DaemonUnreachable, match=r"daemon\.json cannot be read"):
        locate(data=tmp_path, environ={})
