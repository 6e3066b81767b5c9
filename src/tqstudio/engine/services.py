"""Bundles the parts of a running supervisor for the API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tqstudio.config import Settings
from tqstudio.engine.admission.admission import Admission
from tqstudio.engine.files.bounded_io import BoundedIO
from tqstudio.engine.gates.monitor import VolumeMonitor
from tqstudio.engine.intake import Intake
from tqstudio.engine.lifetime import Lifetime
from tqstudio.engine.live.event_stream import Broadcast
from tqstudio.engine.live.forecasts import Forecasts
from tqstudio.engine.live.running_jobs import LiveBoard
from tqstudio.engine.media.ffmpeg.binary import FFmpeg
from tqstudio.engine.queue.bulk_operations import AllJobs
from tqstudio.engine.queue.completion import Results
from tqstudio.engine.queue.dispatcher import Dispatch
from tqstudio.engine.queue.operations import Actions
from tqstudio.engine.queue.reports import Reports
from tqstudio.engine.queue.tokens import WorkerTokens
from tqstudio.engine.queue.worker_pool import WorkerPool
from tqstudio.engine.store.db.database import Database
from tqstudio.home import Home


@dataclass
class Services:
    """The objects that endpoints use."""

    home: Home
    settings: Settings
    db: Database
    board: LiveBoard
    broadcast: Broadcast
    forecasts: Forecasts
    dispatch: Dispatch
    reports: Reports
    volumes: VolumeMonitor
    bounded_io: BoundedIO
    results: Results
    admission: Admission
    actions: Actions
    all_jobs: AllJobs
    intake: Intake
    pool: WorkerPool
    identities: WorkerTokens
    ffmpeg: FFmpeg
    started_at: int
    """µs since 1970 in UTC."""
    request_stop: Callable[[bool], None]
    """Requests a shutdown; True drains running jobs first."""
    lifetime: Lifetime
    draining: bool = False
