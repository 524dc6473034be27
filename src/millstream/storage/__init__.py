"""Input and output without policy: log files, snapshots, the lock, the offline check."""
