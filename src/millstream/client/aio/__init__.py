"""The asyncio driver of the client: sockets, timers and tasks around `millstream.client.core`."""
