import tomllib
from pathlib import Path

import pytest

from millstream.server.settings import Settings, SettingsError, fields, load


def test_the_default_is_a_loopback_server() -> None:
    loaded = load()
    assert (loaded.settings.host, loaded.settings.port) == ("127.0.0.1", 4437)
    assert set(loaded.sources.values()) == {"default"}


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "millstream.toml"
    path.write_text('port = 1\nlog_level = "debug"\nidle_ms = 5000\n')
    loaded = load(path, {"MILLSTREAM_PORT": "2", "MILLSTREAM_IDLE_MS": "6_000"}, {"port": 3})
    assert (loaded.settings.port, loaded.settings.idle_ms) == (3, 6000)
    assert loaded.settings.log_level == "debug"
    assert loaded.sources["port"] == "flag --port"
    assert loaded.sources["idle_ms"] == "MILLSTREAM_IDLE_MS"
    assert loaded.sources["log_level"] == str(path)


def test_a_flag_that_was_not_given_changes_nothing() -> None:
    assert load(environ={"MILLSTREAM_PORT": "2"}, flags={"port": None}).settings.port == 2


def test_lists_and_switches_come_from_the_environment_too() -> None:
    settings = load(
        environ={
            "MILLSTREAM_CORS_ORIGINS": "https://a.example, https://b.example",
            "MILLSTREAM_INSECURE_NO_AUTH": "true",
            "MILLSTREAM_HOST": "::",
        }
    ).settings
    assert settings.cors_origins == ("https://a.example", "https://b.example")
    assert settings.insecure_no_auth


def test_variables_of_the_client_and_of_others_are_left_alone() -> None:
    load(environ={"MILLSTREAM_URL": "http://localhost", "PATH": "/bin"})


@pytest.mark.parametrize(
    "environ, parts",
    [
        ({"MILLSTREAM_PORT": "x"}, ["port", "0 to 65535", "MILLSTREAM_PORT=4437"]),
        ({"MILLSTREAM_LONG_POLL_MS": "5"}, ["100 to 60000", "MILLSTREAM_LONG_POLL_MS=20000"]),
        ({"MILLSTREAM_LOG_FORMAT": "xml"}, ["one of auto, text, json"]),
        ({"MILLSTREAM_INSECURE_NO_AUTH": "maybe"}, ["true or false"]),
        ({"MILLSTREAM_HEADER_BYTE_MAX": "1"}, ["no such setting", "header_bytes_max = 32768"]),
        ({"MILLSTREAM_CORS_ORIGINS": "a.example/x"}, ["is not an origin", "https://app.example"]),
        ({"MILLSTREAM_PUBLIC_URL": "ftp://a"}, ["http or https", "https://streams.example.com"]),
        ({"MILLSTREAM_DATA_DIR": ""}, ["not empty", "MILLSTREAM_DATA_DIR=./data"]),
    ],
)
def test_a_bad_value_is_refused_with_key_rule_and_example(
    environ: dict[str, str], parts: list[str]
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(environ=environ)
    for part in parts:
        assert part in str(caught.value)


def test_a_bad_value_of_the_wrong_toml_type_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    for text in ("port = true", "port = 1.5", "cors_origins = [1]", "host = 5", "unknown = 1"):
        path.write_text(text)
        with pytest.raises(SettingsError, match=text.split(" ")[0]):
            load(path)


@pytest.mark.parametrize("content", [b"port = ", b"\xff"])
def test_a_file_that_is_no_toml_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match="is not TOML"):
        load(path)
    with pytest.raises(SettingsError, match="cannot be read"):
        load(tmp_path / "missing.toml")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "myhost.example"])
def test_a_server_others_can_reach_must_be_asked_for(host: str) -> None:
    with pytest.raises(SettingsError, match="--insecure-no-auth"):
        load(flags={"host": host})
    assert load(flags={"host": host, "insecure_no_auth": True}).settings.host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"])
def test_loopback_needs_no_permission(host: str) -> None:
    assert load(flags={"host": host}).settings.is_loopback


def test_the_printed_configuration_is_toml_and_loads_to_the_same(tmp_path: Path) -> None:
    loaded = load(flags={"cors_origins": ["*"], "port": 5, "webhook_allow_private": True})
    text = loaded.render()
    assert "port = 5  # flag --port" in text
    assert "idle_ms = 60000  # default" in text
    path = tmp_path / "a.toml"
    path.write_text(text)
    assert tomllib.loads(text)["cors_origins"] == ["*"]
    assert load(path).settings == loaded.settings


def test_a_secret_is_never_printed() -> None:
    loaded = load(environ={"MILLSTREAM_RECORDS_AUTH": "open-sesame"})
    assert loaded.settings.records_auth == "open-sesame"
    text = loaded.render()
    assert "open-sesame" not in text
    assert "# records_auth is set and not shown  # MILLSTREAM_RECORDS_AUTH" in text


def test_an_empty_secret_is_refused_rather_than_taken_for_none() -> None:
    with pytest.raises(SettingsError, match="MILLSTREAM_RECORDS_AUTH=a-long-random-text"):
        load(environ={"MILLSTREAM_RECORDS_AUTH": ""})
    assert load().settings.records_auth is None


def test_every_setting_has_help_a_variable_and_a_flag() -> None:
    table = {field.name: field for field in fields()}
    assert all(field.help for field in table.values())
    assert table["cors_origins"].flag == "--cors-origin"
    assert table["body_bytes_max"].variable == "MILLSTREAM_BODY_BYTES_MAX"
    for field in table.values():
        if field.kind == "number":
            assert field.low is not None
            assert field.high is not None
            assert field.low <= field.default <= field.high


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Settings().port = 1  # type: ignore[misc]
