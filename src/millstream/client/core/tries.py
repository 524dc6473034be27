"""One try of a producer as a request, and what has to be done when no try is under way."""

from __future__ import annotations

import msgspec

from millstream.client.core import encoding, requests
from millstream.client.core.batches import Batch
from millstream.client.core.requests import Request, Stamp
from millstream.client.errors import ClientError, ProducerFenced
from millstream.client.producing_options import Granted


class Try(msgspec.Struct, frozen=True, eq=False):
    """One request to send now; without a batch it asks for an epoch."""

    request: Request
    batch: Batch | None
    attempt: int


class Claim(msgspec.Struct, frozen=True):
    """Go on in this epoch, or in one that the server grants, the present one being fenced."""

    epoch: int | Granted
    error: ProducerFenced


class Restamp(msgspec.Struct, frozen=True):
    """Take refused batches out of the order, and close the ranks behind them."""


class Renew(msgspec.Struct, frozen=True):
    """Go on in the next epoch because the caller says so."""


class Stop(msgspec.Struct, frozen=True):
    """Fail all that is left."""

    error: ClientError


Turn = Claim | Restamp | Renew | Stop


class Sender(msgspec.Struct):
    """What all requests of one producer share. The content type may be learnt later."""

    url: str
    producer_id: str
    content_type: str = ""

    def ask(self, attempt: int) -> Try:
        """Ask the server for the next epoch."""
        return Try(requests.grant(self.url, self.producer_id), None, attempt)

    def send(self, batch: Batch, epoch: int) -> Try:
        """Send a stamped batch; every try of it has the same bytes."""
        stamp = Stamp(self.producer_id, epoch, batch.seq)
        body = encoding.body(batch.parts, self.content_type) if batch.parts else b""
        kind = self.content_type
        if batch.closes:
            request = requests.close(self.url, content_type=kind, body=body, stamp=stamp)
        else:
            request = requests.append(self.url, kind, body, stamp=stamp)
        return Try(request, batch, batch.tries)
