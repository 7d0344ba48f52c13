"""Who decides: the loop, its models, tasks, the case, the document and the commands.

Measuring, searching and summing stand in `tools`; the record of it all in `transcripts`.
"""
