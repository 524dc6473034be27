"""The whole state as records, and back without a difference."""

from array import array

import msgspec
import pytest

from millstream.core.machine import Bounds, Machine
from millstream.core.producers.judge import Claim
from millstream.core.streams.commands import Append, AppendRecords, Duplicate
from millstream.engine.extents import pack_place
from millstream.engine.snapshotting import dump, load
from millstream.engine.views import Views
from millstream.format.events import decode_event
from tests.support.machines import JSON, TEXT, Mill, body


def views_of(mill: Mill) -> Views:
    """What readers see of a mill, each event in a frame of its own."""
    views = Views(0)
    for number, (meta, data) in enumerate(mill.log):
        views.apply(decode_event(meta), len(data), pack_place(1, number), 40)
    return views


def busy() -> Mill:
    """Streams of every kind: producers in turns, forks, hidden, expired, closed, with TTL."""
    mill = Mill()
    mill.create("a", b"1", b"22", ttl_s=3600)
    mill.create("expired", b"x", expires_at_ms=mill.now_ms + 10)
    mill.create("deleted", b"y")
    mill.fork("f", "a", 1)
    mill.do(msgspec.structs.replace(mill.fork_command("g", "expired"), ttl_s=3600))
    mill.fork("h", "deleted")
    mill.now_ms += 10
    mill.expire(mill.stream("expired"))
    mill.delete("deleted")
    for turn in range(30):
        mill.append("a", *[b"m"] * (1 + turn % 4), claim=Claim(f"p{turn % 2}", 1, turn // 2))
    mill.do(Append("f", TEXT, body(b"end"), True, Claim("q", 0, 0), "seq-7"))
    mill.touch("a")
    mill.do(AppendRecords("r", body(b"1", b"2", glue=b","), version=9))
    return mill


def round_trip(machine: Machine, views: Views) -> tuple[Machine, Views]:
    return load(dump(machine, views), Bounds(), 1000)


def test_every_stream_comes_back_as_it_was() -> None:
    mill = busy()
    machine, _ = round_trip(mill.machine, views_of(mill))
    assert machine.streams == mill.machine.streams
    assert machine.streams.next_id == mill.machine.streams.next_id


def test_a_version_comes_back_and_one_from_before_versions_is_zero() -> None:
    mill = busy()
    machine, _ = round_trip(mill.machine, views_of(mill))
    assert machine.streams.by_path["r"].version == 9
    fields = msgspec.to_builtins(mill.stream("r"), builtin_types=(bytes,))
    assert fields[-1] == 9
    old = msgspec.convert(fields[:-1], type(mill.stream("r")))
    assert (old.version, old.content_type) == (0, JSON)


def test_paths_lead_where_they_led() -> None:
    mill = busy()
    machine, views = round_trip(mill.machine, views_of(mill))
    assert machine.streams.by_path.keys() == mill.machine.streams.by_path.keys()
    for path, stream in machine.streams.by_path.items():
        assert machine.streams.by_id[stream.stream_id] is stream
        assert stream.path == path
    assert [tail.path for tail in views.listing("", "")] == sorted(machine.streams.by_path)


def test_old_duplicates_keep_their_offsets_through_a_snapshot() -> None:
    mill = busy()
    ends = {}
    for turn in range(30):
        claim = Claim(f"p{turn % 2}", 1, turn // 2)
        answer = mill.append("a", b"again", claim=claim)
        assert isinstance(answer, Duplicate)
        ends[claim] = answer.end_index
    machine, _ = round_trip(mill.machine, views_of(mill))
    for claim, end in ends.items():
        answer = machine.handle(Append("a", TEXT, body(b"x"), claim=claim), mill.now_ms).answer
        assert isinstance(answer, Duplicate)
        assert answer.end_index == end
    producers = machine.streams.by_path["a"].producers
    assert producers is not None
    assert isinstance(producers["p0"].history, array)


def test_readers_find_all_messages_where_they_were() -> None:
    mill = busy()
    before = views_of(mill)
    _, after = round_trip(mill.machine, before)
    assert after.stored_bytes == before.stored_bytes
    assert after.hot_bytes == 0
    for old in before.all():
        new = after.by_id(old.stream_id)
        assert new is not None
        assert new.extents.packed() == old.extents.packed()
        assert new.extents.base == old.extents.base
        assert (new.tail, new.is_closed, new.life) == (old.tail, old.is_closed, old.life)
        assert [new.offset_at(i) for i in range(new.index + 1)] == [
            old.offset_at(i) for i in range(old.index + 1)
        ]


def test_the_restored_machine_goes_on_and_can_be_dumped_again() -> None:
    mill = busy()
    machine, views = round_trip(mill.machine, views_of(mill))
    again, _ = round_trip(machine, views)
    assert again.streams == machine.streams
    draft = again.handle(Append("a", TEXT, body(b"next"), claim=Claim("p0", 1, 15)), mill.now_ms)
    assert len(draft.events) == 1


def test_a_fork_is_restored_after_its_source_in_whatever_order_they_lie() -> None:
    mill = busy()
    head, *records = dump(mill.machine, views_of(mill))
    machine, views = load([head, *reversed(records)], Bounds(), 1000)
    tail = views.by_id(machine.streams.by_path["f"].stream_id)
    assert tail is not None
    assert tail.source is views.by_id(1)


@pytest.mark.parametrize("missing", [0, 1, -1])
def test_records_that_do_not_match_their_head_are_refused(missing: int) -> None:
    mill = busy()
    records = list(dump(mill.machine, views_of(mill)))
    del records[missing]
    with pytest.raises(ValueError, match="do not match"):
        load(records, Bounds(), 1000)


def test_a_record_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        load([msgspec.msgpack.encode([99, 1])], Bounds(), 1000)
