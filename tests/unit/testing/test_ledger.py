import pytest

from millstream.testing.ledger import Known, Ledger, Seen, Tag


def seen(*tags: Tag) -> list[Seen]:
    return [Seen(tag.encode(), 5) for tag in tags]


def rules(ledger: Ledger) -> set[str]:
    return {line.split(":")[0] for line in ledger.broken}


@pytest.mark.parametrize("tag", [Tag("p1", 0, 0, 0, 1), Tag("x", 7, 1000, 2, 4)])
def test_a_tag_comes_back(tag: Tag) -> None:
    assert Tag.decode(tag.encode()) == tag


@pytest.mark.parametrize("data", [b"", b"null", b'"p.1.2.3"', b'"p.1.2.3.x"', b'"p.01.2.3.4"'])
def test_other_bytes_are_no_tag(data: bytes) -> None:
    assert Tag.decode(data) is None


def test_a_message_that_changes_breaks_d7() -> None:
    ledger, known = Ledger(), Known("a")
    ledger.learn(known, 1, b"x", 5)
    ledger.learn(known, 1, b"x", 5)
    assert ledger.broken == []
    ledger.learn(known, 1, b"y", 6)
    assert rules(ledger) == {"D7"}
    assert len(ledger.broken) == 2


def test_a_lost_message_breaks_d1() -> None:
    ledger, known = Ledger(), Known("a")
    ledger.learn(known, 2, Tag("p", 0, 0, 0, 1).encode())
    ledger.check_whole(known, seen(Tag("p", 0, 0, 0, 1)), is_closed=False)
    assert rules(ledger) == {"D1"}


def test_a_tail_that_goes_back_breaks_d3() -> None:
    ledger, known = Ledger(), Known("a")
    ledger.learn_tail(known, 3, 9, is_closed=False)
    ledger.learn_tail(known, 2, 9, is_closed=False)
    assert rules(ledger) == {"D3"}


def test_a_closed_stream_that_opens_or_grows_breaks_d8() -> None:
    ledger, known = Ledger(), Known("a")
    ledger.learn_tail(known, 3, 9, is_closed=True)
    ledger.learn_tail(known, 4, 9, is_closed=False)
    assert rules(ledger) == {"D8"}
    assert len(ledger.broken) == 2


def test_a_stream_id_at_two_paths_breaks_d7() -> None:
    ledger = Ledger()
    ledger.stream(1, "a")
    ledger.stream(1, "b")
    assert rules(ledger) == {"D7"}


@pytest.mark.parametrize(
    "tags, rule",
    [
        ([Tag("p", 0, 0, 0, 1), Tag("p", 0, 0, 0, 1)], "P1"),
        ([Tag("p", 0, 0, 0, 1), Tag("p", 0, 2, 0, 1)], "P1"),
        ([Tag("p", 1, 1, 0, 1)], "P1"),
        ([Tag("p", 1, 0, 0, 1), Tag("p", 0, 0, 0, 1)], "P3"),
        ([Tag("p", 0, 0, 0, 2)], "D5"),
        ([Tag("p", 0, 0, 1, 2), Tag("p", 0, 0, 0, 2)], "D5"),
        ([Tag("never", 0, 0, 0, 1)], "P5"),
    ],
)
def test_the_messages_tell_what_is_wrong(tags: list[Tag], rule: str) -> None:
    ledger = Ledger()
    ledger.never["never", 0, 0] = "stream_closed"
    ledger.check_whole(Known("a"), seen(*tags), is_closed=False)
    assert rule in rules(ledger)


def test_a_good_story_breaks_nothing() -> None:
    ledger = Ledger()
    story = [
        Tag("p", 0, 0, 0, 2),
        Tag("p", 0, 0, 1, 2),
        Tag("q", 3, 0, 0, 1),
        Tag("p", 0, 1, 0, 1),
        Tag("p", 2, 0, 0, 1),
    ]
    ledger.check_whole(Known("a"), seen(*story), is_closed=True)
    assert ledger.broken == []
    assert ledger.checks > 10


def test_what_a_fork_inherits_need_not_be_whole_batches() -> None:
    ledger = Ledger()
    story = seen(Tag("p", 0, 0, 0, 3), Tag("q", 0, 0, 0, 1))
    ledger.check_whole(Known("a", base=1), story, is_closed=False)
    assert ledger.broken == []
