"""The two roles an agent plays: which tools it holds, and what each of them records.

The main agent looks, weighs, compares and proposes; a researcher reads the source tree and reports. Both call `tools`.
"""
