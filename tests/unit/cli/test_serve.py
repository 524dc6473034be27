from pathlib import Path

import pytest

from millstream.cli.failures import Failure
from millstream.cli.serve import announce, gather
from millstream.server.settings import fields
from tests.support.command import json_lines, ok, run


def test_every_setting_has_a_flag() -> None:
    text = ok("serve", "-h")
    assert [field.flag for field in fields() if field.flag not in text] == []


def test_flags_go_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    config = tmp_path / "m.toml"
    config.write_text("port = 1\nidle_ms = 2\nbody_ms = 3\n")
    environment = {"MILLSTREAM_PORT": "4", "MILLSTREAM_IDLE_MS": "5", "MILLSTREAM_URL": "x"}
    loaded = gather(config, environment, {"port": "6", "body_ms": None})
    settings = loaded.settings
    assert (settings.port, settings.idle_ms, settings.body_ms) == (6, 5, 3)


def test_the_settings_can_be_printed_with_their_sources() -> None:
    out = ok("serve", "--port", "5", "--cors-origin", "*", "--print-config")
    assert "port = 5  # flag --port\n" in out
    assert 'cors_origins = ["*"]  # flag --cors-origin\n' in out


def test_the_json_form_has_a_line_per_setting() -> None:
    found = json_lines(ok("serve", "--port", "5", "--print-config", "--json"))
    assert {"setting": "port", "value": 5, "source": "flag --port"} in found
    assert len(found) == len(fields())


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_secret_is_printed_in_no_form(form: tuple[str, ...]) -> None:
    out = ok("serve", "--records-auth", "open-sesame", "--print-config", *form)
    assert "open-sesame" not in out
    assert "records_auth" in out
    assert "not shown" in out


@pytest.mark.parametrize(
    "flags", [("--port", "70000"), ("--host", "0.0.0.0"), ("--config", "no-such-file.toml")]
)
def test_a_wrong_setting_is_wrong_usage(flags: tuple[str, ...]) -> None:
    result = run("serve", *flags, "--print-config")
    assert result.exit_code == 2
    assert "for example" in result.stderr


def test_an_unknown_variable_is_named() -> None:
    with pytest.raises(Failure, match="prot"):
        gather(None, {"MILLSTREAM_PROT": "1"}, {})


def test_the_address_comes_with_a_line_to_try(capsys: pytest.CaptureFixture[str]) -> None:
    announce("http://[::1]:4437", as_json=False)
    out = capsys.readouterr().out
    assert "http://[::1]:4437" in out
    assert "curl" in out
