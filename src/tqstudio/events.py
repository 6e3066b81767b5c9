"""Defines the kinds of events in the history. Clients read them as `trigger` of an event.

The words that the screens show for each kind are in `words/sentences.py`.
"""

from __future__ import annotations

from enum import StrEnum


class EventKind(StrEnum):
    """What happened: to a job, a video, a worker, a gate, a drop folder or the history itself."""

    # Status changes of a job: see `lifecycle.TRANSITIONS`.
    CREATE = "create"
    CREATE_HELD = "create_held"
    CLAIM = "claim"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RETRY = "retry"
    RESTART = "restart"
    UNCANCEL = "uncancel"
    UNCANCEL_PAUSED = "uncancel_paused"
    UNCANCEL_FAILED = "uncancel_failed"
    COMPLETE = "complete"
    FAIL_RETRYABLE = "fail_retryable"
    FAIL_FINAL = "fail_final"
    WORKER_LOST = "worker_lost"
    RELEASE = "release"
    AUTORESTART = "autorestart"

    # The same, with a closer reason in place of RELEASE or WORKER_LOST.
    ABORTED_SHUTDOWN = "aborted:shutdown"
    ABORTED_HOURS = "aborted:hours"
    REQUEUED_ABANDONED = "requeued:abandoned"
    REQUEUED_STALE = "requeued:stale"
    REQUEUED_SUPERVISOR = "requeued:supervisor"

    # Other changes of a job and its files.
    PAUSE_REQUESTED = "pause_requested"
    CANCEL_REQUESTED = "cancel_requested"
    RESTART_REQUESTED = "restart_requested"
    RESUME_REQUESTED = "resume_requested"
    POSTPONED = "postponed"
    PRIORITY_CHANGED = "priority_changed"
    PROFILE_CHANGED = "profile_changed"
    FORCED = "forced"
    RENAMED = "renamed"
    WARNING = "warning"
    DELETED = "deleted"
    UNDELETED = "undeleted"
    VIEWABLE = "viewable"
    PUBLISHED = "published"
    PUBLISH_UNDONE = "publish_undone"
    SOURCE_MOVED = "source_moved"
    SOURCE_DELETED = "source_deleted"
    WORK_REMOVED = "work_removed"
    GENERATION_REMOVED = "generation_removed"
    DELIVERED = "delivered"
    DELIVERY_FAILED = "delivery_failed"
    DELIVERY_REMOVED = "delivery_removed"
    VIDEO_DELETED = "video_deleted"
    VIDEO_UNDELETED = "video_undeleted"

    GATE_CLOSED = "gate_closed"
    GATE_OPENED = "gate_opened"

    LEADER_CHANGED = "leader_changed"

    WORKER_REGISTERED = "worker_registered"
    WORKER_ENDED = "worker_ended"
    WORKER_ENABLED = "worker_enabled"
    WORKER_DISABLED = "worker_disabled"
    WORKER_DRAINED = "worker_drained"
    WORKER_OFFLINE = "worker_offline"
    WORKER_ONLINE = "worker_online"
    WORKER_TESTED = "worker_tested"
    WORKER_QUARANTINED = "worker_quarantined"

    FOLDER_ADDED = "folder_added"
    FOLDER_CHANGED = "folder_changed"
    FOLDER_REMOVED = "folder_removed"

    WORKER_JOINED = "worker_joined"
    TOKEN_CREATED = "token_created"
    TOKEN_REVOKED = "token_revoked"

    PRUNED = "pruned"
