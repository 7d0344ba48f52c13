"""What can be done: hosts, source trees, memory arithmetic, diagnosis, advice.

Knows no model and no prompt; one family uses another only through that family's front (its `__init__`).
"""
