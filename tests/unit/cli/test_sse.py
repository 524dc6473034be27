from millstream.cli.sse import ServerEvent, events


def test_data_lines_are_joined_and_keep_a_second_space() -> None:
    text = b"event: data\ndata:  two\ndata:none\n\n"
    assert list(events(text.split(b"\n"))) == [ServerEvent("data", b" two\nnone")]


def test_comments_and_unknown_fields_are_left_out() -> None:
    text = b": ping\nid: 7\nevent: control\ndata: {}\n\n\n"
    assert list(events(text.split(b"\n"))) == [ServerEvent("control", b"{}")]


def test_an_event_that_is_cut_off_is_not_given() -> None:
    assert list(events([b"event: data", b"data: x"])) == []


def test_a_name_does_not_reach_into_the_next_event() -> None:
    text = b"event: data\ndata: 1\n\ndata: 2\n\n"
    assert [event.name for event in events(text.split(b"\n"))] == ["data", "message"]
