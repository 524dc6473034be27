"""What the engine has to tell about itself, as metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millstream.engine.opening import Opened
    from millstream.server.context import Context
    from millstream.server.metrics import Metrics


def add_engine_metrics(metrics: Metrics, opened: Opened, context: Context) -> None:
    """Offer the engine's numbers; each is read only when scraped."""
    engine = opened.engine
    writer, views = engine.writer, engine.views
    metrics.add_gauge("millstream_streams", "Streams held, hidden ones too.", lambda: len(views))
    metrics.add_gauge(
        "millstream_stored_bytes", "Bytes of messages stored.", lambda: views.stored_bytes
    )
    metrics.add_gauge(
        "millstream_hot_bytes", "Bytes of messages in memory.", lambda: views.hot_bytes
    )
    metrics.add_gauge("millstream_log_bytes", "Bytes of log files.", lambda: opened.log.bytes_total)
    metrics.add_gauge(
        "millstream_live_readers", "Long-poll and SSE readers.", lambda: len(context.live)
    )
    metrics.add_gauge(
        "millstream_inbox_commands", "Commands waiting for the disk.", lambda: writer.waiting
    )
    metrics.add_gauge(
        "millstream_log_failed",
        "1 once the log stopped taking writes.",
        lambda: float(writer.failure is not None),
    )
    metrics.add_counter(
        "millstream_frames_total", "Frames made durable, ever.", lambda: writer.durable_lsn
    )
    metrics.add_counter(
        "millstream_syncs_total", "Batches synced since the start.", lambda: writer.syncs
    )
    metrics.add_counter(
        "millstream_messages_total",
        "Messages appended since the start.",
        lambda: engine.appended_messages,
    )
    metrics.add_counter(
        "millstream_appended_bytes_total",
        "Bytes appended since the start.",
        lambda: engine.appended_bytes,
    )
    metrics.add_counter(
        "millstream_cold_reads_total", "Pages read from disk.", lambda: engine.cold_reads
    )
    metrics.add_counter(
        "millstream_snapshots_total", "Snapshots written.", lambda: opened.keeper.written
    )
    metrics.add_counter(
        "millstream_snapshots_failed_total",
        "Snapshots that failed.",
        lambda: opened.keeper.failed,
    )
