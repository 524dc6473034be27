import copy
import pickle
from typing import Any

import pytest

from millstream.client import errors
from millstream.client.errors import ClientError, Remedy, public_url

BASES = {
    errors.FixError: Remedy.FIX,
    errors.RetryError: Remedy.RETRY,
    errors.RefreshError: Remedy.REFRESH,
    errors.FencedError: Remedy.FENCED,
    errors.GoneError: Remedy.GONE,
}
FACTS: dict[str, Any] = {
    "url": "http://h.test/v1/a",
    "status": 409,
    "code": "some_code",
    "detail": "why",
}
OWN: dict[type[ClientError], dict[str, Any]] = {
    errors.RetryError: {"is_uncertain": True, "retry_after_s": 2.5},
    errors.RefreshError: {"next_offset": "1_1"},
    errors.GoneError: {"next_offset": "1_1"},
    errors.ProducerFenced: {"current_epoch": 7},
    errors.Gap: {"expected_seq": 3, "received_seq": 5},
}
SECRET = "s3cret"


def below(kind: type[ClientError]) -> list[type[ClientError]]:
    return [kind, *(deeper for child in kind.__subclasses__() for deeper in below(child))]


ALL = below(ClientError)[1:]


def made(kind: type[ClientError]) -> ClientError:
    own: dict[str, Any] = {}
    for owner, fields in OWN.items():
        if issubclass(kind, owner):
            own |= fields
    error = kind("it happened", **FACTS, **own)
    error.add_note("seen by a test")
    return error


@pytest.mark.parametrize("kind", ALL)
def test_every_error_survives_pickling_and_copying_with_every_attribute(
    kind: type[ClientError],
) -> None:
    error = made(kind)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(twin) is kind
        assert twin.__dict__ == error.__dict__
        assert twin.args == error.args
        assert str(twin) == str(error)


@pytest.mark.parametrize("kind", ALL)
def test_every_error_has_the_remedy_of_its_one_base(kind: type[ClientError]) -> None:
    assert [kind.remedy] == [remedy for base, remedy in BASES.items() if issubclass(kind, base)]


def test_an_error_says_what_happened_what_the_server_said_and_where() -> None:
    assert str(made(errors.StreamClosed)) == (
        "it happened: why (HTTP 409, some_code) [http://h.test/v1/a]"
    )
    assert str(errors.BadOption("no")) == "no"
    assert repr(errors.BadOption("no")) == "BadOption('no')"


def test_no_error_shows_the_query_or_the_credentials_of_a_url() -> None:
    url = f"http://user:{SECRET}@h.test:80/a?token={SECRET}#{SECRET}"
    error = errors.NotFound("none", url=url)
    assert error.url == "http://h.test:80/a"
    assert SECRET not in f"{error} {error!r} {error.__dict__} {pickle.dumps(error)!r}"


def test_a_url_that_is_none_is_not_shown_at_all() -> None:
    assert public_url(f"http://[::1{SECRET}") == ""


def test_errors_can_be_caught_as_the_builtin_they_are() -> None:
    assert issubclass(errors.BadOption, ValueError)
    assert issubclass(errors.Timeout, TimeoutError)
