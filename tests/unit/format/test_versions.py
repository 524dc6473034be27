from millstream.format.versions import UnknownVersion


def test_an_unknown_version_says_what_it_found_and_what_it_knows() -> None:
    assert UnknownVersion("the frame", 7, 1).text() == (
        "the frame has format version 7; this build reads 1"
    )
