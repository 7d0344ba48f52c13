"""The change of a launch command: read where it lives, checked, written back as the smallest change, verified after.

Lives here: launch forms, the checks that advice must pass, patches, stages, verification; all pure functions of text
and facts. Must not: reading hosts or files, choosing causes or values, running or applying anything.
"""

from tools.advice.catalogue import Catalogue, FlagInfo
from tools.advice.change import Change, Checked, Problem, Refusal, Valid
from tools.advice.check import check, options_after
from tools.advice.command import Flag
from tools.advice.errors import LaunchUnreadable
from tools.advice.expected import expected_after
from tools.advice.launch import Form, Launch, parse_launch
from tools.advice.patch import Patch, patch, word_diff
from tools.advice.shown import launch_from, launch_in
from tools.advice.source_flags import Flags
from tools.advice.stages import Restart, Stage, plan_after, restart_cost
from tools.advice.surroundings import Beside, surroundings
from tools.advice.verification import Verified, verify

__all__ = [
    "Beside",
    "Catalogue",
    "Change",
    "Checked",
    "Flag",
    "FlagInfo",
    "Flags",
    "Form",
    "Launch",
    "LaunchUnreadable",
    "Patch",
    "Problem",
    "Refusal",
    "Restart",
    "Stage",
    "Valid",
    "Verified",
    "check",
    "expected_after",
    "launch_from",
    "launch_in",
    "options_after",
    "parse_launch",
    "patch",
    "plan_after",
    "restart_cost",
    "surroundings",
    "verify",
    "word_diff",
]
