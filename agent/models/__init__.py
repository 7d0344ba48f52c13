"""Models: the embedded playbook, any OpenAI-compatible endpoint, and a scripted one for tests.

Each only decides the next message; knowledge, sums and reading stand in `tools`.
"""
