import random

from millstream.testing.crash_plans import SECTOR_BYTES, Fate, Pending, plans

WRITE = Pending(1, 2000, is_name=False)
NAME = Pending(2, 0, is_name=True)


def test_the_first_plans_lose_and_keep_everything() -> None:
    lost, kept, *_ = plans([WRITE, NAME], 0, 0)
    assert [lost[1].ranges, lost[2].is_kept] == [(), False]
    assert [kept[1].ranges, kept[2].is_kept] == [((0, 2000),), True]


def test_every_plan_has_a_fate_for_every_change() -> None:
    assert all(set(plan) == {1, 2} for plan in plans([WRITE, NAME], 50, 0))


def test_the_same_seed_makes_the_same_plans() -> None:
    assert list(plans([WRITE, NAME], 50, 7)) == list(plans([WRITE, NAME], 50, 7))
    assert list(plans([WRITE, NAME], 50, 7)) != list(plans([WRITE, NAME], 50, 8))


def test_writes_are_torn_at_sectors_and_at_bytes() -> None:
    ends = {plan[1].ranges[0][1] for plan in plans([WRITE], 0, 0) if plan[1].ranges}
    assert SECTOR_BYTES in ends
    assert any(end % SECTOR_BYTES for end in ends if end != WRITE.length)


def test_chance_finds_every_fate_of_a_write() -> None:
    rng = random.Random(1)
    fates = [Fate.by_chance(WRITE, rng) for _ in range(200)]
    assert Fate.lost() in fates
    assert Fate.kept(WRITE) in fates
    assert Fate.zeroed() in fates
    assert any(len(fate.ranges) > 1 for fate in fates)


def test_a_name_is_given_or_not() -> None:
    rng = random.Random(1)
    fates = {Fate.by_chance(NAME, rng).is_kept for _ in range(50)}
    assert fates == {True, False}
