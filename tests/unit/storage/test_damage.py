import pickle

import pytest

from millstream.storage.damage import (
    DataDamaged,
    DirectoryLocked,
    LogFailed,
    StorageError,
    UnknownFormat,
)

ERRORS: list[StorageError] = [
    DataDamaged("log/1.log", 64, "a hole", "look"),
    UnknownFormat("log/1.log", 0, "too new"),
    LogFailed("EIO"),
    DirectoryLocked("data", "process 7"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.code)
def test_an_error_survives_pickling(error: StorageError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error)


def test_codes_are_stable_and_differ() -> None:
    assert [error.code for error in ERRORS] == [
        "data_damaged",
        "unknown_format",
        "log_failed",
        "directory_locked",
    ]


def test_damage_names_file_byte_and_remedy() -> None:
    text = str(DataDamaged("log/1.log", 64, "a hole"))
    assert "log/1.log, byte 64: a hole" in text
    assert "millstream verify" in text
