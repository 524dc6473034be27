import pytest

from millstream.core.errors import Code, Refused
from millstream.wire.names import NAME_BYTES_MAX, check_name, source_name, stream_name, url_path


@pytest.mark.parametrize(
    "raw, name",
    [
        (b"a", "a"),
        (b"a/b/c", "a/b/c"),
        (b"a%20b", "a b"),
        (b"%C3%A9", "\u00e9"),
        ("\u00e9".encode(), "\u00e9"),
        (b"%2e%2E%2e", "..."),
        (b"__ds2", "__ds2"),
        (b"x" * NAME_BYTES_MAX, "x" * NAME_BYTES_MAX),
    ],
)
def test_a_path_is_decoded_once(raw: bytes, name: str) -> None:
    assert stream_name(raw) == name


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"/", b"a/", b"/a", b"a//b", b".", b"..", b"a/../b", b"%2e%2e/a", b"a/%2e"),
        *(b"%", b"a%2", b"%zz", b"a%2fb", b"a%2Fb", b"%00", b"a%0ab", b"%7f", b"%ff", b"%c0%af"),
        *(b"a\\b", b"a%5cb", b"e%cc%81", b"%ed%a0%80", b"%e2%80%a8", b"__ds", b"__ds/x"),
        *(b"x" * (NAME_BYTES_MAX + 1), b"%41" * (NAME_BYTES_MAX + 1)),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(raw: bytes) -> None:
    refusal = stream_name(raw)
    assert isinstance(refusal, Refused)
    assert refusal.code is Code.INVALID_PATH


def test_a_long_path_is_not_remembered() -> None:
    from millstream.wire import names

    before = names._cached_name.cache_info().currsize
    stream_name(b"y" * 200)
    assert names._cached_name.cache_info().currsize == before
    stream_name(b"y" * 20)
    assert names._cached_name.cache_info().currsize == before + 1


@pytest.mark.parametrize("header", [b"/v1/stream/a/b", b"a/b", b"/a/b", b"/v1/stream/a/b?x=y"])
def test_a_source_is_a_path_below_the_root_or_a_name(header: bytes) -> None:
    assert source_name(header) == "a/b"


def test_a_bad_source_names_the_header() -> None:
    refusal = source_name(b"/v1/stream/../x")
    assert isinstance(refusal, Refused)
    assert refusal.field == "Stream-Forked-From"


@pytest.mark.parametrize("name", ["a", "a b", "\u00e9/%", "a?b#c", "~!$&'()*+,;=:@-._"])
def test_a_url_path_leads_back_to_its_name(name: str) -> None:
    path = url_path(name)
    assert path.isascii()
    assert stream_name(path.removeprefix("/v1/stream/").encode()) == name


def test_a_name_from_a_body_keeps_the_same_rules() -> None:
    assert check_name("a/b") == "a/b"
    assert isinstance(check_name("__ds/x"), Refused)
