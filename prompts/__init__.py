"""Every word said to a model, as Markdown templates read by name.

No logic beyond filling in; what a template needs is given by its caller.
"""
