"""The options that files are offered with, and what was found about such a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tqstudio.engine.admission import output_template
from tqstudio.engine.admission.change_detection import Certainty, SourceState
from tqstudio.engine.media.plan.profiles import Profile
from tqstudio.engine.media.source.fingerprint import Digest
from tqstudio.engine.store.library.videos import VideoRow
from tqstudio.lifecycle import NO_AUTORESTART, AutorestartRule


@dataclass(frozen=True, slots=True)
class Offer:
    """The options for the jobs of added files."""

    profile: Profile
    output_root: bytes
    template: str = output_template.DEFAULT
    """Where the ladders of new videos lie below the output."""
    base: bytes | None = None
    """What `{relative_dir}` of the template is relative to."""
    priority: int = 0
    hold: bool = False
    force: bool = False
    retry_failed: bool = True
    batch: str | None = None
    folder: int | None = None
    autorestart: AutorestartRule = NO_AUTORESTART
    max_attempts: int | None = None
    max_crashes: int | None = None
    """None means the settings."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    idempotency_key: str | None = None
    actor: str = "user"
    owner: str | None = None
    """Who adds the jobs; None means the actor."""
    named: frozenset[str] = frozenset()
    """Which of profile, priority, hold, autorestart, max_attempts and max_crashes were given explicitly; they
    apply to a waiting job."""
    certainty: Certainty = Certainty.SETTLED
    digests: Mapping[bytes, Digest] = field(default_factory=dict)
    """The digests that the caller has computed, by path."""
    may_read: bool = True
    """Compute a full hash of the file if needed, which may take minutes; otherwise raise `NotHashed`."""
    skip_duplicates: bool = False
    """Refuse a new file with the content of a source whose ladder fits the profile; needs its digest if it is
    large."""


@dataclass(frozen=True, slots=True)
class OfferedFile:
    """An offered file, and what the disk shows of it and of its published ladder."""

    path: bytes
    offer: Offer
    found: SourceState
    current: bool = False
    """The published ladder fits the file and the profile."""
    whole: bool = True
    """Nothing published is damaged; only checked where it matters."""
    broken: frozenset[str] = frozenset()
    """Damaged renditions of a current ladder, found by reading every byte."""
    left: VideoRow | None = None
    """The video whose source this file was before it was renamed."""
