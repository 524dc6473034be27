import random

from millstream.core import media
from millstream.core.streams.commands import CreateStream, DeleteStream
from millstream.testing.clients import batch
from millstream.testing.crowd import Crowd
from millstream.testing.files_memory import MemoryDisk
from millstream.testing.ledger import Tag
from millstream.testing.server_life import Life
from tests.support.lives import start_life


def settled() -> tuple[Crowd, Life]:
    crowd, life = Crowd(random.Random(2), lambda _line: None), start_life(MemoryDisk())
    body = batch(Tag("x", 0, 0, 0, 2))
    command = CreateStream(path="a", content_type=media.JSON, body=body)
    life.engine.submit(command, None)
    life.loop.run_for(100_000)
    crowd.audit(life)
    return crowd, life


def test_an_audit_learns_all_there_is() -> None:
    crowd, _ = settled()
    assert sorted(crowd.ledger.streams[1].messages) == [1, 2]
    assert crowd.ledger.broken == []


def test_an_audit_misses_a_stream_that_nobody_deleted() -> None:
    crowd, life = settled()
    life.engine.submit(DeleteStream("a"), None)
    life.loop.run_for(100_000)
    crowd.audit(life)
    assert crowd.ledger.broken == ["D1: a (1) is gone"]


def test_a_deleted_stream_that_is_seen_again_is_noted() -> None:
    crowd, life = settled()
    crowd.ledger.streams[1].is_deleted = True
    crowd.audit(life)
    assert crowd.ledger.broken[0].startswith("D8")


def test_a_busy_crowd_breaks_nothing_on_a_sound_server() -> None:
    crowd, life = settled()
    for crowd.step in range(200):
        crowd.write(life)
        crowd.read(life)
        crowd.administer(life)
        life.loop.run_for(20_000)
    crowd.audit(life)
    assert crowd.ledger.broken == []
    assert crowd.answers > 100
