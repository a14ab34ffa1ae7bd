from pathlib import Path

import pytest

from aios.config import load, split_address
from aios.errors import ValidationFailed

HOME = {"HOME": "/nobody/home"}


def written(folder: Path, text: str) -> Path:
    file = folder / "aios.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_without_any_source_the_defaults_hold() -> None:
    config = load(environ=HOME)
    assert (config.http.host, config.http.port, config.limits.max_queue_size) == ("127.0.0.1", 9527, 10_000)
    assert str(config.folder) == "/nobody/home/.local/share/aios"
    assert config.unix.path == "/nobody/home/.local/share/aios/aios.sock"
    assert config.key_file == config.folder / "master.key"
    assert config.origins == {}


def test_each_source_is_stronger_than_the_one_before_and_remembered(tmp_path: Path) -> None:
    file = written(
        tmp_path, '[limits]\nmax_queue_size = 1\nmax_batch_size = 2\nmax_depth = 3\n[http]\nallowed_hosts = ["a"]'
    )
    environ = {**HOME, "AIOS_LIMITS__MAX_BATCH_SIZE": "20", "AIOS_LIMITS__MAX_DEPTH": "30"}
    config = load(file, environ, {"limits.max_depth": 4, "http.port": None})
    assert (config.limits.max_queue_size, config.limits.max_batch_size, config.limits.max_depth) == (1, 20, 4)
    assert config.http.allowed_hosts == ("a",)
    origins = {name: origin for name, _, origin in config.values() if origin != "default"}
    assert origins == {
        "http.allowed_hosts": f"file {file}",
        "limits.max_queue_size": f"file {file}",
        "limits.max_batch_size": "environment AIOS_LIMITS__MAX_BATCH_SIZE",
        "limits.max_depth": "flag",
    }


def test_the_file_of_the_xdg_folder_is_read_if_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "aios").mkdir()
    written(tmp_path / "aios", "[retention]\ndays = 7")
    assert load(environ={**HOME, "XDG_CONFIG_HOME": str(tmp_path)}).retention.days == 7


def test_relative_paths_of_a_file_are_read_from_the_files_own_folder(tmp_path: Path) -> None:
    text = '[adapters]\nmodules = ["my_tools.py", "shop.tools", "/srv/other.py"]\n[tls]\ncertificate = "a.pem"\nkey = "b/c.pem"'
    config = load(written(tmp_path, text), HOME)
    assert config.adapters.modules == (str(tmp_path / "my_tools.py"), "shop.tools", "/srv/other.py")
    assert (config.tls.certificate, config.tls.key) == (str(tmp_path / "a.pem"), str(tmp_path / "b" / "c.pem"))


def test_the_environment_gives_lists_by_commas_and_switches_by_words() -> None:
    environ = {**HOME, "AIOS_HTTP__ALLOWED_HOSTS": "a.example, b.example:8443", "AIOS_UNIX__ENABLED": "false"}
    config = load(environ=environ)
    assert config.http.allowed_hosts == ("a.example", "b.example:8443")
    assert config.unix.enabled is False


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[http]\nprot = 1", ["aios.toml", "http.prot", "unknown", "did you mean http.port?"]),
        ("[htpp]\nport = 1", ["aios.toml", "htpp", "unknown"]),
        ("http = 1", ["aios.toml", "http"]),
        ('[http]\nport = "1"', ["aios.toml", "http.port", "int"]),
        ("[http]\nport = 70000", ["aios.toml", "http.port", "65535"]),
        ("[limits]\nmax_depth = 0", ["aios.toml", "limits.max_depth", "at least 1"]),
        ("[limits\n", ["aios.toml", "not TOML"]),
    ],
)
def test_a_mistake_in_the_file_is_an_error_that_names_file_and_key(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(ValidationFailed) as raised:
        load(written(tmp_path, text), HOME)
    assert [word for word in words if word not in str(raised.value)] == []


def test_a_file_that_was_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ValidationFailed, match=r"other\.toml: No such file"):
        load(tmp_path / "other.toml", HOME)


@pytest.mark.parametrize("variable", ["AIOS_HTTP__PROT", "AIOS_HTPP__PORT", "AIOS_HTTP__PORT"])
def test_a_mistake_in_the_environment_names_the_variable(variable: str) -> None:
    with pytest.raises(ValidationFailed, match=variable):
        load(environ={**HOME, variable: "many"})


def test_variables_of_the_client_are_not_taken_for_keys() -> None:
    load(environ={**HOME, "AIOS_URL": "http://127.0.0.1:1", "AIOS_TOKEN": "t", "AIOS_ROUNDS": "5"})


def test_the_socket_lives_in_the_runtime_folder_unless_the_data_folder_is_ones_own(tmp_path: Path) -> None:
    runtime = {**HOME, "XDG_RUNTIME_DIR": "/run/user/1"}
    assert load(environ=runtime).unix.path == "/run/user/1/aios/aios.sock"
    assert load(environ=runtime, flags={"store.folder": str(tmp_path)}).unix.path == f"{tmp_path}/aios.sock"
    assert load(environ={**runtime, "AIOS_DATA": str(tmp_path)}).folder == tmp_path


def test_a_certificate_without_its_key_is_refused() -> None:
    with pytest.raises(ValidationFailed, match="go together"):
        load(environ=HOME, flags={"tls.certificate": "cert.pem"})


def test_a_role_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValidationFailed, match="no role 'root'"):
        load(environ=HOME, flags={"stdio.role": "root"})


def test_addresses_are_taken_apart() -> None:
    assert split_address("127.0.0.1:0") == ("127.0.0.1", 0)
    assert split_address("[::1]:9528") == ("::1", 9528)


@pytest.mark.parametrize("address", ["9528", "host:", ":1", "host:port", "host:99999"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValidationFailed, match="HOST:PORT"):
        load(environ=HOME, flags={"tcp.address": address})
