"""A seeded mutator, and the corpus it starts from."""

import random
import re
from pathlib import Path

CORPUS = Path(__file__).resolve().parents[1] / "property" / "corpus"

_BEFORE_VALUE = re.compile(rb"[=/?&,]|: ?")

TOKENS = (
    *(b"\x00", b"\r\n", b"\n", b"\r", b"\t", b" ", b'"', b"'", b"\\", b"%", b"%00", b"%2e%2e"),
    *(b"%2f", b"%zz", b"/", b"//", b"..", b"/../", b"?", b"&", b"=", b"#", b",", b";", b":"),
    *(b"-1", b"+1", b"0", b"00", b"1e9", b"1_0", b"0x1", b"NaN", b"Infinity", b"null", b"[]"),
    *(b"9" * 17, b"9" * 400, b"0" * 5000, b"{", b"}", b"[", b"]", b"[" * 2000, b"*", b"**"),
    *(b"W/", b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\\ud800"),
    *(b"e\xcc\x81", b"\xd9\xa1", b"\xf0\x9f\x98\x80", b"__ds", b"data: ", b"event: control"),
    *(b"2030-01-01T00:00:00Z", b"+25:00", b"0000000000000000_0000000000000000", b"now", b"true"),
)


def seeds(name: str) -> list[bytes]:
    """Return the inputs in a file of the corpus: one a line, with Python's escapes for bytes."""
    lines = (CORPUS / f"{name}.txt").read_text(encoding="ascii").splitlines()
    return [line.encode().decode("unicode_escape").encode("latin-1") for line in lines]


class Mutator:
    """Makes inputs from inputs. The same seed makes the same inputs, on every machine."""

    def __init__(self, seed: int, corpus: list[bytes], bytes_max: int = 20_000) -> None:
        self._rng = random.Random(seed)
        self._corpus = corpus
        self._bytes_max = bytes_max

    def next(self) -> bytes:
        """Return an input of the corpus with some changes, sometimes none."""
        rng = self._rng
        data = rng.choice(self._corpus)
        for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 6))):
            data = self._changed(data)
        return data[: self._bytes_max]

    def _place(self, data: bytes) -> int:
        """Return where to change something: half of the time where a value begins."""
        at = self._rng.randint(0, len(data))
        if self._rng.random() < 0.5:
            found = _BEFORE_VALUE.search(data, at) or _BEFORE_VALUE.search(data)
            if found is not None:
                return found.end()
        return at

    def _changed(self, data: bytes) -> bytes:
        rng = self._rng
        at = self._place(data)
        end = min(len(data), at + rng.choice((1, 1, 2, 4, 16, 64)))
        match rng.randrange(8):
            case 0:
                return data[:at] + rng.choice(TOKENS) + data[at:]
            case 1:
                return data[:at] + rng.choice(TOKENS) + data[end:]
            case 2:
                return data[:at] + data[end:]
            case 3:
                return data[:end] + data[at:]
            case 4:
                return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
            case 5:
                flipped = bytes(byte ^ (1 << rng.randrange(8)) for byte in data[at : at + 1])
                return data[:at] + flipped + data[at + 1 :]
            case 6:
                other = rng.choice(self._corpus)
                return data[:at] + other[rng.randint(0, len(other)) :]
            case _:
                return data[:at] + data[at:end] * rng.choice((2, 10, 300)) + data[end:]
