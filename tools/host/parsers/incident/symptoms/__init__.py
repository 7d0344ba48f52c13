"""What a sentence says happens, as one of a fixed set of terms.

Each term has patterns over one sentence in lower case. Patterns name things of the field and what befalls them, never
a product, a host or a whole sentence; `(?=.*a)(?=.*b)` means both in any order. A term is a statement, not a finding.
"""

from tools.host.parsers.incident.symptoms.reading import read

__all__ = ["read"]
