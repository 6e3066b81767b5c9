"""Fills a database with jobs by SQL, in the product's own schema.

Indexes and triggers are taken away meanwhile and put back as they were: a million rows take seconds so.
"""

from __future__ import annotations

import json
import os
import sqlite3
from fractions import Fraction
from pathlib import Path

from tqstudio.engine.host.clock import MICROSECOND, now_us
from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.source.facts import AudioTrack, SourceFacts, VideoTrack
from tqstudio.engine.store.db.database import Database
from tqstudio.home import Home

RARE = "kingfisher"
"""A word in so few names that their videos are looked up: see `RARE_EVERY`."""
RARE_EVERY = 50_000
SCATTERED = "lighthouse"
"""A word in more names of a million than are looked up, and yet in few of the list."""
SCATTERED_EVERY = 401
FAR = "archive"
"""A word in the names of the first `FAR_JOBS` alone, the last ones of a list from the newest."""
FAR_JOBS = 2_000
COMMON = "beach"
"""A word in every tenth name."""
OWNER = "anna"
"""The owner of the jobs whose names have the rare word; they are retranscodes."""
FOLDER = 1
"""The id of the drop folder, which is off, of the videos whose names have the scattered word."""

# Six in ten wait, three are done: a queue in use. By the last digits of the id, so that they are mixed.
_STATUS = (
    "CASE WHEN i % 10 < 6 THEN 'pending' WHEN i % 10 < 9 THEN 'done'"
    " WHEN i % 100 < 60 THEN 'failed' WHEN i % 100 < 90 THEN 'cancelled' ELSE 'paused' END"
)
_WORD = (
    f"CASE WHEN i % {RARE_EVERY} = 7 THEN '{RARE}' WHEN i % {SCATTERED_EVERY} = 3 THEN '{SCATTERED}'"
    f" WHEN i <= {FAR_JOBS} THEN '{FAR}'"
    f" WHEN i % 10 = 1 THEN '{COMMON}' WHEN i % 10 = 2 THEN 'interview' ELSE 'holiday' END"
)


def seed(home: Home, jobs: int, backoff: int = 0) -> None:
    """Make the database of a home: `jobs` of all statuses, and `backoff` more that wait for a later time.

    Those stand in front of all others by priority and age. The pool's worker is switched off, so that no one
    takes the jobs away.
    """
    home.create()
    database = Database(home.database)
    database.open()
    database.close()
    db = sqlite3.connect(home.database, isolation_level=None)
    try:
        # No other process sees this database yet, so it needs no journal.
        db.execute("PRAGMA journal_mode=OFF")
        db.execute("PRAGMA synchronous=OFF")
        db.execute("PRAGMA cache_size=-200000")
        db.execute("BEGIN")
        put_back = _strip(db)
        _fill(db, home.output, jobs, backoff)
        for statement in put_back:
            db.execute(statement)
        db.execute("INSERT INTO worker (name, kind, enabled) VALUES ('cpu-0', 'cpu', 0)")
        db.execute("COMMIT")
        db.execute("PRAGMA journal_mode=WAL")
    finally:
        db.close()


def _strip(db: sqlite3.Connection) -> list[str]:
    """Drop the indexes and triggers of the filled tables; answers the statements that make them."""
    found = db.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE type IN ('index', 'trigger')"
        " AND tbl_name IN ('video', 'job') AND sql IS NOT NULL"
    ).fetchall()
    for kind, name, _ in found:
        db.execute(f"DROP {kind} {name}")
    return [statement for _, _, statement in found]


