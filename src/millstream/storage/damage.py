"""What can be wrong with a data directory, as errors that say what to do.

Each has a stable ``code`` and survives pickling. Messages name file and position.
"""

from __future__ import annotations

from typing import ClassVar

VERIFY_HINT = "run `millstream verify DATA_DIR` to see what is whole; nothing was changed"


class StorageError(Exception):
    """The root of all errors of this package. Its arguments rebuild it after pickling."""

    code: ClassVar[str] = "storage_error"


class DataDamaged(StorageError):
    """Bytes that were once durable are not whole. Never repaired silently: nothing is cut."""

    code: ClassVar[str] = "data_damaged"

    def __init__(self, file: str, position: int, what: str, hint: str = VERIFY_HINT) -> None:
        """Keep the place apart from the words."""
        super().__init__(file, position, what, hint)
        self.file = file
        self.position = position
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        """Say where, what, and what to do."""
        return f"{self.file}, byte {self.position}: {self.what}; {self.hint}"


class UnknownFormat(StorageError):
    """A newer build wrote this file; this one must not touch the directory."""

    code: ClassVar[str] = "unknown_format"

    def __init__(self, file: str, position: int, what: str) -> None:
        """Keep the place apart from the words."""
        super().__init__(file, position, what)
        self.file = file
        self.position = position
        self.what = what

    def __str__(self) -> str:
        """Say where, what, and what to do."""
        return f"{self.file}, byte {self.position}: {self.what}; use the build that wrote it"


class LogFailed(StorageError):
    """The log takes no more writes in this life of the process; what is durable still reads.

    Raised by the call that met the error and by every later one. A failed sync is never tried
    again, since its second answer would be a lie.
    """

    code: ClassVar[str] = "log_failed"

    def __init__(self, cause: str) -> None:
        """Keep the first cause in words."""
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        """Say why and what to do."""
        return f"the log takes no more writes: {self.cause}; mend the disk and start again"


class DirectoryLocked(StorageError):
    """Another process works in this data directory."""

    code: ClassVar[str] = "directory_locked"

    def __init__(self, directory: str, holder: str) -> None:
        """Keep who holds it."""
        super().__init__(directory, holder)
        self.directory = directory
        self.holder = holder

    def __str__(self) -> str:
        """Say who holds it and what to do."""
        return f"{self.directory} is in use by {self.holder}; stop it or take another directory"
