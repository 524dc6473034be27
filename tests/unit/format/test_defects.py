from millstream.format.defects import Corrupt, CutShort, Ended, describe


def test_every_defect_has_words() -> None:
    assert "nothing" in describe(Ended())
    assert "40 bytes" in describe(CutShort(40))
    assert describe(Corrupt("it is upside down")) == "it is upside down"