def _fill(db: sqlite3.Connection, output: Path, jobs: int, backoff: int) -> None:
    now = now_us()
    profile = profiles.load("fast")
    values = {
        "output": os.fsencode(output),
        "jobs": jobs,
        "all": jobs + backoff,
        "facts": json.dumps(_facts().to_json()),
        "profile": json.dumps(profile.to_json()),
        "prefer_gpu": int(profile.prefer_gpu),
        "now": now,
        "begin": now - 30 * 86_400 * MICROSECOND,
        "later": now + 86_400 * MICROSECOND,
    }
    ids = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :all)"
    db.execute(
        "INSERT INTO folder (id, path, output_root, profile, enabled, created_at)"
        f" VALUES ({FOLDER}, CAST('/media/drop' AS BLOB), :output, 'fast', 0, :now)",
        values,
    )
    db.execute(
        f"{ids}, named AS (SELECT i, {_WORD} || ' ' || printf('%07d', i) || ' take ' || (i % 7) AS name"
        " FROM n)"
        " INSERT INTO video (id, folder_id, source, output_root, name, name_lower, title, slug, size,"
        " mtime_ns, quick_hash, facts, created_at)"
        f" SELECT i, iif(i % {SCATTERED_EVERY} = 3, {FOLDER}, NULL),"
        " CAST('/media/drop/' || name || '.mp4' AS BLOB), :output,"
        " name || '.mp4', lower(name) || '.mp4', name, replace(name, ' ', '-'), 250000000 + i,"
        " 1700000000000000000 + i,"
        " printf('%064x', i), :facts, :begin + i FROM named",
        values,
    )
    db.execute(
        f"{ids} INSERT INTO job (id, video_id, kind, owner, profile, profile_json, prefer_gpu, status,"
        " progress, priority, not_before, ready_at, attempts, error_code, error_text, exhausted,"
        " created_at, started_at, completed_at)"
        f" SELECT i, i, iif(i % {RARE_EVERY} = 7, 'retranscode', 'new'),"
        f" iif(i % {RARE_EVERY} = 7, '{OWNER}', 'user'), 'fast', :profile, :prefer_gpu, status,"
        " iif(status = 'done', 100, 0),"
        " iif(waits, 100, i % 3), iif(waits, :later + i, NULL), iif(status = 'pending', :begin + i, NULL),"
        " iif(waits, 1, 0), iif(status = 'failed' OR waits, 'ENCODER_EXIT', NULL),"
        " iif(status = 'failed' OR waits, 'ffmpeg ended with status 1', NULL), 0,"
        " iif(waits, :begin - i, :begin + i), iif(ended, :begin + i, NULL),"
        " iif(ended, :begin + i + 60000000, NULL)"
        " FROM (SELECT i, i > :jobs AS waits, status, status IN ('done', 'failed', 'cancelled') AS ended"
        f" FROM (SELECT i, iif(i > :jobs, 'pending', {_STATUS}) AS status FROM n))",
        values,
    )
    db.execute(
        "INSERT INTO rendition (job_id, name, position, status, width, height, encoder, progress,"
        " segments_done, segments_total, settings_hash, stream_key)"
        " SELECT id, r.name, r.position, 'completed', r.width, r.height, 'libx264', 100, 20, 20,"
        " printf('%064x', id), printf('%064x', id) FROM job, (SELECT '720p' AS name, 0 AS position,"
        " 1280 AS width, 720 AS height UNION ALL SELECT '480p', 1, 854, 480"
        " UNION ALL SELECT '360p', 2, 640, 360) AS r WHERE job.status = 'done' ORDER BY id, r.name"
    )
    db.execute("UPDATE job_count SET n = (SELECT count(*) FROM job WHERE job.status = job_count.status)")


def _facts() -> SourceFacts:
    """Of a source like any other."""
    video = VideoTrack(
        index=0,
        codec="h264",
        profile="High",
        width=1920,
        height=1080,
        coded_width=1920,
        coded_height=1080,
        rotation=0,
        pix_fmt="yuv420p",
        bit_depth=8,
        fps=Fraction(30000, 1001),
        vfr=False,
        color_primaries=1,
        color_transfer=1,
        color_space=1,
        color_range=1,
        first_pts_s=Fraction(0),
        duration_s=120.0,
        own_duration=True,
        interlaced=False,
        bitrate=16_000_000,
        dv_profile=0,
        dv_compatibility=0,
    )
    sound = AudioTrack(
        index=1, codec="aac", channels=2, sample_rate=48_000, language="und", title="", default=True, role=""
    )
    return SourceFacts("mov,mp4,m4a,3gp,3g2,mj2", 120.0, 0.0, 16_200_000, 250_000_000, video, (sound,))
