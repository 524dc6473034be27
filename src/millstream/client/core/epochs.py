"""Which epoch a producer writes in, and whether it may take another one when it is fenced."""

from __future__ import annotations

from typing import Final

from millstream.client.producing_options import GRANTED, AutoClaim, Epoch, Granted

CLAIMS_LOST_MAX: Final = 2
# A request that was given up may still reach the server, but not for ever.
GHOST_S: Final = 60.0


class Epochs:
    """The present epoch. ``now`` is None until the server has granted one.

    ``is_confirmed`` tells that the server knows the epoch, so that batches may fly together: one
    that arrives before the first of an epoch would not be a gap but an error.
    """

    def __init__(self, choice: Epoch) -> None:
        self._choice = choice
        self._is_own_choice = isinstance(choice, AutoClaim)
        self._was_ours = False
        self._claims_lost = 0
        self._ghosts = 0
        self._ghosts_end_s = 0.0
        self.now: int | None
        match choice:
            case AutoClaim(start=start):
                self.now = start
            case Granted():
                self.now = None
            case declared:
                self.now = declared
        self.is_confirmed = False

    @property
    def may_move_on(self) -> bool:
        """Whether the producer may begin another epoch by itself."""
        return not isinstance(self._choice, int)

    @property
    def is_guess(self) -> bool:
        """Whether we chose the epoch, and somebody else may have chosen the same."""
        return self._is_own_choice and not self.is_confirmed

    def confirm(self, epoch: int | None = None) -> None:
        """Note that the server knows the present epoch, or has granted this one."""
        if epoch is not None:
            self.now = epoch
        self.is_confirmed = True
        self._was_ours = True

    def haunt(self, now: float) -> None:
        """Note that a request for an epoch was lost: it may be granted yet, and fence ourselves."""
        self._ghosts += 1
        self._ghosts_end_s = now + GHOST_S

    def claim_after(self, current: int | None, now: float) -> int | Granted | None:
        """Return the epoch to take now that this one is in charge; GRANTED to ask; None to stop.

        What an auto-claim starts with is no claim; only a later one can be lost. Losing twice
        means that somebody else claims as we do, and one of the two has to give in. A granted
        epoch is given up, unless a request of our own that was lost can have taken its place.
        """
        if current is None or self.now is None or current < self.now:
            return None
        if isinstance(self._choice, AutoClaim):
            self._claims_lost += self._was_ours
            return None if self._claims_lost >= CLAIMS_LOST_MAX else current + 1
        steps = current - self.now
        if now < self._ghosts_end_s and 0 < steps <= self._ghosts:
            self._ghosts -= steps
            return GRANTED
        return None

    def enter(self, epoch: int) -> None:
        """Go on in an epoch that we claim."""
        self.now = epoch
        self.is_confirmed = False
        self._was_ours = True

    def enter_next(self) -> None:
        """Go on in the next epoch: one higher, or whatever the server grants."""
        self.is_confirmed = False
        if isinstance(self._choice, Granted) or self.now is None:
            self.now = None
        else:
            self.now += 1
            self._is_own_choice = True

    def restart(self) -> None:
        """Go on in the next epoch because the caller says so; earlier losses are forgiven."""
        self._claims_lost = 0
        self.enter_next()
