"""The pure heart: state, rules and decisions, with no clock, files, sockets or tasks."""
