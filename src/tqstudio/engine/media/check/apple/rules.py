"""Defines what a rule is, and the outcome of checking one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from tqstudio.engine.media.check.apple.package import Package

Level = Literal["MUST", "SHOULD"]


class RuleOutcome(StrEnum):
    """The outcome of a rule, from best to worst."""

    PASS = "pass"
    NOTE = "note"
    """Source, profile or version make it impossible to keep."""
    WARN = "warn"
    """A SHOULD is not kept."""
    FAIL = "fail"
    """A MUST is not kept."""


@dataclass(frozen=True, slots=True)
class Note:
    """A reason for which a rule cannot be kept."""

    text: str


Findings = Iterator[str | Note]
"""What a check finds: sentences about violations, and notes."""
Check = Callable[[Package], Findings]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule and its check."""

    number: str
    """As in the specification."""
    level: Level
    text: str
    check: Check


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a rule for one package."""

    number: str
    level: Level
    text: str
    outcome: RuleOutcome
    details: tuple[str, ...] = ()
    """Where it is not kept, or the reasons why it cannot be."""


def table(rules: list[Rule]) -> Callable[[str, Level, str], Callable[[Check], Check]]:
    """Make the decorator that enters a check in a list of rules."""

    def rule(number: str, level: Level, text: str) -> Callable[[Check], Check]:
        def enter(check: Check) -> Check:
            rules.append(Rule(number, level, text, check))
            return check

        return enter

    return rule


def result_of(rule: Rule, package: Package) -> Result:
    """Check one rule.

    Video without I-frames was published before these rules were checked: it gets warnings at most.
    """
    # A quality is listed once for every group of audio.
    found = list(dict.fromkeys(rule.check(package)))
    violations = tuple(each for each in found if isinstance(each, str))
    notes = tuple(each.text for each in found if isinstance(each, Note))
    outcome = RuleOutcome.NOTE if notes else RuleOutcome.PASS
    if violations:
        is_new = bool(package.iframes) or package.is_audio_only
        outcome = RuleOutcome.FAIL if rule.level == "MUST" and is_new else RuleOutcome.WARN
    return Result(rule.number, rule.level, rule.text, outcome, (*violations, *notes))
