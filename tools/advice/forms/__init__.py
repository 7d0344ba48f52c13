"""How a launch command is written in each form: units, shell text, YAML, `--config` files.

Each module reads words with their places out of one kind of text. What the words mean is not decided here.
"""
