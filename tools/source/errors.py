"""What can go wrong with a source tree.

Inconclusive
└── SourceUnavailable    the tree is not to be had: no index, not an SGLang tree, too large
    └── NoSuchRelease    the package index has other versions, and not this one
UsageError
├── PatternError         a pattern, glob or file kind that cannot be searched for
├── PathError            a path that is not in the tree
└── UnknownFlag          no option of that version has this name
LimitReached
└── SearchTimeout        one search ran longer than its limit; its process was ended
"""

from __future__ import annotations

from transcripts.errors import Inconclusive, LimitReached, UsageError


class SourceUnavailable(Inconclusive):
    pass


class NoSuchRelease(SourceUnavailable):
    pass


class PatternError(UsageError):
    pass


class PathError(UsageError):
    pass


class UnknownFlag(UsageError):
    pass


class SearchTimeout(LimitReached):
    pass
