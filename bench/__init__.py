"""Side-by-side measurements of Millstream and its peers; not part of the installed package."""
