"""The blocking client: the names of `millstream.client`, without ``await``."""

from millstream.client.sync.client import Client
from millstream.client.sync.producer import Delivery, Producer
from millstream.client.sync.reader import Reader
from millstream.client.sync.stream import Stream

__all__ = ["Client", "Delivery", "Producer", "Reader", "Stream"]
