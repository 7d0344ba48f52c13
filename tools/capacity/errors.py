"""Errors of the memory arithmetic.

UsageError (exit 2)
├── ConfigUnreadable    config.json is not a model config, or lacks what a shape needs
├── RowsUnreadable      a file of observed starts lacks its columns
└── SettingRefused      a setting that is no memory lever, or that the version does not allow
"""

from __future__ import annotations

from transcripts.errors import UsageError


class ConfigUnreadable(UsageError):
    """The model's config.json does not say what the arithmetic needs."""


class RowsUnreadable(UsageError):
    """A CSV of observed starts does not have the columns it should have."""


class SettingRefused(UsageError):
    """A setting cannot be evaluated, or the deployed version would refuse it."""
