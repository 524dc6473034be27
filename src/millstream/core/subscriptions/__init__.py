"""Subscriptions: durable cursors that wake workers, by webhook or by pull-wake."""
