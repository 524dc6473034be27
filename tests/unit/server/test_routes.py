from millstream.server.routes import OPERATIONS


def test_every_route_is_there_once() -> None:
    named = [(route.method, route.path) for route in OPERATIONS]
    assert len(set(named)) == len(named)


def test_every_route_says_how_it_answers() -> None:
    assert all(route.answers and route.summary for route in OPERATIONS)
