"""The ground floor: facts, records, the store, redaction, and the recorded hosts.

Nothing here knows a tool, a model or a command.
"""
