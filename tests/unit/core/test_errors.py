"""Codes of refusals: unique, stable, each with a status that fits its remedy."""

import pytest

from millstream.core.errors import Code, Refused, Remedy


def test_no_two_refusals_share_a_code() -> None:
    codes = [member.code for member in Code]
    assert len(codes) == len(set(codes)) == len(Code)


@pytest.mark.parametrize("member", Code, ids=lambda member: member.code)
def test_the_name_in_the_code_is_the_name_on_the_wire(member: Code) -> None:
    assert member.code == member.name.lower()
    assert 400 <= member.status < 600
    assert member.title[0].isupper()
    assert not member.title.endswith(".")


@pytest.mark.parametrize("member", Code, ids=lambda member: member.code)
def test_whoever_may_retry_is_not_told_that_the_request_is_wrong(member: Code) -> None:
    if member.status in (400, 413, 414, 415, 431):
        assert member.remedy is Remedy.FIX_REQUEST
    if member.status in (408, 429, 503):
        assert member.remedy is Remedy.RETRY_LATER
    if member.status == 500:
        assert member.remedy is Remedy.REPORT_BUG


def test_a_refusal_carries_only_what_is_known() -> None:
    refused = Refused(code=Code.STREAM_NOT_FOUND, detail="no stream at 'a'")
    assert (refused.field, refused.next_offset, refused.is_closed) == (None, None, False)
    with pytest.raises(AttributeError):
        refused.detail = "other"  # type: ignore[misc]
