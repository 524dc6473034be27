"""Events as bytes: MessagePack arrays, tagged with the event's number (docs/format.md)."""

from __future__ import annotations

import msgspec

from millstream.core.events import Event

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(Event)


def encode_event(event: Event) -> bytes:
    """Return the bytes of an event, without its data."""
    return _encoder.encode(event)


def decode_event(meta: bytes | memoryview) -> Event:
    """Return the event that ``encode_event`` made ``meta`` of.

    Raises msgspec.DecodeError (its ValidationError included) for anything else.
    """
    try:
        return _decoder.decode(meta)
    except UnicodeDecodeError as error:
        # The one error of the decoder that is not of its own kind.
        raise msgspec.DecodeError(str(error)) from error
