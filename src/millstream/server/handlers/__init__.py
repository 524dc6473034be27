"""One module per group of routes: parse, call, render."""
