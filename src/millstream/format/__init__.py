"""The bytes on disk: one module per layout, pure, specified in docs/format.md."""
