import random
from array import array

from millstream.core.errors import Code, Refused
from millstream.core.offsets import Position
from millstream.core.streams.commands import Added, Duplicate
from millstream.testing.clients import Writer, batch
from millstream.testing.files_memory import MemoryDisk
from millstream.testing.ledger import Ledger, Tag
from millstream.testing.server_life import Life
from tests.support.lives import start_life


def writer() -> Writer:
    return Writer("p", "a", 1, random.Random(5), Ledger(), lambda _line: None)


def sent(life: Life, client: Writer) -> None:
    client.act(life, 1)
    assert client.current is not None


def test_a_batch_is_one_body_with_the_length_of_each_message() -> None:
    body = batch(Tag("p", 0, 0, 0, 3))
    parts = body.data.split(b",")
    assert [Tag.decode(part) for part in parts] == [Tag("p", 0, 0, n, 3) for n in range(3)]
    assert list(array("I", body.lengths)) == list(map(len, parts))
    assert batch(Tag("p", 0, 0, 0, 0)).count == 0


def test_an_answer_moves_the_writer_on() -> None:
    life, client = start_life(MemoryDisk()), writer()
    sent(life, client)
    request = client.current
    assert request is not None
    answer = Added(1, Position(5, request.tag.parts), False)
    client._told(life, request, answer, was_maybe_stored=False)
    assert (client.current, client.seq) == (None, 1)
    assert client.ledger.broken == []
    known = client.ledger.streams[1]
    assert [seen.data for _, seen in sorted(known.messages.items())] == batch(
        request.tag
    ).data.split(b",")


def test_a_duplicate_at_another_place_than_the_first_answer_is_noted() -> None:
    life, client = start_life(MemoryDisk()), writer()
    sent(life, client)
    request = client.current
    assert request is not None
    answer = Added(1, Position(5, 9), False)
    client._told(life, request, answer, was_maybe_stored=False)
    assert request.command.claim is not None
    again = Duplicate(1, 10, request.command.claim, 0, is_closed=False)
    client._told(life, request, again, was_maybe_stored=True)
    assert request.tag.parts == 1 or client.ledger.broken


def test_a_definite_refusal_is_remembered_and_an_unsure_one_is_not() -> None:
    life, client = start_life(MemoryDisk()), writer()
    sent(life, client)
    request = client.current
    assert request is not None
    unsure = Refused(code=Code.STORAGE_FAILED, detail="")
    client._told(life, request, unsure, was_maybe_stored=False)
    assert client.ledger.never == {}
    definite = Refused(code=Code.STREAM_CLOSED, detail="")
    client._told(life, request, definite, was_maybe_stored=True)
    assert client.ledger.never == {}
    client._told(life, request, definite, was_maybe_stored=False)
    assert client.ledger.never == {("p", 0, request.tag.seq): "stream_closed"}
    assert client.is_done


def test_a_broken_machine_is_noted() -> None:
    life, client = start_life(MemoryDisk()), writer()
    sent(life, client)
    assert client.current is not None
    refusal = Refused(code=Code.INTERNAL, detail="")
    client._told(life, client.current, refusal, was_maybe_stored=False)
    assert client.ledger.broken[0].startswith("P5")
