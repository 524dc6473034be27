"""The client's decisions without input and output: no clock, randomness, sockets or tasks."""
