from millstream.server.outbox import Outbox
from tests.support.transport import MemoryTransport

LARGE = bytes(20_000)


def outbox() -> tuple[Outbox, list[bytes]]:
    """Return an outbox and what its transport was given, write by write."""
    transport = MemoryTransport()
    return Outbox(transport), transport.writes


def test_a_head_and_a_small_body_leave_as_one_piece_and_at_once() -> None:
    box, writes = outbox()
    box.write(b"head ", b"body")
    box.write(b"alone")
    assert writes == [b"head body", b"alone"]


def test_what_is_held_leaves_together() -> None:
    box, writes = outbox()
    box.hold()
    box.write(b"1")
    box.write(b"2", b"2")
    assert writes == []
    box.release()
    box.write(b"3")
    assert writes == [b"122", b"3"]


def test_a_large_body_takes_what_was_held_with_it_in_order() -> None:
    box, writes = outbox()
    box.hold()
    box.write(b"before")
    box.write(b"head", LARGE)
    box.write(b"head", (b"a", b"b"))
    box.write(b"after")
    box.release()
    assert writes == [b"beforehead" + LARGE, b"headab", b"after"]


def test_no_more_than_a_few_pieces_are_held() -> None:
    box, writes = outbox()
    box.hold()
    for _ in range(40):
        box.write(b"x")
    assert writes == [b"x" * 16, b"x" * 16]
    box.release()
    assert writes[2:] == [b"x" * 8]


def test_whoever_holds_learns_whether_another_does_already() -> None:
    box, _ = outbox()
    assert (box.hold(), box.hold()) == (False, True)
    box.release()
    assert not box.hold()


def test_a_flush_sends_what_is_held_and_goes_on_holding() -> None:
    box, writes = outbox()
    box.hold()
    box.flush()
    box.write(b"1")
    box.flush()
    box.write(b"2")
    assert writes == [b"1"]


def test_nothing_is_written_for_nobody() -> None:
    box, writes = outbox()
    box.hold()
    box.write(b"1")
    box.clear()
    box.release()
    box.release()
    assert writes == []
