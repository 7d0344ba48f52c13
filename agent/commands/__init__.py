"""One module per theme of the command line; heavy imports stand inside the functions.

A command parses words and prints; what it prints is worked out elsewhere.
"""
