"""Views of the diagnosis document: terminal, Markdown, HTML.

Each takes the document and nothing else; what a view shows is in the document or it is not shown.
"""
